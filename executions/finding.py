"""Find executions by what people know of them, page by page.

Owns which question is asked of which index. Invariant: a page looks at a bounded number of rows, whatever is asked and
however many there are; where nothing matches for long, a page may hold few items or none and still have a next one.
"""

import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db.models import Q

from executions.identity import earliest_id, fire_time_of
from executions.models import Execution, ExecutionQuerySet
from executions.states import State, Trigger

LOOKED_AT = 10_000  # rows in one step
_STEPS = 2  # of a page
# An execution is planned a few seconds ahead of its fire time; none is further than that before its time comes.
_AHEAD = timedelta(minutes=1)
_NOT_BEFORE_ITS_TIME = {State.QUEUED, State.RUNNING, State.SUCCEEDED, State.DEAD}
# Each of these has an index in the order of the list.
_INDEXED_STATES = {State.DEAD, State.CANCELLED, State.SKIPPED}


@dataclass(frozen=True)
class Sought:
    """What is asked for. All that is said has to match; times are of the fire, since the first and before the last."""

    job_id: int | None = None
    states: tuple[State, ...] = ()
    triggers: tuple[Trigger, ...] = ()
    queue: str = ""
    worker: str = ""
    fingerprint: str = ""
    since: datetime | None = None
    until: datetime | None = None
    created_before: datetime | None = None

    def rows(self, *, now: datetime) -> ExecutionQuerySet:
        """Everything that matches, in no order."""
        return self.rest(self.leading(now)[0])

    def leading(self, now: datetime) -> tuple[ExecutionQuerySet, bool]:
        """The condition with the best index, and whether that is in the order of fire times and not of ids."""
        rows = self._in_time(now)
        if self.fingerprint:
            return rows.filter(fingerprint=self.fingerprint), False
        if len(self.states) == 1 and self.states[0] in _INDEXED_STATES and self.job_id is None:
            return rows.filter(state=self.states[0]), False
        if self.states == (State.RUNNING,):
            return rows.running(), False  # as many as there are places in the workers
        if self.job_id is not None:
            return rows.filter(job_id=self.job_id), True
        return rows, False

    def _in_time(self, now: datetime) -> ExecutionQuerySet:
        """Also on the id, which sorts by fire time."""
        rows = Execution.objects.all()
        until = self.until
        if self.worker or (self.states and set(self.states) <= _NOT_BEFORE_ITS_TIME):
            until = min(filter(None, [until, now + _AHEAD]))
        if self.since is not None:
            rows = rows.filter(pk__gte=earliest_id(self.since), fire_time__gte=self.since)
        if until is not None:
            rows = rows.filter(pk__lt=earliest_id(until + timedelta(milliseconds=1)), fire_time__lt=until)
        return rows

    def rest(self, rows: ExecutionQuerySet) -> ExecutionQuerySet:
        if self.job_id is not None:
            rows = rows.filter(job_id=self.job_id)
        if self.states:
            rows = rows.filter(state__in=self.states)
        if self.triggers:
            rows = rows.filter(trigger__in=self.triggers)
        for name in ("queue", "worker", "fingerprint"):
            if value := getattr(self, name):
                rows = rows.filter(**{name: value})
        if self.created_before is not None:
            rows = rows.filter(created_at__lt=self.created_before)
        return rows


class Place(NamedTuple):
    """Where in the list an execution stands."""

    fire_time: datetime
    pk: uuid.UUID


@dataclass(frozen=True)
class Page:
    rows: list[Execution]
    last: Place | None  # the next page begins after this one; None: there is no next


def newest_first(sought: Sought, *, limit: int, now: datetime, after: Place | None = None) -> Page:
    """A page of what matches, the latest fire first."""
    found: list[Execution] = []
    for _ in range(_STEPS):
        lead, is_by_fire_time = sought.leading(now)
        lead = lead.order_by("-fire_time", "-pk") if is_by_fire_time else lead.order_by("-pk")
        if after is not None:
            lead = lead.filter(*_beyond(after, is_by_fire_time=is_by_fire_time))
        furthest = list(lead.values_list("fire_time", "pk")[LOOKED_AT - 1 : LOOKED_AT])
        lowest = Place._make(furthest[0]) if furthest else None
        near = lead if lowest is None else lead.filter(*_down_to(lowest, is_by_fire_time=is_by_fire_time))
        found += sought.rest(near).select_related("job").defer(*_LONG)[: limit - len(found) + 1]
        if len(found) > limit:
            last = found[limit - 1]
            return Page(found[:limit], Place(last.fire_time, last.pk))
        if lowest is None:
            return Page(found, None)
        after = lowest
    return Page(found, after)


_LONG = ("args", "kwargs", "result", "checkpoint", "progress")
_INSTANT = timedelta(milliseconds=1)  # to which an id carries its fire time


def _beyond(place: Place, *, is_by_fire_time: bool) -> list[Q]:
    if is_by_fire_time:
        return [Q(fire_time__lte=place.fire_time), Q(fire_time__lt=place.fire_time) | Q(pk__lt=place.pk)]
    return [Q(pk__lt=place.pk, fire_time__lt=fire_time_of(place.pk) + _INSTANT)]


def _down_to(place: Place, *, is_by_fire_time: bool) -> list[Q]:
    if is_by_fire_time:
        return [Q(fire_time__gte=place.fire_time), Q(fire_time__gt=place.fire_time) | Q(pk__gte=place.pk)]
    return [Q(pk__gte=place.pk, fire_time__gte=fire_time_of(place.pk))]


def beyond(rows: ExecutionQuerySet, last: uuid.UUID | None) -> ExecutionQuerySet:
    """Those that come after this one in the order of ids; all, if none is named."""
    return rows if last is None else rows.filter(pk__gt=last, fire_time__gte=fire_time_of(last))
