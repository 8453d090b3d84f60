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
from executions.models import UNUSUAL_ENDS, Execution, ExecutionQuerySet
from executions.states import State, Trigger

LOOKED_AT = 10_000  # rows for one page
_APART = 10  # times fewer where they do not lie side by side: each of them is another page of the disk
# An execution is planned a few seconds ahead of its fire time; none is further than that before its time comes.
_AHEAD = timedelta(minutes=1)
_NOT_BEFORE_ITS_TIME = {State.QUEUED, State.RUNNING, State.SUCCEEDED, State.DEAD}


@dataclass(frozen=True)
class Sought:
    """What is asked for. All that is said has to match; times are of the fire, since the first and before the last."""

    job_id: int | None = None
    states: tuple[State, ...] = ()
    triggers: tuple[Trigger, ...] = ()
    queue: str = ""
    worker: str = ""
    fingerprint: str = ""
    error: str = ""  # a part of it, in capitals or not
    since: datetime | None = None
    until: datetime | None = None
    created_before: datetime | None = None

    def rows(self, *, now: datetime) -> ExecutionQuerySet:
        """Everything that matches, in no order."""
        return self.rest(self._in_time(now))

    def lead(self, now: datetime) -> "Lead":
        """What the best index answers of it."""
        names = self._leading()
        led = Sought(since=self.since, until=self.until, **{name: getattr(self, name) for name in names})
        is_by_fire_time = names == ("job_id",)
        # By fire time not by id as well: the database takes the two for independent, so expects few rows, and reads
        # them by the ids of all jobs.
        rows = led.rest(self._in_time(now, by_id=not is_by_fire_time))
        looked_at = max(LOOKED_AT // _APART, 1) if names else LOOKED_AT
        return Lead(rows, is_all=led == self, is_by_fire_time=is_by_fire_time, looked_at=looked_at)

    def _leading(self) -> tuple[str, ...]:
        """The fields that have the best index; none: the ids themselves."""
        if self.fingerprint:
            return ("fingerprint",)
        if self.states == (State.RUNNING,):
            return ("states",)  # as many as there are places in the workers
        of_job = () if self.job_id is None else ("job_id",)
        is_unusual = len(self.states) == 1 and self.states[0] in UNUSUAL_ENDS
        return (*of_job, "states") if is_unusual else of_job

    def _in_time(self, now: datetime, *, by_id: bool = True) -> ExecutionQuerySet:
        """Also by id, which sorts by fire time."""
        rows = Execution.objects.all()
        until = self.until
        if self.worker or (self.states and set(self.states) <= _NOT_BEFORE_ITS_TIME):
            until = min(filter(None, [until, now + _AHEAD]))
        if self.since is not None:
            rows = rows.filter(fire_time__gte=self.since)
            rows = rows.filter(pk__gte=earliest_id(self.since)) if by_id else rows
        if until is not None:
            rows = rows.filter(fire_time__lt=until)
            rows = rows.filter(pk__lt=earliest_id(until + _INSTANT)) if by_id else rows
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
        if self.error:
            rows = rows.filter(error__icontains=self.error)
        if self.created_before is not None:
            rows = rows.filter(created_at__lt=self.created_before)
        return rows


@dataclass(frozen=True)
class Lead:
    """Rows that an index leads to, and which way."""

    rows: ExecutionQuerySet
    is_all: bool  # nothing else is asked for: each of these rows matches
    is_by_fire_time: bool  # and not by id
    looked_at: int  # for one page, at most

    def after(self, place: "Place | None") -> ExecutionQuerySet:
        rows = self.rows.order_by("-fire_time", "-pk") if self.is_by_fire_time else self.rows.order_by("-pk")
        return rows if place is None else rows.filter(*_beyond(place, is_by_fire_time=self.is_by_fire_time))


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
    lead = sought.lead(now)
    rows = lead.after(after)
    lowest = None if lead.is_all else _furthest(rows, lead.looked_at)
    near = rows if lowest is None else rows.filter(*_down_to(lowest, is_by_fire_time=lead.is_by_fire_time))
    found = list(in_short(sought.rest(near))[: limit + 1])
    if len(found) > limit:
        last = found[limit - 1]
        return Page(found[:limit], Place(last.fire_time, last.pk))
    return Page(found, lowest)


def in_short(rows: ExecutionQuerySet) -> ExecutionQuerySet:
    """With the key of the job, and without what may be long."""
    return rows.select_related("job").only(*_SHORT, "job__key")


def _furthest(rows: ExecutionQuerySet, looked_at: int) -> Place | None:
    """The last of so many rows; None: there are fewer."""
    furthest = list(rows.values_list("fire_time", "pk")[looked_at - 1 : looked_at])
    return Place._make(furthest[0]) if furthest else None


_LONG = {"args", "kwargs", "result", "checkpoint", "progress", "response"}
_SHORT = [field.attname for field in Execution._meta.concrete_fields if field.attname not in _LONG]
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
