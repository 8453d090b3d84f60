"""Schedules of which the same number is due at every second, for as long as they are there.

They take turns: each fires once in a period, and each second of the period has as many of them. Three of four are CRON
in UTC, one is an interval; both name whole seconds, so all of a second are due at one instant. The period is one that a
cron expression can say. Their jobs run `onbeat.echo` on the default queue, without a limit. Invariant: none of them
fires before the moment that is told when they are stored.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from benchmarks.many_executions import TASK
from launcher.refusal import Refusal

_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
# In seconds: what divides a minute, and whole minutes and hours that divide an hour and a day.
PERIODS = sorted(
    {unit * n for unit, n_of in ((1, 60), (_MINUTE, 60), (_HOUR, 24)) for n in range(1, 61) if not n_of % n}
)
_KEYS = "due-"

# Those that another measurement on the same database left are taken again.
_STORE_JOBS = """
INSERT INTO onbeat_job (
    key, state, task, args, kwargs, queue, priority, max_attempts, max_lost, retry, stop_grace_seconds, keep_result,
    overlap, owner, tags, paused_reason, paused_by, version, created_at, changed_at
)
SELECT
    %(keys)s || number, 'ACTIVE', %(task)s, '[]', jsonb_build_object('message', 'of job ' || number), 'default',
    CASE number %% 10 WHEN 3 THEN 9 WHEN 7 THEN 1 ELSE 5 END, 3, 3, '{}', 30, false,
    'ALLOW', 'team-' || number %% 12, '[]', '', '', 1, %(now)s, %(now)s
FROM generate_series(0, %(count)s - 1) AS number
ON CONFLICT DO NOTHING
"""

# Number n has its turn in second n %% period of the period.
_STORE_SCHEDULES = """
INSERT INTO onbeat_schedule (
    job_id, kind, expression, timezone, anchor_at, misfire_grace_seconds, misfire, misfire_limit, jitter_seconds,
    is_active, next_fire_at, version
)
SELECT
    job.id, kind, CASE kind WHEN 'CRON' THEN turn.expression ELSE %(period)s::text END, 'UTC',
    CASE kind WHEN 'EVERY' THEN turn.fire_at END,
    3600, 'FIRE_ONCE', 100, 0, true, turn.fire_at, 1
FROM (
    SELECT number, CASE WHEN number / %(period)s %% 4 = 3 THEN 'EVERY' ELSE 'CRON' END AS kind
    FROM generate_series(0, %(count)s - 1) AS number
) AS numbered
JOIN onbeat_job AS job ON job.key = %(keys)s || number AND job.state = 'ACTIVE'
JOIN unnest(%(expressions)s::text[], %(fires)s::timestamptz[]) WITH ORDINALITY AS turn (expression, fire_at, place)
    ON turn.place = number %% %(period)s + 1
"""

_STOP = """
UPDATE onbeat_schedule SET is_active = false, version = version + 1
FROM (SELECT id FROM onbeat_job WHERE key LIKE %(like)s ORDER BY id) AS due
WHERE job_id = due.id AND is_active
"""

_FORGET = """
DELETE FROM onbeat_schedule USING onbeat_job AS job WHERE job.id = job_id AND job.key LIKE %(like)s
"""


@dataclass(frozen=True)
class Turns:
    """How many fire at each second, and after how many seconds each has had its turn."""

    rate: int
    period: int

    @property
    def schedules(self) -> int:
        return self.rate * self.period

    def expression(self, second: int) -> str:
        """A cron expression for the fires of one second of the period, which begins at midnight."""
        if self.period <= _MINUTE:
            return f"{_step(second, self.period, _MINUTE)} * * * * *"
        minute, second = divmod(second, _MINUTE)
        if self.period <= _HOUR:
            return f"{second} {_step(minute, self.period // _MINUTE, 60)} * * * *"
        hour, minute = divmod(minute, 60)
        return f"{second} {minute} {_step(hour, self.period // _HOUR, 24)} * * *"

    def fire_at(self, second: int, *, first: datetime) -> datetime:
        """The first fire of one second of the period that is not before a moment, which is a whole second."""
        midnight = first.replace(hour=0, minute=0, second=0)
        passed = int((first - midnight).total_seconds())
        return first + timedelta(seconds=(second - passed) % self.period)


def _step(first: int, step: int, end: int) -> str:
    return str(first) if step == end else f"{first}-{end - 1}/{step}"


def turns(schedules: int, rate: int, seconds: float) -> Turns:
    """Such that each fires once in so many seconds, or as rarely as so many schedules allow."""
    if schedules < rate:
        raise Refusal(
            f"{schedules:,} schedules cannot fire {rate:,} times a second: ask for more of them, or a lower rate."
        )
    enough = next((period for period in PERIODS if period >= seconds), PERIODS[-1])
    return Turns(rate, max(period for period in PERIODS if period <= min(enough, schedules // rate)))


def store(wanted: Turns, *, after: datetime) -> datetime:
    """Store them; returns their first second, from which on they fire until they are stopped."""
    from django.db import connection, transaction

    from executions.clock import database_now

    first = after.astimezone(UTC).replace(microsecond=0) + timedelta(seconds=1)
    seconds = range(wanted.period)
    given: dict[str, Any] = {
        "keys": _KEYS,
        "task": TASK,
        "count": wanted.schedules,
        "period": wanted.period,
        "now": database_now(),
        "expressions": [wanted.expression(second) for second in seconds],
        "fires": [wanted.fire_at(second, first=first) for second in seconds],
    }
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_STORE_JOBS, given)
        cursor.execute(_STORE_SCHEDULES, given)
        if cursor.rowcount != wanted.schedules:
            raise Refusal(f"{wanted.schedules:,} schedules became {cursor.rowcount:,}: is this database new?")
    return first


def stop() -> None:
    """No further fires. What was planned ahead still comes."""
    _execute(_STOP)


def forget() -> None:
    """Those of an earlier measurement. Their jobs stay, which have executions."""
    _execute(_FORGET)


def _execute(statement: str) -> None:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(statement, {"like": f"{_KEYS}%"})


# ── What became of them ──────────────────────────────────────────────────────────────────────────────────────────


def are_all_over(first: datetime) -> bool:
    """Whether nothing that fired since then still waits or runs."""
    from executions.clock import database_now
    from executions.models import Execution

    return not Execution.objects.firing_between(first, database_now() + timedelta(minutes=1)).open().exists()


def see_that_each_fired_once(wanted: Turns, *, first: datetime, end: datetime) -> None:
    """One row for each fire from the first second up to the end, one good attempt for each row, and nothing else."""
    from django.db.models import Count

    from executions.models import Attempt, Execution
    from executions.states import Outcome, State

    rows = Execution.objects.firing_between(first, end)
    by_second = list(rows.order_by().values_list("fire_time").annotate(Count("job", distinct=True), Count("pk")))
    seconds = int((end - first).total_seconds())
    odd = [moment for moment, jobs, fires in by_second if jobs != wanted.rate or fires != wanted.rate]
    succeeded = rows.filter(state=State.SUCCEEDED, attempt=1).count()
    attempts = Attempt.objects.filter(fire_time__gte=first, fire_time__lt=end, outcome=Outcome.SUCCEEDED).count()
    expected = seconds * wanted.rate
    if odd or len(by_second) != seconds or not succeeded == attempts == expected:
        raise Refusal(
            f"{expected:,} fires became {sum(fires for _, _, fires in by_second):,} executions in {len(by_second):,} "
            f"of {seconds:,} seconds; {succeeded:,} succeeded, in {attempts:,} attempts: no figure is worth that."
        )


def lateness(start: datetime, end: datetime) -> list[float]:
    """Seconds, of the fires within a time: until the broker confirmed, or until a worker began, if that came first."""
    from django.db.models import F
    from django.db.models.functions import Coalesce

    from executions.models import Execution

    rows = Execution.objects.firing_between(start, end).annotate(sent_at=Coalesce("queued_at", "started_at"))
    lates = rows.annotate(late=F("sent_at") - F("fire_time")).values_list("late", flat=True)
    return [late.total_seconds() for late in lates]
