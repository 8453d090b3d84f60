"""`dst_report`: which schedules the next clock changes touch, and how."""

from argparse import ArgumentParser
from datetime import UTC, datetime
from typing import Any

from rich.console import RenderableType

from api.jobs.named import schedule_of
from executions import words
from executions.clock import database_now
from jobs import clock_change_report, dst
from jobs.clock_change_report import DEFAULT_DAYS, MOST_DAYS, Report, Touched, Untouched, ZoneChange
from jobs.clock_changes import Effect, odd_hours
from jobs.finding import find_said
from jobs.models import OPEN_STATES, Job
from jobs.shifts import signed
from terminal.frame import Asked, Told, Verb, refuse
from terminal.paper import coloured, strong, table

_LINES_SHOWN = 20
_TONES = {Effect.MOVED: "bad", Effect.ONCE: "warn", Effect.FEWER: "warn", Effect.MORE: "warn"}


class DstReport(Verb):
    does = "tell which schedules the next clock changes touch, and how"
    explains = """\
For each zone that jobs which are not over use: when its clocks change, and each schedule for which that night is not
like any other. MOVED: a fixed time that is skipped, so it fires when the gap ends. ONCE: a fixed time that comes
twice, and fires the first time. FEWER, MORE: a schedule that follows real time, and has an hour less or more."""
    examples = (
        "dst_report",
        "dst_report --zone Europe/Berlin --days 365",
        "dst_report --job billing.daily --json",
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--days",
            type=int,
            default=DEFAULT_DAYS,
            metavar="N",
            help=f"How far ahead, 1 to {MOST_DAYS}; {DEFAULT_DAYS} if not given.",
        )
        parser.add_argument("--zone", default="", metavar="ZONE", help="Of this time zone alone.")
        parser.add_argument("--job", metavar="KEY", help="Of this job alone, by its key or id.")

    def act(self, asked: Asked) -> Told:
        days = asked["days"]
        if not 1 <= days <= MOST_DAYS:
            refuse(f"--days must be 1 to {MOST_DAYS}, not {days}.")
        zone = dst.zone_named(asked["zone"]).key if asked["zone"] else ""
        job = None if asked["job"] is None else _open_job(asked["job"])
        among = clock_change_report.schedules(zone=zone, job=job)
        with asked.paper.progress("Reading schedules", among.count(), is_whole=True) as on_read:
            found = clock_change_report.report(among, now=database_now(), days=days, on_read=on_read)
        return Told(as_json(found), _shown(found, job))


def _open_job(name: str) -> Job:
    job = find_said(name)
    if job.state not in OPEN_STATES:
        refuse(f"The job {job.key!r} is {job.state} and fires no more.")
    if schedule_of(job) is None:
        refuse(f"The job {job.key!r} has no schedule; it runs only when asked.")
    return job


# ── For people ───────────────────────────────────────────────────────────────────────────────────────────────────


def _shown(found: Report, job: Job | None) -> list[RenderableType]:
    sections = [_change(one, found.start) for one in found.changes]
    if not found.changes:
        sections.append([f"No clocks that a schedule goes by change until {found.end:%Y-%m-%d}."])
    elif job is not None and not any(one.touched for one in found.changes):
        sections.append([f"Until {found.end:%Y-%m-%d} no night of {job.key} is unlike the others."])
    if untouched := _untouched(found.untouched):
        sections.append(untouched)
    first, *others = sections
    return [*first, *(part for section in others for part in ("", *section))]


def _change(one: ZoneChange, now: datetime) -> list[RenderableType]:
    at = one.change.instant
    before, after = (moment.strftime("%H:%M") for moment in one.change.skips)
    way = "forward" if one.shift.total_seconds() > 0 else "back"
    day = odd_hours(one.change)[0]
    head = (
        f"{one.zone.key}, {day:%a %Y-%m-%d}: the clocks go {way} from {before} to {after} "
        f"({at:%Y-%m-%d %H:%M} UTC, {words.away(at, now=now)})"
    )
    parts: list[RenderableType] = [strong(head)]
    if one.touched:
        rows = [_cells(each) for each in one.touched[:_LINES_SHOWN]]
        heads = ("EFFECT", "JOBS", "CRON", "THAT NIGHT", "KEYS")
        parts.append(table(heads, rows, right=("JOBS",), whole=("EFFECT", "JOBS", "CRON")))
        if left := len(one.touched) - _LINES_SHOWN:
            parts += [f"… {words.count(left, 'more schedule')}; --json tells all."] if left > 0 else []
    else:
        parts.append("No schedule is touched that night.")
    if one.shifted:
        by, when = words.duration(abs(one.shift)), "earlier" if way == "forward" else "later"
        keep = "1 job keeps its" if one.shifted == 1 else f"{one.shifted:,} jobs keep their"
        parts.append(coloured(f"{keep} time of day, which by UTC is {by} {when} from then on.", "calm"))
    return parts


def _cells(each: Touched) -> tuple[Any, ...]:
    more = each.jobs - len(each.keys)
    keys = ", ".join(each.keys) + (f" and {more:,} more" if more else "")
    effect = each.touch.effect
    return coloured(effect.value, _TONES[effect]), f"{each.jobs:,}", each.expression, each.touch.says, keys


def _untouched(these: Untouched) -> list[RenderableType]:
    counted = [
        (these.intervals, "interval", "intervals"),
        (these.once, "that fires once", "that fire once"),
        (these.steady, "cron in UTC or where the clocks stay as they are", "crons in UTC or where the clocks stay"),
    ]
    said = [words.count(number, one, many) for number, one, many in counted if number]
    parts: list[RenderableType] = [coloured(f"Never touched: {', '.join(said)}.", "calm")] if said else []
    if these.unreadable:
        unread = words.count(these.unreadable, "schedule")
        parts.append(coloured(f"! {unread} cannot be read; `./onbeat doctor` tells which.", "warn"))
    return parts


# ── For scripts ──────────────────────────────────────────────────────────────────────────────────────────────────


def as_json(found: Report) -> dict[str, Any]:
    these = found.untouched
    return {
        "from": found.start,
        "to": found.end,
        "changes": [_change_as_json(one) for one in found.changes],
        "untouched": {
            "intervals": these.intervals,
            "once": these.once,
            "steady": these.steady,
            "unreadable": these.unreadable,
        },
    }


def _change_as_json(one: ZoneChange) -> dict[str, Any]:
    return {
        "zone": one.zone.key,
        "at": one.change.instant,
        "offset_before": signed(one.change.before),
        "offset_after": signed(one.change.after),
        "shift_seconds": round(one.shift.total_seconds()),
        "touched_jobs": one.touched_jobs,
        "shifted_jobs": one.shifted,
        "touched": [_touched_as_json(each) for each in one.touched],
    }


def _touched_as_json(each: Touched) -> dict[str, Any]:
    touch = each.touch
    return {
        "cron": each.expression,
        "effect": touch.effect,
        "says": touch.says,
        "first_time": touch.times[0].isoformat(),
        "last_time": touch.times[-1].isoformat(),
        "fires_at": None if touch.fires_at is None else touch.fires_at.astimezone(UTC),
        "fires_usually": touch.usual,
        "fires_that_day": touch.that_day,
        "jobs": each.jobs,
        "keys": list(each.keys),
    }
