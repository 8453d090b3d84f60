"""Which schedules fire within a day, and how many of them bring the same fires.

Owns what makes a difference to a forecast. Invariant: schedules that are taken for the same fire as often in each ten
minutes of the day. There may be a million of them: PostgreSQL puts them together by itself, chooses if too many differ,
and no more than those come here. On SQLite there are few, and each is looked at here.
A schedule that nobody can read stays as it is, alone; whoever reads it leaves it out.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from datetime import datetime
from itertools import chain
from typing import NamedTuple

from django.db import connection
from django.db.models import Case, CharField, Count, F, Value, When

from jobs import forecast
from jobs.cron import depends_on_key
from jobs.models import Kind, Schedule
from jobs.recurrence import Every


class Said(NamedTuple):
    """When jobs fire, as the columns of their schedules say."""

    kind: str
    expression: str
    timezone: str
    key: str  # of the job, if it makes a difference
    anchor_at: datetime | None
    start_at: datetime | None
    end_at: datetime | None
    fires_left: int | None
    jitter_seconds: int
    next_fire_at: datetime


class Chosen(NamedTuple):
    said: Iterable[tuple[Said, float]]  # and how many jobs it stands for
    is_all: bool  # else some stand for others


_Counted = tuple[Said, int]


def choose(now: datetime, start: datetime, *, most: int) -> Chosen:
    """What the schedules with a fire within the day from a start say; if more than so many differ, so many of them.

    The most numerous are counted, and of the others some stand for all.
    """
    if connection.vendor == "postgresql":
        return _choose_there(now, start, most)
    found: Counter[Said] = Counter()
    for said, jobs in _read_all(start):
        found[_in_short(said, now, start)] += jobs
    if len(found) <= most:
        return Chosen(found.items(), is_all=True)
    in_order = sorted(found.items(), key=lambda item: (-item[1], item[0].next_fire_at, item[0].expression, item[0].key))
    many, few = in_order[: most // 2], in_order[most // 2 :]
    room = most - len(many)
    picked = [few[number * len(few) // room] for number in range(room)]
    return _standing_for(many, picked, jobs=found.total())


def _standing_for(many: Collection[_Counted], picked: Collection[_Counted], *, jobs: int) -> Chosen:
    """These are counted, those stand for the rest of so many jobs."""
    times = (jobs - sum(each for _, each in many)) / sum(each for _, each in picked)
    return Chosen(chain(many, ((said, each * times) for said, each in picked)), is_all=False)


def _in_short(said: Said, now: datetime, start: datetime) -> Said:
    try:
        return _without_what_makes_no_difference(said, now, start)
    except Exception:
        return said  # broken by SQL


def _without_what_makes_no_difference(said: Said, now: datetime, start: datetime) -> Said:
    since = max(now, said.next_fire_at)
    end = start + forecast.SPAN
    said = said._replace(
        next_fire_at=since,
        start_at=said.start_at if said.start_at and said.start_at > since else None,
        end_at=said.end_at if said.end_at and said.end_at < end else None,
    )
    match Kind(said.kind):
        case Kind.CRON:
            return said if depends_on_key(said.expression) else said._replace(key="")
        case Kind.EVERY if said.start_at is None and said.end_at is None:
            assert said.anchor_at is not None
            first = forecast.in_step(Every(int(said.expression), said.anchor_at), since)
            return said._replace(anchor_at=first, next_fire_at=first)
        case Kind.ONCE if said.start_at is None and said.end_at is None and said.next_fire_at > now:
            slot = forecast.slot_of(datetime.fromisoformat(said.expression))
            return said._replace(expression=slot.isoformat(), next_fire_at=slot)
        case _:
            return said


def _read_all(start: datetime) -> Iterator[_Counted]:
    key = Case(
        When(kind=Kind.CRON, expression__icontains="h", then=F("job__key")), default=Value(""), output_field=CharField()
    )
    schedules = Schedule.objects.firing_before(start + forecast.SPAN).order_by().annotate(key=key)
    for *columns, jobs in schedules.values_list(*Said._fields).annotate(Count("pk")).iterator():
        yield Said._make(columns), jobs


# ── In PostgreSQL ────────────────────────────────────────────────────────────────────────────────────────────────

# What `_in_short` says, for all but what is bounded or odd: that comes here as it is. Moments are whole microseconds.
# An instant is one that is written as the next fire is, with whatever offset: no text is read that could be no date.
# OFFSET 0 keeps the steps apart. Else the planner writes an expression out wherever its name stands, and to compile
# that takes longer than all the rest.
_CHOOSE = r"""
WITH said AS (
    SELECT kind, expression, timezone, key, anchor_at, fires_left, jitter_seconds, next_fire_at,
        greatest(next_fire_at, %(now)s) AS since,
        CASE WHEN start_at > greatest(next_fire_at, %(now)s) THEN start_at END AS start_at,
        CASE WHEN end_at < %(end)s THEN end_at END AS end_at,
        count(*) AS jobs
    FROM (
        SELECT schedule.*, '' AS key FROM onbeat_schedule AS schedule WHERE NOT ({has_h})
        UNION ALL
        SELECT schedule.*, job.key FROM onbeat_schedule AS schedule JOIN onbeat_job AS job ON id = job_id WHERE {has_h}
    ) AS schedule
    WHERE is_active AND next_fire_at <= %(end)s
    GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11
),
sorted_out AS (
    SELECT *,
        CASE WHEN kind = 'EVERY' AND start_at IS NULL AND end_at IS NULL AND anchor_at BETWEEN 'epoch' AND %(end)s
            AND expression ~ '^[1-9]\d{{0,8}}$' THEN expression::bigint END AS step,
        CASE WHEN kind = 'ONCE' AND start_at IS NULL AND end_at IS NULL AND next_fire_at > %(now)s
            AND expression ~ '[+-][01]\d:[0-5]\d$' THEN right(expression, 6) END AS shift
    FROM said OFFSET 0
),
in_numbers AS (
    SELECT *, step * 1000000 AS step_us, gcd(step, {slot}) AS divisor,
        CASE WHEN step > 0 THEN (extract(epoch FROM since) * 1000000)::bigint END AS since_us,
        CASE WHEN step > 0 THEN (extract(epoch FROM anchor_at) * 1000000)::bigint END AS anchor_us,
        next_fire_at AT TIME ZONE 'UTC' + shift::interval AS wall
    FROM sorted_out OFFSET 0
),
placed AS (
    SELECT *,
        (since_us + ((anchor_us - since_us) %% step_us + step_us) %% step_us) / 1000000 / divisor * divisor AS first_s,
        CASE WHEN expression = to_char(wall, 'YYYY-MM-DD"T"HH24:MI:SS')
            || CASE WHEN date_trunc('second', wall) = wall THEN '' ELSE to_char(wall, '.US') END || shift
            THEN floor(extract(epoch FROM next_fire_at) / {slot}) * {slot} END AS slot_s
    FROM in_numbers OFFSET 0
),
in_short AS (
    SELECT kind, timezone, key, start_at, end_at, fires_left, jitter_seconds, jobs,
        CASE WHEN slot_s IS NULL THEN expression
            ELSE to_char(to_timestamp(slot_s) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"+00:00"') END AS expression,
        CASE WHEN first_s IS NULL THEN anchor_at ELSE to_timestamp(first_s) END AS anchor_at,
        coalesce(to_timestamp(coalesce(first_s, slot_s)), since) AS next_fire_at,
        coalesce(first_s, slot_s) IS NOT NULL AS is_short
    FROM placed OFFSET 0
),
counted AS (
    SELECT {columns}, is_short, sum(jobs) AS jobs FROM in_short GROUP BY {columns}, is_short
),
numbered AS (
    SELECT *, count(*) OVER () AS all_counted, sum(jobs) OVER () AS all_jobs,
        row_number() OVER (ORDER BY jobs DESC, next_fire_at, expression, key) - 1 AS place
    FROM counted
)
SELECT {columns}, is_short, jobs::bigint, place < %(many)s AS is_many, all_counted, all_jobs::bigint FROM numbered
CROSS JOIN LATERAL (SELECT place - %(many)s AS among_few, all_counted - %(many)s AS few) AS rest
WHERE all_counted <= %(most)s OR place < %(many)s
    OR ((among_few + 1) * %(room)s + few - 1) / few > (among_few * %(room)s + few - 1) / few
"""
_HAS_H = r"kind = 'CRON' AND expression ~* '(?<![\w@])h'"


def _choose_there(now: datetime, start: datetime, most: int) -> Chosen:
    many = most // 2
    given: dict[str, datetime | int] = {
        "now": now,
        "end": start + forecast.SPAN,
        "most": most,
        "many": many,
        "room": most - many,
    }
    statement = _CHOOSE.format(columns=", ".join(Said._fields), slot=forecast.SLOT.seconds, has_h=_HAS_H)
    with connection.cursor() as cursor:
        cursor.execute(statement, given)
        rows = cursor.fetchall()
    if not rows:
        return Chosen([], is_all=True)
    many_said: Counter[Said] = Counter()
    few_said: Counter[Said] = Counter()
    for *columns, is_short, jobs, is_many, _, _ in rows:
        said = Said._make(columns)
        (many_said if is_many else few_said)[said if is_short else _in_short(said, now, start)] += jobs
    *_, all_counted, all_jobs = rows[0]
    if all_counted <= most:
        return Chosen((many_said + few_said).items(), is_all=True)
    return _standing_for(many_said.items(), few_said.items(), jobs=all_jobs)
