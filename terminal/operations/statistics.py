"""Statistics by the hour: fires, outcomes, lateness and duration."""

from argparse import ArgumentParser
from collections.abc import Sequence
from dataclasses import asdict
from datetime import timedelta
from typing import Any

from rich.console import RenderableType

from api.operations.statistics import hours_of
from executions import words
from executions.clock import database_now
from executions.hourly import Hour
from executions.states import OPEN, State
from terminal.frame import Asked, Told, Verb, refuse
from terminal.moments import MOMENT, ago
from terminal.paper import coloured, table

_MOST_HOURS = 92 * 24
_HEADS = ("HOUR, UTC", "FIRES", "SUCCEEDED", "DEAD", "SKIPPED", "OTHER", "LATE p50", "p99", "RAN p50")


class Stats(Verb):
    does = "show the hours: fires, how they ended, how late they began, how long they ran"
    explains = """\
Counted every minute, by fire time. OTHER were cancelled or are not over. LATE is from when it was due to its beginning,
RAN how long the last attempt took: half of them took at most p50, of a hundred one took longer than p99. --json tells
more. Hours without a fire are left out."""
    examples = ("stats", "stats --job billing.daily --hours 72", "stats --queue mail --since 2026-11-01 --json")

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--job", metavar="KEY", help="Of this job; the id finds also one that is over.")
        parser.add_argument("--queue", help="Of this queue.")
        start = parser.add_mutually_exclusive_group()
        start.add_argument("--since", metavar="MOMENT", help=f"Hours that begin from here on. {MOMENT}, or 2h, 3d.")
        start.add_argument("--hours", type=int, default=24, metavar="N", help="The last so many; 24 if not given.")

    def act(self, asked: Asked) -> Told:
        now = database_now()
        if not 1 <= asked["hours"] <= _MOST_HOURS:
            refuse(f"--hours must be 1 to {_MOST_HOURS}, not {asked['hours']}.")
        # The hour that now is in counts as one of them.
        current = now.replace(minute=0, second=0, microsecond=0)
        since = current - timedelta(hours=asked["hours"] - 1)
        since = since if asked["since"] is None else ago("since", asked["since"], now=now)
        hours = hours_of({**asked.given("job", "queue"), "since": since, "until": now}, now=now)
        shown: RenderableType = _table(hours) if hours else f"Nothing was counted since {words.clock(since)}."
        return Told({"hours": [asdict(hour) for hour in hours]}, [shown])


def _table(hours: Sequence[Hour]) -> RenderableType:
    return table(_HEADS, [*map(_cells, hours), _sum(hours)], right=_HEADS[1:], whole=_HEADS[:1])


def _cells(hour: Hour) -> list[Any]:
    seconds = (hour.lateness.p50, hour.lateness.p99, hour.duration.p50)
    return [f"{hour.hour:%m-%d %H:%M}", *_counts([hour]), *map(words.duration, seconds)]


def _sum(hours: Sequence[Hour]) -> list[Any]:
    return ["sum", *_counts(hours), *[""] * 3]  # percentiles do not add up


def _counts(hours: Sequence[Hour]) -> list[Any]:
    def of(*states: State) -> int:
        return sum(hour.counts.get(state, 0) for hour in hours for state in states)

    dead = of(State.DEAD)
    return [
        f"{sum(hour.fires for hour in hours):,}",
        f"{of(State.SUCCEEDED):,}",
        coloured(f"{dead:,}", "bad") if dead else "0",
        f"{of(State.SKIPPED):,}",
        f"{of(State.CANCELLED, *OPEN):,}",
    ]
