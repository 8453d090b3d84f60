"""How many calls a host gets at once, and when it is left alone.

Owns both limits, for all workers together, in the database. Invariants: no host has more calls under way than it may;
one that failed several times in a row rests, then gets a single call, and by its outcome rests longer or is well again;
what has to wait has used up no attempt, and says why. A worker that dies leaves its place taken until its call is over
for certain.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db import Error, transaction

from callbacks.models import ERROR_CHARACTERS, Host, HostCall
from executions import events
from executions.clock import Clock
from executions.storable import in_a_line, storable_text
from workers.patience import SHORT_SECONDS, reaching_database

FAILURES_UNTIL_REST = 5
FIRST_REST = timedelta(seconds=30)
LONGEST_REST = timedelta(minutes=15)
# Who finds no place looks again after this long; in a long line later, as if each call took a second.
SOONEST_LOOK, LATEST_LOOK = timedelta(seconds=1), timedelta(minutes=1)
_CALL_SECONDS = 1.0
# A call is over for certain when its deadline has passed, and this much for what comes around it.
_AROUND_A_CALL = timedelta(seconds=60)

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
                taken.delete()
            except Error as error:
                events.warn("a place at a host is given back later", host=origin, error=in_a_line(error))


def take(origin: str, execution_id: UUID, attempt: int, *, seconds: float, now: datetime) -> HostCall | NotNow | None:
    """None: this very call has its place already, by another copy of its message; the claim decides between them."""
    with transaction.atomic():
        host = _held(origin, now=now)
        if host.rests_until is not None and host.rests_until > now:
            return NotNow(_resting(host), host.rests_until)
        HostCall.objects.filter(host=host, until__lte=now).delete()
        under_way = set(host.calls.values_list("execution_id", "attempt"))
        if (execution_id, attempt) in under_way:
            return None
        most = _most(host)
        if len(under_way) >= most:
            return NotNow(f"waits: {most} at once may call {origin}", _end_of_line(host, most, now=now))
        until = now + timedelta(seconds=seconds) + _AROUND_A_CALL
        return HostCall.objects.create(host=host, execution_id=execution_id, attempt=attempt, until=until)


def _most(host: Host) -> int:
    is_tried = host.failures >= FAILURES_UNTIL_REST
    most: int = 1 if is_tried else settings.ONBEAT_CALLBACKS_PER_HOST
    return most


def _end_of_line(host: Host, most: int, *, now: datetime) -> datetime:
    line = max(host.line_until or now, now) + timedelta(seconds=_CALL_SECONDS / most)
    host.line_until = min(line, now + LATEST_LOOK)
    host.save(update_fields=["line_until"])
    return max(host.line_until, now + SOONEST_LOOK)


def went_well(origin: str, *, now: datetime) -> None:
    troubled = Host.objects.filter(origin=origin, failures__gt=0)
    was_resting = troubled.filter(rests__gt=0).exists()
    if troubled.update(failures=0, rests=0, rests_until=None, changed_at=now) and was_resting:
        events.emit("a host is well again", host=origin)


def went_wrong(origin: str, error: str, *, now: datetime) -> None:
    """Calls that were under way when the rest began do not prolong it."""
    with transaction.atomic():
        host = _held(origin, now=now)
        host.failures += 1
        host.last_error, host.changed_at = storable_text(error, ERROR_CHARACTERS), now
        is_resting = host.rests_until is not None and host.rests_until > now
        if host.failures >= FAILURES_UNTIL_REST and not is_resting:
            host.rests_until = now + min(FIRST_REST * 2 ** min(host.rests, 10), LONGEST_REST)
            host.rests += 1
            events.warn("a host rests", host=origin, until=host.rests_until, failures=host.failures, error=error)
        host.save()


def _held(origin: str, *, now: datetime) -> Host:
    Host.objects.bulk_create([Host(origin=origin, changed_at=now)], ignore_conflicts=True)
    return Host.objects.select_for_update().get(origin=origin)


def _resting(host: Host) -> str:
    assert host.rests_until is not None
    until = f"{host.rests_until.astimezone(UTC):%H:%M:%S} UTC"
    return f"{host.origin} rests until {until}: {host.failures} failures in a row, the last: {host.last_error}"


def state_of(host: Host, now: datetime) -> str:
    """In a word."""
    if host.rests_until is not None and host.rests_until > now:
        return "resting"
    if host.failures >= FAILURES_UNTIL_REST:
        return "tried"
    return "failing" if host.failures else "well"
