"""Cancel, retry and replay executions: those that are named, each for itself."""

import json
from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Any
from uuid import UUID

from api.executions import deeds
from api.executions.named import found, id_of
from api.problems import Problem
from executions.models import Execution
from executions.words import count
from jobs.refusals import TooLate
from jobs.sweeps import Deed
from terminal.executions.filters import filter_arguments
from terminal.executions.sweeping import is_filtered, sweep_all
from terminal.frame import Asked, Exit, Told, Verb, refuse

_IDS = "Their ids; the first 8 digits or more, if no other begins so."
_NOBODY_NAMED = "Name executions by their ids, or say which by a filter such as --job KEY --state QUEUED."


class Cancel(Verb):
    name = "cancel"
    does = "cancel executions, by id or all that match"
    explains = """\
What has not begun will not run. What runs is asked to stop, and killed after its grace. All that match a filter are
counted first; then you are asked. Each batch stands for itself: whoever stops in the middle has done the first part.
The exit code is 1 if nothing could be done."""
    examples = (
        "executions cancel 019a3f52-8c1e-7d6b-9a40-2f6c1d0e8b77 --reason 'the customer left'",
        "executions cancel --job billing.daily --state QUEUED --dry-run",
        "executions cancel --job billing.daily --state SCHEDULED --state QUEUED --yes",
    )
    changes = asks = True

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("ids", nargs="*", metavar="ID", help=_IDS)
        filter_arguments(parser)
        parser.add_argument("--reason", default="", help="Why; kept on the executions.")

    def act(self, asked: Asked) -> Told:
        if not _are_named(asked):
            return sweep_all(Deed.CANCEL, asked, note=asked["reason"])

        def do(execution: Execution) -> dict[str, Any]:
            return {"outcome": deeds.cancel(execution, reason=asked["reason"], **asked.signature)}

        return each_of(asked, "cancel", do)


class Retry(Verb):
    name = "retry"
    does = "let the next attempt of executions come now"
    explains = "For those that wait for a retry. What is over is replayed. The exit code is 1 if nothing could be done."
    examples = ("executions retry 019a3f52-8c1e-7d6b-9a40-2f6c1d0e8b77",)
    changes = True

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("ids", nargs="+", metavar="ID", help=_IDS)

    def act(self, asked: Asked) -> Told:
        def do(execution: Execution) -> dict[str, Any]:
            deeds.retry_now(execution, **asked.signature)
            return {"outcome": "its next attempt comes now"}

        return each_of(asked, "retry", do)


class Replay(Verb):
    name = "replay"
    does = "run executions again as new ones, by id or all that match"
    explains = """\
With the same payload, or with another for those that are named. A dead letter counts as handled then. All that match a
filter are counted first; then you are asked. For dead letters `dead_letters replay` has a pace. The exit code is 1 if
nothing could be done."""
    examples = (
        "executions replay 019a3f52-8c1e-7d6b-9a40-2f6c1d0e8b77",
        """executions replay 019a3f528c1e --kwargs '{"message": "hello"}' --note 'a typo is mended'""",
        "executions replay --job billing.daily --state CANCELLED --since 2h --dry-run",
    )
    changes = asks = True

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("ids", nargs="*", metavar="ID", help=_IDS)
        filter_arguments(parser)
        payload_arguments(parser)
        parser.add_argument("--note", default="", help="What was decided; kept on dead letters.")

    def act(self, asked: Asked) -> Told:
        payload = payload_in(asked)
        if not _are_named(asked):
            if payload:
                refuse("Another payload is for executions that are named by their ids; leave --args and --kwargs out.")
            return sweep_all(Deed.REPLAY, asked, note=asked["note"])

        def do(execution: Execution) -> dict[str, Any]:
            new = deeds.replay(execution, note=asked["note"], **payload, **asked.signature)
            return {"outcome": f"runs again as {new}", "replay": new}

        return each_of(asked, "replay", do)


def _are_named(asked: Asked) -> bool:
    if asked["ids"] and is_filtered(asked):
        refuse("Name executions by their ids, or say which by a filter; not both.")
    if not asked["ids"] and not is_filtered(asked):
        refuse(_NOBODY_NAMED)
    return bool(asked["ids"])


def each_of(asked: Asked, verb: str, do: Callable[[Execution], dict[str, Any]]) -> Told:
    """Do it to each that was named, and say of each what became of it."""
    ids = list(dict.fromkeys(map(id_of, asked["ids"])))
    if getattr(asked.options, "dry_run", False):
        return _looked(verb, ids)
    told = [{"id": pk, **_tried(pk, do)} for pk in ids]
    done = sum("outcome" in each for each in told)
    shown = [f"{each['id']}  {each.get('outcome') or each['problem']}" for each in told]
    return Told({"done": done, "items": told}, shown, Exit.DONE if done else Exit.FAILED)


def _tried(pk: UUID, do: Callable[[Execution], dict[str, Any]]) -> dict[str, Any]:
    try:
        return do(found(pk))
    except TooLate as late:
        return {"problem": str(late)}
    except Problem as problem:
        if problem.status != HTTPStatus.NOT_FOUND:
            raise
        return {"problem": problem.detail}


def _looked(verb: str, ids: Sequence[UUID]) -> Told:
    rows = [found(pk) for pk in ids]
    items = [{"id": row.pk, "job": row.job.key, "state": row.state} for row in rows]
    shown = [f"{row.pk}  {row.job.key}, {row.state}" for row in rows]
    return Told({"done": 0, "items": items}, [*shown, f"Would {verb} {count(len(ids), 'execution')}, if it can."])


def payload_arguments(parser: ArgumentParser) -> None:
    # Django keeps what is called args for itself.
    parser.add_argument("--args", dest="args_json", metavar="JSON", help="In place of those they had: [1, 2].")
    parser.add_argument(
        "--kwargs", dest="kwargs_json", metavar="JSON", help='In place of those they had: {"name": "value"}.'
    )


def payload_in(asked: Asked) -> dict[str, Any]:
    """--args and --kwargs, as far as they were said."""
    kinds = {"args": (list, "a list, such as [1, 2]"), "kwargs": (dict, 'an object, such as {"name": "value"}')}
    payload = {}
    for option, text in asked.given("args_json", "kwargs_json").items():
        name = option.removesuffix("_json")
        kind, example = kinds[name]
        try:
            payload[name] = json.loads(text)
        except (ValueError, RecursionError):
            refuse(f"--{name} is no JSON; write {example}.")
        if not isinstance(payload[name], kind):
            refuse(f"--{name} must be {example}.")
    return payload
