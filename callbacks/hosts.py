"""How many calls a host gets at once, and when it is left alone.

Owns both limits, for all workers together, in the database. Invariants: no host has more calls under way than it may;
one that failed several times in a row rests, then gets a single call, and by its outcome rests longer or is well again;
what has to wait has used up no attempt, says why, and comes back in a line, not all at once. A worker that dies leaves
its place taken until somebody who wants it sees that its attempt is over, or its time is.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db import Error, transaction

from callbacks.models import ERROR_CHARACTERS, Host, HostCall
from executions import database_line, events
from executions.clock import Clock
from executions.models import Execution
from executions.storable import in_a_line, storable_text
from workers.patience import SHORT_SECONDS, reaching_database

FAILURES_UNTIL_REST = 5
FIRST_REST = timedelta(seconds=30)
LONGEST_REST = timedelta(minutes=15)
FORGOTTEN_AFTER = timedelta(days=30)
# Who finds no place comes again after this long at the soonest; in a long line later, up to the longest wait.
_SOONEST, _LATEST = timedelta(seconds=2), timedelta(hours=1)
# Between two of a line. Twice as many come as places will be free, so that none stays empty; the others wait once more.
_SHORTEST_STEP_SECONDS = 0.02
_COMERS_PER_PLACE = 2
# A call is over for certain when its deadline has passed, and this much for what comes around it.
_AROUND_A_CALL = timedelta(seconds=60)
_UNTIL_CLAIMED = timedelta(seconds=10)  # a place is taken before its attempt is
_NOTED_WHEN_OTHER_BY = 1.5  # times as long, or as short

_clock = Clock()


@dataclass(frozen=True)
class NotNow:
    """The host gets no call now."""

    reason: str
    until: datetime


@contextmanager
def place_at(origin: str, execution_id: UUID, attempt: int, *, seconds: float) -> Iterator[NotNow | None]:
    """A place for one call, given back at the end; or why there is none."""
    taken = reaching_database(
        lambda: take(origin, execution_id, attempt, seconds=seconds, now=_clock.now()), SHORT_SECONDS
    )
    try:
        yield taken if isinstance(taken, NotNow) else None
    finally:
        if isinstance(taken, HostCall):
            try:
                with database_line.hurried():
                    taken.delete()
            except Error as error:
                events.warn("a place at a host is given back later", host=origin, error=in_a_line(error))


def take(origin: str, execution_id: UUID, attempt: int, *, seconds: float, now: datetime) -> HostCall | NotNow | None:
    """None: this very call has its place already, by another copy of its message; the claim decides between them."""
    with transaction.atomic():
        host = _held(origin, now=now)
        if _is_resting(host, now):
            return NotNow(_resting(host), _turn(host, now=now))
        places = _standing(list(host.calls.all()), most=_most(host), now=now)
        if any((place.execution_id, place.attempt) == (execution_id, attempt) for place in places):
            return None
        if len(places) >= _most(host):
            return NotNow(f"waits: {_most(host)} at once may call {origin}", _turn(host, now=now))
        until = now + timedelta(seconds=seconds) + _AROUND_A_CALL
        return HostCall.objects.create(host=host, execution_id=execution_id, attempt=attempt, taken_at=now, until=until)


def _most(host: Host) -> int:
    is_tried = host.failures >= FAILURES_UNTIL_REST
    most: int = 1 if is_tried else settings.ONBEAT_CALLBACKS_PER_HOST
    return most


def _standing(places: list[HostCall], *, most: int, now: datetime) -> list[HostCall]:
    """Without those whose call is over for certain: their workers died. If all are taken they are looked at closely."""
    over = [place for place in places if place.until <= now]
    if len(places) - len(over) >= most:
        ids = [place.execution_id for place in places if place.taken_at <= now - _UNTIL_CLAIMED]
        running = set(Execution.objects.with_ids(ids).running().values_list("pk", "attempt"))
        over += [p for p in places if p.execution_id in ids and (p.execution_id, p.attempt) not in running]
    if over:
        HostCall.objects.filter(pk__in=[place.pk for place in over]).delete()
    return [place for place in places if place not in over]


def _turn(host: Host, *, now: datetime) -> datetime:
    """When one who has to wait comes again: at the end of the line, which begins when a rest is over."""
    begins = max(now, host.rests_until or now)
    step = max(_SHORTEST_STEP_SECONDS, host.usual_seconds / _most(host) / _COMERS_PER_PLACE)
    turn = begins if host.line_until is None or host.line_until < begins else host.line_until
    host.line_until = min(turn + timedelta(seconds=step), now + _LATEST)
    host.save(update_fields=["line_until"])
    return max(turn, now + _SOONEST)


def went_well(origin: str, *, seconds: float, now: datetime) -> None:
    host = Host.objects.filter(origin=origin).first()
    if host is None or not (host.failures or _is_other(host.usual_seconds, seconds)):
        return
    with transaction.atomic():
        host = _held(origin, now=now)
        if host.rests:
            events.emit("a host is well again", host=origin)
        host.failures, host.rests, host.rests_until = 0, 0, None
        host.usual_seconds, host.used_at = _smoothed(host.usual_seconds, seconds), now
        host.save()


def went_wrong(origin: str, error: str, *, began: datetime, now: datetime) -> None:
    """Calls that were under way when a rest began do not prolong it."""
    with transaction.atomic():
        host = _held(origin, now=now)
        host.last_error, host.used_at = storable_text(error, ERROR_CHARACTERS), now
        if host.rests_until is None or began >= host.rests_until:
            host.failures += 1
            if host.failures >= FAILURES_UNTIL_REST:
                host.rests_until = now + min(FIRST_REST * 2 ** min(host.rests, 10), LONGEST_REST)
                host.rests += 1
                events.warn("a host rests", host=origin, until=host.rests_until, failures=host.failures, error=error)
        host.save()


def _held(origin: str, *, now: datetime) -> Host:
    hosts = Host.objects.select_for_update().filter(origin=origin)
    host = hosts.first()
    if host is None:
        Host.objects.filter(used_at__lt=now - FORGOTTEN_AFTER, calls=None).delete()
        Host.objects.bulk_create([Host(origin=origin, used_at=now)], ignore_conflicts=True)
        host = hosts.get()
    if host.used_at < now - FORGOTTEN_AFTER / 2:
        host.used_at = now
        host.save(update_fields=["used_at"])
    return host


def _is_other(usual: float, seconds: float) -> bool:
    return not usual / _NOTED_WHEN_OTHER_BY <= max(seconds, _SHORTEST_STEP_SECONDS) <= usual * _NOTED_WHEN_OTHER_BY


def _smoothed(usual: float, seconds: float) -> float:
    return max(_SHORTEST_STEP_SECONDS, usual * 0.7 + seconds * 0.3)


def _is_resting(host: Host, now: datetime) -> bool:
    return host.rests_until is not None and host.rests_until > now


def _resting(host: Host) -> str:
    assert host.rests_until is not None
    until = f"{host.rests_until.astimezone(UTC):%H:%M:%S} UTC"
    return f"{host.origin} rests until {until}: {host.failures} failures in a row, the last: {host.last_error}"


def state_of(host: Host, now: datetime) -> str:
    """In a word."""
    if _is_resting(host, now):
        return "resting"
    if host.failures >= FAILURES_UNTIL_REST:
        return "tried"
    return "failing" if host.failures else "well"
