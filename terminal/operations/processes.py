"""Workers and beats: who is there, and how each is."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from rich.console import RenderableType

from api.operations.workers import beats_listed, workers_listed
from executions import queues, words
from executions.clock import database_now
from terminal.frame import Asked, Told, Verb
from terminal.paper import coloured, strong, table, toned

_NO_WORKER = "No worker is alive: nothing runs. Start one with `./onbeat worker`."
_NO_BEAT = "No beat ticks: nothing fires, and what is due waits. Start one with `./onbeat run_beat`."


class Workers(Verb):
    does = "show the workers: what each takes from, how many it runs, when it last gave a sign of life"
    examples = ("workers", "workers --json")

    def act(self, asked: Asked) -> Told:  # noqa: ARG002 - there is nothing to ask for
        now = database_now()
        found = workers_listed(now=now)
        heads = ("WORKER", "STATE", "HEARTBEAT", "RUNNING", "QUEUES", "VERSION", "UP")
        shown: list[RenderableType] = [table(heads, [_worker(each, now) for each in found], whole=heads[1:4])]
        return Told({"workers": found}, [*(shown if found else []), *_none(found, "is_alive", _NO_WORKER)])


def _worker(worker: dict[str, Any], now: datetime) -> list[Any]:
    return [
        strong(worker["name"]),
        toned("alive" if worker["is_alive"] else "silent"),
        words.away(worker["heartbeat_at"], now=now),
        f"{len(worker['running'])} of {worker['concurrency']}",
        ", ".join(queues.job_queue_name(name) or name for name in worker["queues"]),
        worker["version"],
        words.duration(now - worker["started_at"]),
    ]


class Beats(Verb):
    does = "show the beats: when each last ticked, how late it is, what is amiss"
    explains = "CLOCK is how far the clock of its machine is ahead of the database's."
    examples = ("beats", "beats --json")

    def act(self, asked: Asked) -> Told:  # noqa: ARG002 - there is nothing to ask for
        now = database_now()
        found = beats_listed(now=now)
        heads = ("BEAT", "STATE", "TICKED", "LATE BY", "CLOCK", "SHARDS", "UP", "TROUBLE")
        shown: list[RenderableType] = [table(heads, [_beat(each, now) for each in found], whole=heads[:3])]
        return Told({"beats": found}, [*(shown if found else []), *_none(found, "is_ticking", _NO_BEAT)])


def _beat(beat: dict[str, Any], now: datetime) -> list[Any]:
    offset = beat["clock_offset_seconds"]
    return [
        strong(beat["name"]),
        toned(_state(beat, now)),
        words.away(beat["ticked_at"], now=now) if beat["ticked_at"] else "never",
        "-" if beat["lateness_seconds"] is None else words.duration(beat["lateness_seconds"]),
        "-" if offset is None else f"{'+' if offset >= 0 else '-'}{words.duration(abs(offset))}",
        beat["shards"],
        words.duration(now - beat["started_at"]),
        coloured(beat["trouble"], "bad") if beat["trouble"] else "none",
    ]


def _state(beat: dict[str, Any], now: datetime) -> str:
    if beat["is_ticking"]:
        return "ticking"
    within = timedelta(seconds=settings.ONBEAT_BEAT_SILENT_AFTER_SECONDS)
    is_heard = beat["seen_at"] is not None and abs(now - beat["seen_at"]) < within
    return "refusing" if is_heard and beat["trouble"] else "silent"


def _none(found: Sequence[dict[str, Any]], is_well: str, text: str) -> list[str]:
    return [] if any(each[is_well] for each in found) else [text]
