"""Retention: for how long everything is kept, what is past that, and its removal now."""

from argparse import ArgumentParser
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from rich.console import RenderableType

from beat.kept import MOST_COUNTED, Kind, kinds, remove_past
from executions import partitions, retention, words
from executions.clock import database_now
from executions.retention import KeptMonth
from terminal.frame import Asked, Told, Verb
from terminal.paper import coloured, strong, table


class Show(Verb):
    name = "show"
    does = "show for how long everything is kept, by which setting, and how much is past that"
    explains = """\
Beats remove what is past its time, a part every minute. On PostgreSQL executions go by whole months: one is dropped
when its last day is past, unless something in it has to stay; then the rest of it is removed row by row."""
    examples = ("retention", "retention --json")

    def act(self, asked: Asked) -> Told:  # noqa: ARG002 - there is nothing to ask for
        now = database_now()
        kept, months = kinds(now), retention.months(now)
        data = {
            "kinds": [_kind_as_json(kind) for kind in kept],
            "months": [_month_as_json(each, now) for each in months],
        }
        return Told(data, [_kinds_table(kept), "", *_months(months, now)])


def _kinds_table(kept: Sequence[Kind]) -> RenderableType:
    rows = [
        (
            strong(kind.name),
            _keeps(kind.keeps),
            _past(kind.past),
            kind.setting or "fixed",
        )
        for kind in kept
    ]
    return table(("KIND", "KEPT FOR", "PAST THAT", "SETTING"), rows, right=("PAST THAT",), whole=("KIND", "KEPT FOR"))


def _keeps(keeps: timedelta | None) -> str:
    if keeps is None:
        return "until their run is over"
    return words.count(keeps.days, "day") if keeps >= timedelta(days=2) else words.duration(keeps)


def _past(number: int) -> Any:
    if number >= MOST_COUNTED:
        return f"{MOST_COUNTED:,} or more"
    return f"{number:,}"


def _kind_as_json(kind: Kind) -> dict[str, Any]:
    seconds = None if kind.keeps is None else kind.keeps.total_seconds()
    return {"name": kind.name, "keeps_seconds": seconds, "setting": kind.setting, "past": kind.past}


def _months(months: Sequence[KeptMonth], now: datetime) -> list[RenderableType]:
    if not months:
        return ["This database has no partitions: executions are removed row by row."]
    rows = [
        (
            str(each.month).replace("_", "-"),
            f"{each.month.start:%Y-%m-%d}",
            f"{each.month.following.start:%Y-%m-%d}",
            "?" if each.rows is None else f"{each.rows:,}",
            _goes(each, now),
        )
        for each in months
    ]
    heads = ("MONTH", "FROM", "BEFORE", "ROWS, ABOUT", "GOES")
    return [table(heads, rows, right=heads[3:4], whole=heads[:3])]


def _goes(each: KeptMonth, now: datetime) -> Any:
    if each.goes_from > now:
        return f"from {each.goes_from:%Y-%m-%d} on, {words.away(each.goes_from, now=now)}"
    return coloured(f"not yet: {each.stays_for}", "warn") if each.stays_for else "now: nothing in it has to stay"


def _month_as_json(each: KeptMonth, now: datetime) -> dict[str, Any]:
    return {
        "name": f"{partitions.PARENTS[0]}_{each.month}",
        "from": each.month.start,
        "until": each.month.following.start,
        "rows_estimated": each.rows,
        "goes_from": each.goes_from,
        "can_go": each.goes_from <= now and not each.stays_for,
        "stays_for": each.stays_for,
    }


class Run(Verb):
    name = "run"
    does = "remove what is past its time now, until nothing is left"
    explains = """\
The same that beats do a part of every minute. Whoever stops in the middle has done the first part."""
    examples = ("retention run --dry-run", "retention run --yes")
    changes = asks = True

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Nothing but what all verbs take."""

    def act(self, asked: Asked) -> Told:
        now = database_now()
        past = {kind.name: kind.past for kind in kinds(now) if kind.past}
        months = [each.month for each in retention.months(now) if each.goes_from <= now and not each.stays_for]
        asked.paper.say(_what_would_go(past, len(months)))
        if not past and not months:
            return Told({"is_run": False, "removed": {}})
        if asked["dry_run"] or not asked.agrees("Remove it?"):
            return Told({"is_run": False, "removed": {}}, ["Nothing was done."])
        gone: Counter[str] = Counter()
        with asked.paper.progress("Removing", sum(past.values())) as advance:
            for name, number in remove_past(now, **asked.signature):
                gone[name] += number
                advance(number)
        removed = {name: number for name, number in gone.items() if number}
        return Told({"is_run": True, "removed": removed}, [f"Removed {_listed(removed) or 'nothing'}."])


def _what_would_go(past: dict[str, int], months: int) -> str:
    if not past and not months:
        return "Nothing is past its time."
    whole = f"; {words.count(months, 'month')} can be dropped whole" if months else ""
    return f"Past their time: {_listed(past) or 'no row'}{whole}."


def _listed(numbers: dict[str, int]) -> str:
    return ", ".join(f"{name} {_past(number)}" for name, number in numbers.items())
