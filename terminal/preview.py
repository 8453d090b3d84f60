"""`preview`: when a schedule fires next, and what clock changes do to that."""

from argparse import ArgumentParser
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from rich.console import RenderableType

from api.jobs import previews
from api.jobs.named import schedule_of
from executions import words
from executions.clock import database_now
from jobs import dst
from jobs.finding import find_said
from jobs.models import Job
from jobs.upcoming import MOST_SHOWN
from terminal import expressions
from terminal.frame import Asked, Exit, Told, Verb, refuse
from terminal.moments import ahead, zone_of
from terminal.paper import coloured, strong, table

_OF_AN_EXPRESSION = {"timezone": "--timezone", "key": "--key"}


class Preview(Verb):
    does = "show when a schedule fires next, and what clock changes do to it"
    explains = """\
A schedule is a cron expression in quotes (five fields, six with the seconds first, or @hourly), an interval (every 15m)
or a moment (2026-11-01T07:30). Nothing is stored. With --job it is that of a job, as if it were not paused.
Exit code 1: it never fires."""
    examples = (
        'preview "30 7 * * 1-5" --timezone Europe/Berlin',
        'preview "30 2 * * *" --timezone America/New_York --after 2027-03-13 --count 3',
        "preview every 15m",
        "preview --job billing.daily --json",
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("expression", nargs="*", metavar="EXPRESSION", help="The schedule.")
        parser.add_argument("--job", metavar="KEY", help="That of a job, by its key or id, in place of an expression.")
        parser.add_argument("--timezone", metavar="ZONE", help="Of a cron or a moment; UTC if not given.")
        range_arguments(parser)
        parser.add_argument("--key", help="Of the job that it is meant for: an H in a cron is spread by it.")

    def act(self, asked: Asked) -> Told:
        now = database_now()
        return _of_job(asked, now) if asked["job"] is not None else _of_expression(asked, now)


def _of_expression(asked: Asked, now: datetime) -> Told:
    said = expressions.schedule_of(asked["expression"], asked["timezone"])
    zone = dst.zone_named(said.get("timezone", "UTC"))
    data = previews.of_schedule(
        said, now=now, key=asked["key"] or "", count=_count(asked), after=_after(asked, now, zone)
    )
    shown = _fires(data, zone, now)
    if "every" in said:
        shown.append("An interval counts from when it is stored: here, from now.")
    why = "It never fires after that." if asked["after"] is not None else "It never fires: its time is past."
    return _told(data, shown, why)


def _of_job(asked: Asked, now: datetime) -> Told:
    if asked["expression"]:
        refuse("Say an expression or --job, one of them.")
    for name, option in _OF_AN_EXPRESSION.items():
        if asked[name] is not None:
            refuse(f"{option} is for an expression; the job has its own.")
    return of_job(find_said(asked["job"]), asked, now)


def of_job(job: Job, asked: Asked, now: datetime) -> Told:
    """The next fires of a stored job: as many as --count says, from --after on."""
    schedule = schedule_of(job)
    zone = zone_of(schedule)
    data = previews.of_job(job, count=_count(asked), now=now, after=_after(asked, now, zone))
    why = "It has no schedule: it runs only when asked." if schedule is None else "It fires no more after that."
    return _told(data, _fires(data, zone, now), why)


def range_arguments(parser: ArgumentParser) -> None:
    """Which of the fires to come."""
    parser.add_argument(
        "--count",
        type=int,
        default=previews.SHOWN,
        metavar="N",
        help=f"How many fires, 1 to {MOST_SHOWN}; {previews.SHOWN} if not given.",
    )
    parser.add_argument(
        "--after", metavar="MOMENT", help="From then on: a moment in the schedule's zone, or 3d; from now if not."
    )


def _count(asked: Asked) -> int:
    count: int = asked["count"]
    if not 1 <= count <= MOST_SHOWN:
        refuse(f"--count must be 1 to {MOST_SHOWN}, not {count}.")
    return count


def _after(asked: Asked, now: datetime, zone: ZoneInfo) -> datetime | None:
    return None if asked["after"] is None else ahead("after", asked["after"], now=now, zone=zone)


def _told(data: dict[str, Any], shown: list[RenderableType], why_none: str) -> Told:
    parts: list[RenderableType] = [strong(data["in_words"]), *shown]
    parts += [coloured(f"! {warning}", "warn") for warning in data["warnings"]]
    if data["fires"]:
        return Told(data, parts)
    return Told(data, [*parts, coloured(why_none, "bad")], Exit.FAILED)


def _fires(data: dict[str, Any], zone: ZoneInfo, now: datetime) -> list[RenderableType]:
    fires = data["fires"]
    if not fires:
        return []
    in_utc = zone.key == "UTC"
    heads = ("UTC",) if in_utc else (zone.key.upper(), "UTC")
    has_remarks = any(fire["remark"] for fire in fires)
    rows = [
        (
            *(() if in_utc else (_said(fire["at"].astimezone(zone), fires, "%a ", " %Z"),)),
            _said(fire["at"].astimezone(UTC), fires, "%a " if in_utc else ""),
            words.away(fire["at"], now=now),
            *((coloured(fire["remark"], "warn"),) if has_remarks else ()),
        )
        for fire in fires
    ]
    return [table((*heads, "WHEN", *(("REMARK",) if has_remarks else ())), rows, whole=(*heads, "WHEN"))]


def _said(moment: datetime, fires: list[dict[str, Any]], begin: str = "", end: str = "") -> str:
    """With seconds where a fire has some."""
    has_seconds = any(fire["at"].second or fire["at"].microsecond for fire in fires)
    return f"{moment:{begin}%Y-%m-%d {'%H:%M:%S' if has_seconds else '%H:%M'}{end}}"
