"""Find executions: list, show."""

from argparse import ArgumentParser
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from rich.console import RenderableType

from api.executions.answers import in_full, in_list
from api.executions.named import attempts_of, found, id_of
from api.pages import MOST_ITEMS
from executions import words
from executions.clock import database_now
from executions.finding import Page, Sought, newest_first
from executions.models import Execution
from executions.states import State
from terminal.executions.filters import filter_arguments, sought_by
from terminal.executions.tables import executions_table
from terminal.frame import Asked, Told, Verb
from terminal.jobs.listing import limit_of
from terminal.paper import block, facts, strong, table, toned

_MOST_PAGES = 20


class List(Verb):
    name = "list"
    does = "list executions, the latest fire first"
    examples = (
        "executions list",
        "executions list --job billing.daily --state DEAD --since 2d",
        "executions list --queue mail --state RUNNING --state QUEUED --json",
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        filter_arguments(parser)
        parser.add_argument(
            "--limit", type=int, default=50, help=f"How many at most, 1 to {MOST_ITEMS}; 50 if not given."
        )

    def act(self, asked: Asked) -> Told:
        now = database_now()
        sought = sought_by(asked, now=now)
        page = _page(sought, limit=limit_of(asked["limit"]), now=now)
        items = [in_list(row) for row in page.rows]
        shown: list[RenderableType] = [executions_table(items, has_job=sought.job_id is None)] if items else []
        if page.last is not None:
            # To the next second: rather one that was shown again than one of the same second never.
            until = page.last.fire_time.astimezone(UTC).replace(microsecond=0) + timedelta(seconds=1)
            shown.append(f"There may be older ones; --until {until:%Y-%m-%dT%H:%M:%SZ} goes on from here.")
        elif not items:
            shown.append("There is no execution yet." if sought == Sought() else "No execution matches.")
        return Told({"items": items, "has_more": page.last is not None}, shown)


def _page(sought: Sought, *, limit: int, now: datetime) -> Page:
    """As many as are wanted. A page of the API looks at so many rows, and may hold few where little matches."""
    page = newest_first(sought, limit=limit, now=now)
    for _ in range(_MOST_PAGES):
        if page.last is None or len(page.rows) >= limit:
            break
        following = newest_first(sought, limit=limit - len(page.rows), now=now, after=page.last)
        page = Page([*page.rows, *following.rows], following.last)
    return page


class Show(Verb):
    name = "show"
    does = "show an execution: why it is where it is, its attempts, what it was given and what it gave"
    examples = ("executions show 019a3f52-8c1e-7d6b-9a40-2f6c1d0e8b77", "executions show 019a3f528c --json")

    def add_arguments(self, parser: ArgumentParser) -> None:
        id_argument(parser)

    def act(self, asked: Asked) -> Told:
        return shown_execution(found(id_of(asked["id"])))


def id_argument(parser: ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="Its id; the first 8 digits or more, if no other begins so.")


def shown_execution(execution: Execution) -> Told:
    now = database_now()
    data = in_full(execution, attempts_of(execution), now=now)
    return Told(data, list(_parts(data, now)))


def _parts(one: dict[str, Any], now: datetime) -> Iterator[RenderableType]:
    yield strong(one["why"])
    yield ""
    yield facts(_facts(one, now))
    yield ""
    yield strong("What happened")
    yield table(("AT", "WHAT"), [(each["at"], each["what"]) for each in one["timeline"]])
    if one["attempts"]:
        yield ""
        yield strong("Attempts")
        yield table(("NUMBER", "OUTCOME", "BEGAN", "TOOK", "WORKER"), [_attempt(each) for each in one["attempts"]])
    for name, text in _texts(one):
        yield ""
        yield strong(name)
        yield block(text)


def _facts(one: dict[str, Any], now: datetime) -> list[tuple[str, Any]]:
    comes_at = one["available_at"] if one["state"] == State.SCHEDULED else None
    return [
        ("id", one["id"]),
        ("job", one["job"]),
        ("state", toned(one["state"])),
        ("reason", one["reason"]),
        ("fire time", f"{words.clock(one['fire_time'])}, {words.away(one['fire_time'], now=now)}"),
        ("comes", comes_at and f"{words.clock(comes_at)}, {words.away(comes_at, now=now)}"),
        ("trigger", one["trigger"].lower()),
        ("replay of", one["replay_of"]),
        ("run key", one["run_key"]),
        ("request", one["request_id"]),
        ("attempt", f"{one['attempt']} of {one['max_attempts']}"),
        ("runs", one["task"]),
        ("queue", f"{one['queue']}, priority {one['priority']}"),
        ("worker", one["worker"]),
        ("progress", one["progress"]),
        ("checkpoint", one["checkpoint"]),
        ("asked to stop", one["cancel_requested_at"]),
        ("fingerprint", one["fingerprint"]),
        ("handled", one["handled_at"] and f"{words.clock(one['handled_at'])}: {one['handled_note']}"),
        ("arguments", one["args"] or None),
        ("named arguments", one["kwargs"]),
        ("result", one["result"]),
    ]


def _attempt(attempt: dict[str, Any]) -> list[Any]:
    took = words.duration(attempt["finished_at"] - attempt["started_at"])
    return [attempt["number"], toned(attempt["outcome"]), attempt["started_at"], took, attempt["worker"]]


def _texts(one: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Errors, each once: the execution's own is that of its last attempt."""
    errors = [(f"Error of attempt {each['number']}", each["error"]) for each in one["attempts"] if each["error"]]
    yield from errors
    if one["error"] and one["error"] not in [text for _, text in errors]:
        yield "Error", one["error"]
