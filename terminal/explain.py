"""`explain`: why a job did or did not run."""

import re
from argparse import ArgumentParser
from collections.abc import Sequence
from datetime import datetime
from itertools import groupby
from typing import Any
from zoneinfo import ZoneInfo

from rich.console import RenderableType

from api.jobs.named import schedule_of
from api.operations.workers import alive_workers
from executions import health, words
from executions.clock import database_now
from jobs import dst
from jobs.explaining import MOST_TOLD, explain
from jobs.finding import find_said
from jobs.verdicts import Around, Explained, Explanation, Verdict
from terminal.frame import Asked, Told, Verb
from terminal.moments import clock, moment_of, zone_of
from terminal.paper import coloured, facts, strong, table

_DAY = re.compile(r"\d{4}-\d\d-\d\d|\d{8}")
_TOLD_AT_LENGTH = 3
_TO = " --to "
# The checks that tell what can hold a fire back.
_HOLDING = ("beat", "broker", "clocks")
TONES = {
    Verdict.RAN: "ok",
    Verdict.FAILED: "bad",
    Verdict.RUNS: "run",
    Verdict.WAITS: "warn",
    Verdict.SKIPPED: "warn",
    Verdict.CANCELLED: "warn",
    Verdict.PAUSED: "warn",
    Verdict.NOT_YET: "calm",
    Verdict.NOT_DUE: "calm",
    Verdict.NO_SUCH_JOB_THEN: "calm",
    Verdict.OVER: "calm",
    Verdict.REMOVED: "calm",
    Verdict.UNPLANNED: "bad",
    Verdict.MISSING: "bad",
}


class Explain(Verb):
    does = "tell why a job did or did not run"
    explains = f"""\
Without --at: its latest fire, and what comes next. With a moment (2026-11-01T07:30, 2026-11-01T06:30Z): the fire at it,
or the nearest. With a date alone: each fire of that day, at most {MOST_TOLD}, what went wrong first. Without an offset
times are read in the zone of the job's schedule. Changes nothing; exit code 0 whatever the answer is."""
    examples = (
        "explain billing.daily",
        "explain billing.daily --at 2026-11-01T07:30",
        "explain billing.daily --at 2026-11-01 --json",
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("job", metavar="JOB", help="The key of the job, also of one that is over; or its id.")
        parser.add_argument("--at", metavar="MOMENT", help="A moment, or a date for the whole day.")

    def act(self, asked: Asked) -> Told:
        job, now = find_said(asked["job"]), database_now()
        zone = zone_of(schedule_of(job))
        start = end = None
        if (at := asked["at"]) is not None:
            start = moment_of("at", at, zone)
            end = moment_of("at", at, zone, is_end=True) if _DAY.fullmatch(at) else start
        told = explain(job, start=start, end=end, now=now, around=around(now))
        return Told(as_json(told), _shown(told, now))


def around(now: datetime) -> Around:
    """How the platform is now, as workers and beats tell it."""
    consumed = frozenset(queue for worker in alive_workers(now=now) for queue in worker.queues)
    seen = health.look()
    amiss = tuple(seen[name].says for name in _HOLDING if name in seen and not seen[name].is_well)
    return Around(consumed, seen["beat"].says if "beat" in seen else "", amiss)


# ── For people ───────────────────────────────────────────────────────────────────────────────────────────────────


def _shown(told: Explanation, now: datetime) -> list[RenderableType]:
    zone = dst.zone_named(told.timezone)
    parts: list[RenderableType] = [told.remark] if told.remark else []
    if len(told.fires) <= _TOLD_AT_LENGTH:
        for one in told.fires:
            parts += [*_at_length(one, zone, now), ""]
    else:
        parts += [*_in_lines(told.fires, zone), *_left_out(told), ""]
    if told.next_fire_at is not None and told.next_fire_at > now:
        return [*parts, f"Next: {_when(told.next_fire_at, zone, now)}."]
    return [*parts, told.next_says]


def _at_length(one: Explained, zone: ZoneInfo, now: datetime) -> list[RenderableType]:
    head = [strong(_when(one.fire_time, zone, now))] if one.fire_time is not None else []
    pairs = [*one.facts, ("execution", one.execution_id)]
    parts: list[RenderableType] = [*head, coloured(one.says, TONES[one.verdict])]
    parts += [facts(pairs)] if any(value for _, value in pairs) else []
    return parts + ([f"Remedy: {one.remedy}"] if one.remedy else [])


def _when(moment: datetime, zone: ZoneInfo, now: datetime) -> str:
    return f"{clock(moment, zone)}, {words.away(moment, now=now)}"


def _in_lines(fires: Sequence[Explained], zone: ZoneInfo) -> list[RenderableType]:
    """One a line; those in a row of which the same is said, together."""
    heads = (zone.key.upper(), "FIRES", "VERDICT", "WHY")
    alike = [list(some) for _, some in groupby(fires, key=lambda one: (one.verdict, one.says))]
    rows = [
        (_span(some, zone), len(some), coloured(some[0].verdict.value, TONES[some[0].verdict]), some[0].says)
        for some in alike
    ]
    remedies = list(dict.fromkeys(filter(None, map(_remedy, alike))))
    shown: list[RenderableType] = [table(heads, rows, right=("FIRES",), whole=heads[:3])]
    shown += [f"Remedy: {remedy}" for remedy in remedies[:_TOLD_AT_LENGTH]]
    if (left := len(remedies) - _TOLD_AT_LENGTH) > 0:
        shown.append(f"… {words.count(left, 'more remedy', 'more remedies')}; --json tells all.")
    return shown


def _remedy(fires: Sequence[Explained]) -> str:
    """Of fires in a row: a backfill takes a range."""
    first, last = fires[0].remedy, fires[-1].remedy
    return f"{first.partition(_TO)[0]}{_TO}{last.partition(_TO)[2]}" if _TO in first and _TO in last else first


def _span(fires: Sequence[Explained], zone: ZoneInfo) -> str:
    first, last = (_local(one.fire_time, zone) for one in (fires[0], fires[-1]))
    return f"{first:%m-%d %H:%M:%S}" if len(fires) == 1 else f"{first:%m-%d %H:%M:%S} to {last:%H:%M:%S}"


def _local(moment: datetime | None, zone: ZoneInfo) -> datetime:
    assert moment is not None  # only an answer that stands alone has none
    return moment.astimezone(zone)


def _left_out(told: Explanation) -> list[RenderableType]:
    if not told.left_out:
        return []
    counts = ", ".join(f"{number:,} {verdict}" for verdict, number in told.left_out.items())
    return [f"… {sum(told.left_out.values()):,} more: {counts}"]


# ── For scripts ──────────────────────────────────────────────────────────────────────────────────────────────────


def as_json(told: Explanation) -> dict[str, Any]:
    return {
        "job": told.key,
        "asked": {"from": told.start, "to": told.end},
        "timezone": told.timezone,
        "remark": told.remark,
        "fires": [
            {
                "fire_time": one.fire_time,
                "verdict": one.verdict,
                "says": one.says,
                "remedy": one.remedy or None,
                "execution_id": one.execution_id,
                "facts": dict(one.facts),
            }
            for one in told.fires
        ],
        "left_out": dict(told.left_out),
        "next_fire_at": told.next_fire_at,
        "next": told.next_says,
    }
