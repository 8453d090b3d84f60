"""Queues: how much waits in each, since when, and who takes it."""

from collections.abc import Sequence
from typing import Any

from rich.console import RenderableType

from api.operations.queues import queues_listed
from executions import words
from executions.clock import database_now
from terminal.frame import Asked, Told, Verb
from terminal.paper import coloured, strong, table

_HEADS = ("QUEUE", "DUE", "QUEUED", "RUNNING", "ON BROKER", "OLDEST", "WORKERS")


class Queues(Verb):
    does = "show the queues: how much waits in each, since when, and who takes it"
    explains = """\
DUE is to be published, QUEUED is published and taken by no worker yet, ON BROKER is what the broker itself counts."""
    examples = ("queues", "queues --json")

    def act(self, asked: Asked) -> Told:  # noqa: ARG002 - there is nothing to ask for
        found = queues_listed(now=database_now())
        if not found:
            return Told({"queues": []}, ["There is no queue yet: no job names one, and no worker consumes one."])
        shown: list[RenderableType] = [table(_HEADS, map(_cells, found), right=_HEADS[1:5], whole=_HEADS[:1])]
        return Told({"queues": found}, [*shown, *_amiss(found)])


def _cells(queue: dict[str, Any]) -> list[Any]:
    oldest, workers = queue["oldest_age_seconds"], queue["workers"]
    waits = queue["due"] + queue["queued"]
    return [
        strong(queue["name"]),
        f"{queue['due']:,}",
        f"{queue['queued']:,}",
        f"{queue['running']:,}",
        "?" if queue["depth"] is None else f"{queue['depth']:,}",
        words.duration(oldest) if oldest is not None else "-",
        ", ".join(workers) if workers else coloured("nobody", "bad" if waits else "warn"),
    ]


def _amiss(found: Sequence[dict[str, Any]]) -> list[str]:
    said = []
    if all(queue["depth"] is None for queue in found):
        said.append("The broker does not answer: nobody knows how many messages it has. What is due waits, and comes.")
    elif unknown := [queue["name"] for queue in found if queue["depth"] is None]:
        said.append(f"The broker does not let us look at {', '.join(unknown)}.")
    if untaken := [queue["name"] for queue in found if not queue["workers"]]:
        start = f"./onbeat worker --queues {','.join(queue['broker_name'] for queue in found if not queue['workers'])}"
        said.append(f"No worker takes from {', '.join(untaken)}; start one with `{start}`.")
    return said
