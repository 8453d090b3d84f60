"""What changes among executions, from one look to the next.

Owns what a watcher remembers, and which question is asked of which index. In sight are executions that run, that fired
a moment ago or are about to, of which an attempt ended since the look before, and those that were seen and are not
over. Invariants: a look is one statement, and costs what is in sight; what changed is told once, as it is by then, so
that an execution that passed through several states between two looks is told in the last of them.
"""

import uuid
from collections import OrderedDict, deque
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from django.db.models import F, Max, QuerySet, Value

from executions.finding import Sought, in_short
from executions.models import Attempt, Execution
from executions.states import OPEN, State

# Runs that are asked for are stored a little after the moment they are of, and fires a little before.
_BEHIND = timedelta(seconds=15)
_AHEAD = timedelta(seconds=15)
# An attempt's number is given before its transaction is committed: a lower one may be seen later.
_OVERLAP = timedelta(seconds=5)
MOST_REMEMBERED = 50_000
_MOST_NAMED = 1000  # of those that are not over, in one statement

_Sight = tuple[str, int]  # state, attempt


class Watch:
    """The executions that match, from one look to the next. Of several states, what enters one of them is told."""

    def __init__(self, sought: Sought) -> None:
        self._sought = replace(sought, states=())  # what leaves a state and comes back has changed twice
        self._states = sought.states or tuple(State)
        self._seen: OrderedDict[uuid.UUID, _Sight] = OrderedDict()  # what was looked at last stands last
        self._named: list[uuid.UUID] = []  # those that the next look asks for by their ids
        self._looked_at: datetime | None = None
        self._attempts: deque[tuple[datetime, int]] = deque()  # when, and up to which number they were seen

    def look(self, now: datetime) -> list[Execution]:
        """What has changed since the look before, in the order in which it did; at the first look, what is not over."""
        is_first = self._looked_at is None
        found = self._sights(now)
        changed = [pk for pk, sight in found.items() if self._seen.get(pk) != sight]
        rows = list(in_short(Execution.objects.with_ids(changed))) if changed else []
        self._remember({**found, **{row.pk: (row.state, row.attempt) for row in rows}})
        # Those that were not looked at for longest; so that each has its turn, if there are many.
        self._named = list(islice((pk for pk, (state, _) in self._seen.items() if state in OPEN), _MOST_NAMED))
        self._looked_at = now
        told = [row for row in rows if row.state in self._states and (row.state in OPEN or not is_first)]
        return sorted(told, key=lambda row: (changed_at(row, now=now), row.pk))

    @property
    def are_all_over(self) -> bool:
        """Whether nothing that was seen is still to come."""
        return not any(state in OPEN for state, _ in self._seen.values())

    def _sights(self, now: datetime) -> dict[uuid.UUID, _Sight]:
        if not self._attempts:
            last = Attempt.objects.aggregate(last=Max("pk"))["last"] or 0
            self._attempts.append((now, last))
        found: dict[uuid.UUID, _Sight] = {}
        highest = self._attempts[-1][1]
        for pk, state, attempt, tried in self._statement(now):
            found[pk] = state, attempt
            highest = max(highest, tried)
        self._attempts.append((now, highest))
        while self._attempts[1][0] <= now - _OVERLAP:
            self._attempts.popleft()
        return found

    def _statement(self, now: datetime) -> "QuerySet[Execution, tuple[Any, ...]]":
        rows = Execution.objects.all()
        recent = rows.firing_between((self._looked_at or now) - _BEHIND, now + _AHEAD)
        others = [rows.running(), *([rows.with_ids(self._named)] if self._named else [])]
        tried = self._sought.rest(rows.annotate(tried=F("attempts__pk")).filter(tried__gt=self._attempts[0][1]))
        columns = ("pk", "state", "attempt", "tried")
        parts = [self._sought.rest(part).annotate(tried=Value(0)) for part in (recent, *others)]
        first, *rest = (part.order_by().values_list(*columns) for part in (*parts, tried))
        return first.union(*rest)

    def _remember(self, sights: dict[uuid.UUID, _Sight]) -> None:
        for pk in self._named:
            if pk not in sights:
                self._seen.pop(pk, None)  # it was taken back, as when its job is paused
        for pk, sight in sights.items():
            self._seen[pk] = sight
            self._seen.move_to_end(pk)
        while len(self._seen) > MOST_REMEMBERED:
            self._seen.popitem(last=False)


def changed_at(execution: Execution, *, now: datetime) -> datetime:
    """When it came to where it is, as far as its row tells."""
    match State(execution.state):
        case State.SCHEDULED:
            return execution.created_at if execution.attempt == 1 and not execution.reason else now
        case State.QUEUED:
            return execution.queued_at or now
        case State.RUNNING:
            return execution.started_at or now
    return execution.finished_at or now
