"""Settle dead letters: run them again at a pace, or discard them with a note; first how many, then the question.

Invariant: what gave up after it was counted is left alone. A batch is stored with its entry in the audit trail, so
that whoever stops in the middle has done the first part.
"""

from argparse import ArgumentParser
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from api.executions import deeds
from api.executions.named import id_of
from executions.clock import database_now
from executions.dead_letters import DEFAULT_REPLAYS_PER_SECOND
from executions.words import clock, count
from jobs.dead_letters import MOST_REPLAYS_PER_SECOND, Matching
from terminal.dead_letters.listing import matching_arguments, said_in
from terminal.executions.acting import payload_arguments, payload_in
from terminal.frame import Asked, Exit, Told, Verb, refuse

BATCH = 500
_SUBJECT = "dead letters matching a filter"
_LARGEST_ID = 2**63 - 1
_WHICH = "Say which dead letters: a fingerprint, --job, --task, --queue, --id or --message; --all means all that wait."


def which_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("fingerprint", nargs="?", metavar="FINGERPRINT", help="As `dead_letters list` shows it.")
    matching_arguments(parser)
    parser.add_argument("--id", action="append", metavar="ID", help="Of an execution; may be said several times.")
    parser.add_argument("--all", action="store_true", help="All that wait.")
    parser.add_argument(
        "--message", action="append", type=int, metavar="ID", help="A message of no execution; several times."
    )


class Replay(Verb):
    name = "replay"
    does = "run dead letters again as new executions, at a pace"
    explains = f"""\
They are counted first; then you are asked. Each is replayed once, whoever else asks at the same time, and counts as
handled. {DEFAULT_REPLAYS_PER_SECOND} become due in a second, unless --per-second says otherwise, so that what just came
back is not run over. A message of no execution is published again, unchanged, into the queue that it came from. The
exit code is 1 if nothing could be done."""
    examples = (
        "dead_letters replay 5f2c9a1e7b3d4c60 --dry-run",
        "dead_letters replay --job billing.daily --per-second 5 --note 'the bank is back' --yes",
        "dead_letters replay --message 12 --yes",
    )
    changes = asks = True

    def add_arguments(self, parser: ArgumentParser) -> None:
        which_arguments(parser)
        parser.add_argument(
            "--per-second",
            type=int,
            default=DEFAULT_REPLAYS_PER_SECOND,
            metavar="N",
            help=f"How many become due in a second: 1 to {MOST_REPLAYS_PER_SECOND}.",
        )
        payload_arguments(parser)
        parser.add_argument("--note", default="", help="What was decided; kept on each of them.")

    def act(self, asked: Asked) -> Told:
        per_second, payload = asked["per_second"], payload_in(asked)
        if not 1 <= per_second <= MOST_REPLAYS_PER_SECOND:
            refuse(f"--per-second must be 1 to {MOST_REPLAYS_PER_SECOND}, not {per_second}.")
        if asked["message"]:
            return _replay_messages(asked)
        last: datetime | None = None  # when the latest of those that were replayed comes

        def do(matching: Matching, said: Any) -> int:
            nonlocal last
            done = deeds.replay_dead(
                matching,
                subject=_SUBJECT,
                said=said,
                note=asked["note"],
                per_second=per_second,
                begins_at=None if last is None else last + timedelta(seconds=1 / per_second),
                most=BATCH,
                **payload,
                **asked.signature,
            )
            last = done.last_due_at or last
            return done.count

        told = _settle(asked, "replay", do)
        if last is None or told.data["done"] < 2:
            return told
        return replace(told, shown=[*told.shown, f"The last comes at {clock(last)}."])


class Discard(Verb):
    name = "discard"
    does = "mark dead letters as handled without running them"
    explains = "They are counted first; then you are asked. They stay among the executions. The exit code is 1 if \
nothing could be done."
    examples = (
        "dead_letters discard 5f2c9a1e7b3d4c60 --note 'the tenant is gone'",
        "dead_letters discard --job billing.daily --until 30d --note 'too old' --yes",
        "dead_letters discard --message 12 --note 'not ours' --yes",
    )
    changes = asks = True

    def add_arguments(self, parser: ArgumentParser) -> None:
        which_arguments(parser)
        parser.add_argument("--note", required=True, help="What was decided; kept on each of them.")

    def act(self, asked: Asked) -> Told:
        if not asked["note"].strip():
            refuse("The note must not be empty: say what was decided about these dead letters.")
        if asked["message"]:
            return _discard_messages(asked)

        def do(matching: Matching, said: Any) -> int:
            return deeds.discard_dead(
                matching, subject=_SUBJECT, said=said, note=asked["note"], most=BATCH, **asked.signature
            )

        return _settle(asked, "discard", do)


def _settle(asked: Asked, verb: str, do: Callable[[Matching, Any], int]) -> Told:
    """Count, ask, then batch by batch until none is left."""
    now = database_now()
    said = said_in(asked, now=now)
    ids = [id_of(text) for text in asked["id"] or ()]
    if not said and not ids and not asked["all"]:
        refuse(_WHICH)
    until = min(said.get("until", now), now)
    matching = Matching(**{**said, "ids": ids or None, "until": until})
    number = matching.executions().count()
    asked.paper.say(f"{count(number, 'dead letter')} {'waits' if number == 1 else 'wait'} for a person.")
    if not number:
        return Told(_data(0, 0), (), Exit.DONE if asked["dry_run"] else Exit.FAILED)
    if asked["dry_run"] or not asked.agrees(f"{verb.capitalize()} {'it' if number == 1 else 'them'}?"):
        return Told(_data(number, 0), ["Nothing was done."])
    done, named = 0, {"ids": ids} if ids else {}
    with asked.paper.progress(verb.capitalize(), number) as advance:
        # Whoever does the same at the same time may have taken a whole batch: then there may be more.
        while matching.executions().exists() and (settled := do(matching, {**said, **named, "until": until})):
            done += settled
            advance(settled)
    past = {"replay": "replayed", "discard": "discarded"}[verb]
    code = Exit.DONE if done else Exit.FAILED
    return Told(_data(number, done), [f"{count(done, 'dead letter')} {past}."], code)


def _data(matching: int, done: int) -> dict[str, Any]:
    return {"matching": matching, "done": done}


# ── Messages of no execution ─────────────────────────────────────────────────────────────────────────────────────


def _replay_messages(asked: Asked) -> Told:
    ids = _messages(asked)
    if payload_in(asked):
        refuse("A message is published as it is; leave --args and --kwargs out.")
    if not _wants(asked, f"Publish {count(len(ids), 'message')} again?"):
        return Told({"replayed": [], "left": {}}, ["Nothing was done."])
    done = deeds.replay_messages(ids, note=asked["note"], **asked.signature)
    shown = [f"{count(len(done.replayed), 'message')} published again."]
    shown += [f"Message {pk} stays: {why}." for pk, why in done.left.items()]
    data = {"replayed": done.replayed, "left": {str(pk): why for pk, why in done.left.items()}}
    return Told(data, shown, Exit.DONE if done.replayed else Exit.FAILED)


def _discard_messages(asked: Asked) -> Told:
    ids = _messages(asked)
    if not _wants(asked, f"Discard {count(len(ids), 'message')}?"):
        return Told({"discarded": 0}, ["Nothing was done."])
    done = deeds.discard_messages(ids, note=asked["note"], **asked.signature)
    shown = [f"{count(done, 'message')} discarded."]
    if done < len(ids):
        shown.append(f"{len(ids) - done} of them were handled already, or there are none of these ids.")
    return Told({"discarded": done}, shown, Exit.DONE if done else Exit.FAILED)


def _messages(asked: Asked) -> list[int]:
    if said_in(asked, now=database_now()) or asked["id"] or asked["all"]:
        refuse("Name messages by --message, or dead letters of executions by a filter; not both.")
    ids = list(dict.fromkeys(asked["message"]))
    if not all(1 <= pk <= _LARGEST_ID for pk in ids):
        refuse("--message must be the number of a message; `./onbeat dead_letters list` shows them.")
    return ids


def _wants(asked: Asked, question: str) -> bool:
    return not asked["dry_run"] and asked.agrees(question)
