"""Look at dead letters: in groups of errors that look alike, and one group."""

from argparse import ArgumentParser
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from rich.console import RenderableType

from api.executions.answers import in_list
from api.executions.dead_letters import as_json, message_as_json, messages_waiting
from executions import words
from executions.clock import database_now
from executions.finding import in_short
from jobs import dead_letters
from jobs.dead_letters import Group, Matching
from jobs.finding import find
from jobs.models import Job
from terminal.executions.tables import executions_table
from terminal.frame import Asked, Told, Verb, refuse
from terminal.moments import MOMENT, ago
from terminal.paper import facts, strong, table

_MOST_MESSAGES = 20
_MOST_EXECUTIONS = 10
_TEXTS = ("fingerprint", "job", "task", "queue")


def matching_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--job", metavar="KEY", help="Of this job.")
    parser.add_argument("--task", help="Of this task.")
    parser.add_argument("--queue", help="Of this queue.")
    parser.add_argument("--since", metavar="MOMENT", help=f"Given up from here on. {MOMENT}, or how long ago: 2h, 3d.")
    parser.add_argument("--until", metavar="MOMENT", help="Given up before this.")


def said_in(asked: Asked, *, now: datetime) -> dict[str, Any]:
    """The conditions that were named, as the API says them."""
    names = [name for name in _TEXTS if hasattr(asked.options, name)]
    if asked["job"] is not None and not Job.objects.filter(key=asked["job"]).exists():
        find(asked["job"])  # refuses it, with those that are called nearly so
    moments = asked.given("since", "until")
    return asked.given(*names) | {name: ago(name, text, now=now) for name, text in moments.items()}


class List(Verb):
    name = "list"
    does = "list dead letters by errors that look alike, the largest group first"
    explains = "Those that nobody has handled; also messages that belong to no execution."
    examples = ("dead_letters list", "dead_letters list --job billing.daily --since 1d", "dead_letters list --json")

    def add_arguments(self, parser: ArgumentParser) -> None:
        matching_arguments(parser)

    def act(self, asked: Asked) -> Told:
        now = database_now()
        matching = Matching(**said_in(asked, now=now))
        groups = dead_letters.groups(matching)
        messages = [message_as_json(row) for row in messages_waiting(matching)[: _MOST_MESSAGES + 1]]
        data = {
            "groups": [as_json(group) for group in groups],
            "messages": messages[:_MOST_MESSAGES],
            "has_more_messages": len(messages) > _MOST_MESSAGES,
        }
        if not groups:
            none = "No dead letter waits for a person." if matching == Matching() else "No dead letter matches."
            return Told(data, [none])
        return Told(data, [_groups_table(groups, now), *_messages(messages)])


def _groups_table(groups: Sequence[Group], now: datetime) -> RenderableType:
    rows = [
        (
            group.count,
            strong(group.fingerprint) if group.fingerprint else "''",
            ", ".join(group.jobs) or "no job",
            words.away(group.last_at, now=now),
            group.example,
        )
        for group in groups
    ]
    heads = ("COUNT", "FINGERPRINT", "JOBS", "LATEST", "ERROR")
    return table(heads, rows, right=("COUNT",), whole=("COUNT", "FINGERPRINT"))


def _messages(messages: Sequence[dict[str, Any]]) -> list[RenderableType]:
    if not messages:
        return []
    rows = [(each["id"], each["queue"], each["task"], each["collected_at"], each["error"]) for each in messages]
    shown: list[RenderableType] = [
        "",
        strong("Messages of no execution"),
        table(("ID", "QUEUE", "TASK", "COLLECTED", "ERROR"), rows[:_MOST_MESSAGES], right=("ID",), whole=("ID",)),
    ]
    return [*shown, "There are more; these are the latest."] if len(rows) > _MOST_MESSAGES else shown


class Show(Verb):
    name = "show"
    does = "show a group of dead letters: jobs, tasks, an error, the latest of them"
    examples = ("dead_letters show 5f2c9a1e7b3d4c60", "dead_letters show 5f2c9a1e7b3d4c60 --json")

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("fingerprint", metavar="FINGERPRINT", help="As `dead_letters list` shows it.")

    def act(self, asked: Asked) -> Told:
        now = database_now()
        matching = Matching(fingerprint=asked["fingerprint"])
        group = next(iter(dead_letters.groups(matching)), None)
        if group is None:
            refuse(
                f"No dead letter with the fingerprint {asked['fingerprint'][:80]!r} waits; "
                f"`./onbeat dead_letters list` shows those that do."
            )
        latest = in_short(matching.executions()).order_by("-pk")[:_MOST_EXECUTIONS]
        items = [in_list(row) for row in latest]
        messages = [message_as_json(row) for row in messages_waiting(matching)[:_MOST_MESSAGES]]
        data = {**as_json(group), "items": items, "message_items": messages}
        shown: list[RenderableType] = [strong(group.example), facts(_facts(group, now))]
        if items:
            shown += ["", strong("The latest"), executions_table(items, has_job=True)]
        return Told(data, [*shown, *_messages(messages), "", _remedy(group)])


def _facts(group: Group, now: datetime) -> list[tuple[str, Any]]:
    return [
        ("fingerprint", group.fingerprint),
        ("count", _count(group)),
        ("jobs", list(group.jobs)),
        ("tasks", list(group.tasks)),
        ("first", f"{words.clock(group.first_at)}, {words.away(group.first_at, now=now)}"),
        ("latest", f"{words.clock(group.last_at)}, {words.away(group.last_at, now=now)}"),
    ]


def _count(group: Group) -> str:
    parts = [words.count(group.executions, "execution")] if group.executions else []
    parts += [words.count(group.messages, "message of no execution", "messages of no execution")] * bool(group.messages)
    return ", ".join(parts)


def _remedy(group: Group) -> str:
    named = group.fingerprint or "''"
    if not group.executions:
        return (
            "`./onbeat dead_letters replay --message ID` publishes one again; "
            "`./onbeat dead_letters discard --message ID --note …` settles it."
        )
    return (
        f"`./onbeat dead_letters replay {named}` runs them again; "
        f"`./onbeat dead_letters discard {named} --note …` settles them."
    )
