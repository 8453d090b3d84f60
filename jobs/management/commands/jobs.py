"""Act on jobs from a terminal: parse, call one function, say what became of it."""

import json
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from django.core.management.base import CommandError

from executions.commands import REFUSED, PlatformCommand, user
from jobs import dst
from jobs.backfill import DEFAULT_PER_MINUTE, MOST_PER_MINUTE, PastFire, Preview, backfill, preview
from jobs.finding import find
from jobs.models import Kind, Schedule
from jobs.refusals import InvalidRun, InvalidSchedule, Refused, shown

_SHOWN_FIRST, _SHOWN_LAST = 3, 2

_BACKFILL_HELP = """\
Run the fires of a past range that have no row yet or were skipped; each once, oldest first.

A moment is a date (2026-11-01) or a date with a time (2026-11-01T07:30, 2026-11-01T06:30Z). Without an offset
it is read in the time zone of the job's schedule. A date alone is, for --from, the start of that day; for --to, its
end: the whole day is in the range. Both ends are included. What ran, runs, waits, was cancelled or gave up is left
alone: replay is for that.
"""


class Command(PlatformCommand):
    help = "Act on jobs: backfill runs fires of the past. `jobs COMMAND --help` tells more."

    def add_arguments(self, parser: ArgumentParser) -> None:
        commands = parser.add_subparsers(dest="subcommand", required=True, metavar="COMMAND")
        self._add_backfill(
            commands.add_parser(
                "backfill",
                help="run the fires of a past range",
                description=_BACKFILL_HELP,
                formatter_class=RawDescriptionHelpFormatter,
            )
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        try:
            options["act"](options)
        except Refused as refused:
            raise CommandError(str(refused), returncode=REFUSED) from None

    # ── Backfill ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _add_backfill(self, parser: ArgumentParser) -> None:
        parser.add_argument("key", help="The key of the job.")
        parser.add_argument("--from", dest="start", required=True, metavar="MOMENT", help="The first fire time.")
        parser.add_argument("--to", dest="end", required=True, metavar="MOMENT", help="The last fire time.")
        parser.add_argument(
            "--per-minute",
            type=int,
            default=DEFAULT_PER_MINUTE,
            metavar="N",
            help=f"How many are published in a minute: 1 to {MOST_PER_MINUTE}, {DEFAULT_PER_MINUTE} if not given.",
        )
        parser.add_argument("--by", default="", metavar="WHO", help="Who asks; your user name if not given.")
        parser.add_argument("--dry-run", action="store_true", help="Say what would be done, and do nothing.")
        parser.add_argument("--yes", action="store_true", help="Do not ask; needed where nobody can answer.")
        parser.add_argument("--json", action="store_true", help="End with one line of JSON.")
        parser.set_defaults(act=self._backfill)

    def _backfill(self, options: dict[str, Any]) -> None:
        job = find(options["key"])
        zone = _zone_of(Schedule.objects.filter(job_id=job.pk).first())
        asked = {
            "start": moment_of("from", options["start"], zone, is_end=False),
            "end": moment_of("to", options["end"], zone, is_end=True),
            "per_minute": options["per_minute"],
        }
        seen = preview(job, **asked)
        for line in told(seen):
            self.stdout.write(line)
        is_run = not options["dry_run"] and seen.to_run > 0 and (options["yes"] or self._agrees(seen.to_run))
        if is_run:
            seen = backfill(job, **asked, by=options["by"] or user(), through="command")
            self.stdout.write(f"Planned {counted(seen.to_run)}; the beats publish at this pace.")
        elif seen.to_run > 0:
            self.stdout.write("Nothing was done.")
        if options["json"]:
            self.stdout.write(json.dumps(as_json(seen, is_run=is_run)))

    def _agrees(self, count: int) -> bool:
        if not sys.stdin.isatty():
            raise CommandError(
                "Nobody can be asked here; add --yes to run these fires, or --dry-run.", returncode=REFUSED
            )
        self.stdout.write(f"Run {'this 1 fire' if count == 1 else f'these {count} fires'}? [y/N] ", ending="")
        self.stdout.flush()
        return sys.stdin.readline().strip().lower() in ("y", "yes")  # the end of the input is a no


def _zone_of(schedule: Schedule | None) -> ZoneInfo:
    """Where times without an offset are read: as the schedule is. Only a cron has a zone."""
    try:
        return dst.zone_named(schedule.timezone if schedule is not None and schedule.kind == Kind.CRON else "UTC")
    except InvalidSchedule:
        return dst.zone_named("UTC")  # a schedule that cannot be read is refused with its own sentence


def moment_of(option: str, text: str, zone: ZoneInfo, *, is_end: bool) -> datetime:
    """The moment that a person means. A day that is an end is meant whole, and so is an hour that clocks repeat."""
    try:
        day = _day(text)
        if day is None:
            moment = datetime.fromisoformat(text)
            return moment if moment.tzinfo is not None else _instant(moment, zone, is_end=is_end)
        midnight = datetime.combine(day, time())
        if is_end:
            return _instant(midnight + timedelta(days=1), zone, is_end=False) - timedelta(microseconds=1)
        return _instant(midnight, zone, is_end=False)
    except (ValueError, OverflowError):
        raise InvalidRun(
            option, f"--{option} {shown(text)} is no moment; write a date such as 2026-11-01, or 2026-11-01T07:30."
        ) from None


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def _instant(wall: datetime, zone: ZoneInfo, *, is_end: bool) -> datetime:
    instants = dst.instants_of(zone, wall) or (dst.end_of_gap(zone, wall),)
    return instants[-1 if is_end else 0]


def told(seen: Preview) -> list[str]:
    """A preview in words."""
    zone = dst.zone_named(seen.timezone)
    lines = [
        f"{counted(len(seen.fires))} of {seen.key} from {_clock(seen.start, zone)} to {_clock(seen.end, zone)}: "
        f"{seen.new} without a row, {seen.revived} skipped, {seen.kept} kept as they are."
    ]
    fires = list(seen.fires)
    if len(fires) <= _SHOWN_FIRST + _SHOWN_LAST + 1:
        lines += [_line(fire, zone) for fire in fires]
    else:
        lines += [_line(fire, zone) for fire in fires[:_SHOWN_FIRST]]
        lines.append(f"  … {len(fires) - _SHOWN_FIRST - _SHOWN_LAST} more")
        lines += [_line(fire, zone) for fire in fires[-_SHOWN_LAST:]]
    if seen.left_from is not None:
        lines.append(f"From {_clock(seen.left_from, zone)} on they are left to the beats.")
    if seen.ends_at is None:
        lines.append("There is nothing to run: each has its row, and runs again only by a replay.")
    else:
        lines.append(f"At {seen.per_minute} a minute the last is published at {_clock(seen.ends_at, zone)}.")
    return lines


def counted(count: int) -> str:
    return "1 fire" if count == 1 else f"{count} fires"


def _line(fire: PastFire, zone: ZoneInfo) -> str:
    return f"  {_clock(fire.fire_time, zone)}  {fire.becomes}"


def _clock(moment: datetime, zone: ZoneInfo) -> str:
    """What the clocks of the zone show, and in UTC."""
    in_utc = f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
    return in_utc if zone.key == "UTC" else f"{moment.astimezone(zone):%Y-%m-%d %H:%M:%S %Z} ({in_utc})"


def as_json(seen: Preview, *, is_run: bool) -> dict[str, Any]:
    def said(moment: datetime | None) -> str | None:
        return None if moment is None else moment.astimezone(UTC).isoformat()

    return {
        "job": seen.key,
        "from": said(seen.start),
        "to": said(seen.end),
        "is_run": is_run,
        "fires": len(seen.fires),
        "new": seen.new,
        "revived": seen.revived,
        "kept": seen.kept,
        "first": said(seen.first),
        "last": said(seen.last),
        "left_from": said(seen.left_from),
        "per_minute": seen.per_minute,
        "ends_at": said(seen.ends_at),
    }
