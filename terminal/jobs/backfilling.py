"""Run the fires of a past range: first what would be done, then the question, then it is done."""

from argparse import ArgumentParser
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from api.jobs import deeds
from api.jobs.named import schedule_of
from jobs import dst
from jobs.backfill import DEFAULT_PER_MINUTE, MOST_PER_MINUTE, PastFire, Preview, preview
from jobs.finding import find
from terminal.frame import Asked, Told, Verb
from terminal.moments import clock, moment_of, zone_of

_SHOWN_FIRST, _SHOWN_LAST = 3, 2


class Backfill(Verb):
    name = "backfill"
    does = "run the fires of a past range that have no row yet or were skipped; each once, oldest first"
    explains = """\
A moment is a date (2026-11-01) or a date with a time (2026-11-01T07:30, 2026-11-01T06:30Z). Without an offset
it is read in the time zone of the job's schedule. A date alone is, for --from, the start of that day; for --to, its
end: the whole day is in the range. Both ends are included. What ran, runs, waits, was cancelled or gave up is left
alone: replay is for that."""
    examples = (
        "jobs backfill billing.daily --from 2026-11-01 --to 2026-11-03 --dry-run",
        "jobs backfill billing.daily --from 2026-11-01 --to 2026-11-03 --per-minute 10 --yes",
    )
    changes = asks = True

    def add_arguments(self, parser: ArgumentParser) -> None:
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

    def act(self, asked: Asked) -> Told:
        job = find(asked["key"])
        zone = zone_of(schedule_of(job))
        wanted = {
            "start": moment_of("from", asked["start"], zone, is_end=False),
            "end": moment_of("to", asked["end"], zone, is_end=True),
            "per_minute": asked["per_minute"],
        }
        seen = preview(job, **wanted)
        asked.paper.say(*told(seen))
        if asked["dry_run"] or not seen.to_run or not asked.agrees(_question(seen.to_run)):
            return Told(as_json(seen, is_run=False), ["Nothing was done."] if seen.to_run else [])
        seen = deeds.backfill(job, **wanted, **asked.signature)
        return Told(as_json(seen, is_run=True), [f"Planned {counted(seen.to_run)}; the beats publish at this pace."])


def _question(count: int) -> str:
    return f"Run {'this 1 fire' if count == 1 else f'these {count} fires'}?"


def told(seen: Preview) -> list[str]:
    """A preview in words."""
    zone = dst.zone_named(seen.timezone)
    lines = [
        f"{counted(len(seen.fires))} of {seen.key} from {clock(seen.start, zone)} to {clock(seen.end, zone)}: "
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
        lines.append(f"From {clock(seen.left_from, zone)} on they are left to the beats.")
    if seen.ends_at is None:
        lines.append("There is nothing to run: each has its row, and runs again only by a replay.")
    else:
        lines.append(f"At {seen.per_minute} a minute the last is published at {clock(seen.ends_at, zone)}.")
    return lines


def counted(count: int) -> str:
    return "1 fire" if count == 1 else f"{count} fires"


def _line(fire: PastFire, zone: ZoneInfo) -> str:
    return f"  {clock(fire.fire_time, zone)}  {fire.becomes}"


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
