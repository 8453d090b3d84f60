"""What a person does about dead letters: look, run them again, or discard them.

Owns the checks of what is asked; `executions/dead_letters.py` does it. Invariant: what is refused has changed nothing.
`now` is for tests; left out, it is the database's time.
"""

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any

from executions import dead_letters
from executions.clock import database_now
from executions.dead_letters import DEFAULT_REPLAYS_PER_SECOND, Group, Matching, MessagesReplayed, Replayed
from jobs import payloads
from jobs.refusals import InvalidRun, check_text, shown

__all__ = [
    "Group",
    "Matching",
    "MessagesReplayed",
    "Replayed",
    "discard",
    "discard_messages",
    "groups",
    "replay",
    "replay_messages",
]

MOST_REPLAYS_PER_SECOND = 1000


def groups(matching: Matching | None = None) -> list[Group]:
    """What waits for a person, by errors that look alike; the largest group first."""
    return dead_letters.groups(_checked(Matching() if matching is None else matching))


def replay(
    matching: Matching,
    *,
    per_second: int = DEFAULT_REPLAYS_PER_SECOND,
    note: str = "replayed",
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    most: int | None = None,
    begins_at: datetime | None = None,
    now: datetime | None = None,
) -> Replayed:
    """Run dead executions again as new ones, so many a second, with the same payload or another.

    All of them, or the first so many; the others can follow at the same pace from when the last one comes.

    Each is replayed once, also if two ask at the same time: whoever comes second finds it handled.
    """
    if type(per_second) is not int or not 1 <= per_second <= MOST_REPLAYS_PER_SECOND:
        raise InvalidRun("per_second", f"per_second must be 1 to {MOST_REPLAYS_PER_SECOND}, not {shown(per_second)}.")
    check_text(InvalidRun, note=note)
    payloads.check(() if args is None else args, {} if kwargs is None else kwargs, InvalidRun)
    return dead_letters.replay_matching(
        _checked(matching),
        per_second=per_second,
        note=note,
        args=args,
        kwargs=kwargs,
        most=most,
        begins_at=begins_at,
        now=now or database_now(),
    )


def discard(matching: Matching, *, note: str, most: int | None = None, now: datetime | None = None) -> int:
    """Mark dead executions as handled without running them again: all, or the first so many. How many there were."""
    _check_note(note)
    return dead_letters.discard(_checked(matching), note=note, most=most, now=now or database_now())


def replay_messages(ids: Collection[int], *, note: str = "replayed", now: datetime | None = None) -> MessagesReplayed:
    """Publish dead messages again, unchanged, into the queue each came from."""
    check_text(InvalidRun, note=note)
    return dead_letters.replay_messages(ids, note=note, now=now or database_now())


def discard_messages(ids: Collection[int], *, note: str, now: datetime | None = None) -> int:
    """Mark dead messages as handled. How many there were."""
    _check_note(note)
    return dead_letters.discard_messages(ids, note=note, now=now or database_now())


def _check_note(note: str) -> None:
    check_text(InvalidRun, note=note)
    if not note.strip():
        raise InvalidRun("note", "The note must not be empty: say what was decided about these dead letters.")


def _checked(matching: Matching) -> Matching:
    if not isinstance(matching, Matching):
        raise InvalidRun("matching", f"Say which dead letters are meant by a Matching(…), not by {shown(matching)}.")
    said = {each.name: getattr(matching, each.name) for each in fields(matching)}
    said = {name: value for name, value in said.items() if value is not None}
    check_text(InvalidRun, **{name: said[name] for name in ("fingerprint", "job", "task", "queue") if name in said})
    if not all(isinstance(each, uuid.UUID) for each in said.get("ids", ())):
        raise InvalidRun("ids", "The ids must be those of executions, each a uuid.UUID.")
    for name in ("since", "until"):
        moment = said.get(name)
        if moment is not None and (not isinstance(moment, datetime) or moment.tzinfo is None):
            raise InvalidRun(name, f"{name} {shown(moment)} must be a datetime with a time zone, such as +00:00.")
    return matching
