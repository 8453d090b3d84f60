"""What a notification says, in words. Pure: no Django.

Owns the sentences of all templates. Invariant: they are made of what a notice holds: names, moments, and the masked
line of an error; never a payload.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from executions.words import count
from notifications.kinds import Kind

Said = Mapping[str, Any]
_OUTCOMES = {"FAILED": "failed", "TIMED_OUT": "ran out of time", "WORKER_LOST": "lost its worker"}


@dataclass(frozen=True)
class Words:
    title: str
    lines: tuple[str, ...]  # what happened, then what else is to be known

    @property
    def text(self) -> str:
        return "\n".join((self.title, *self.lines))


def of_notice(kind: Kind, said: Said, *, receiver: str) -> Words:
    match kind:
        case Kind.FAILURE:
            words = _failure(said)
        case Kind.DEAD_LETTER:
            words = _dead_letter(said)
        case Kind.LATENESS:
            words = _lateness(said)
        case Kind.RECOVERY:
            words = _recovery(said)
        case Kind.TEST:
            lines = ("Somebody pressed the button to see whether notifications arrive. There is nothing to do.",)
            words = Words(f"Test of the notifications for {receiver}", lines)
    return Words(words.title, tuple(line for line in (*words.lines, _more(said)) if line))


def _failure(said: Said) -> Words:
    if said["is_dead"]:
        then = "It is given up."
    else:
        then = f"It is tried again at {_clock(said['next_at'])}." if said.get("next_at") else "It is tried again."
    title = f"{said['job']} {_outcome(said)}"
    return Words(title, (f"Attempt {said['attempt']} {_outcome(said)}. {then}", said["error"], _since(said, "failure")))


def _dead_letter(said: Said) -> Words:
    title = f"{said['job']} is given up"
    how = f"Attempt {said['attempt']} {_outcome(said)}, and was the last." if said["outcome"] else "No worker took it."
    lines = (f"{how} It waits in the dead letters for a person.", said["error"], _since(said, "dead letter"))
    return Words(title, lines)


def _lateness(said: Said) -> Words:
    lines = (f"It was due at {_clock(said['since'])} and has not begun: {said['why']}.",)
    return Words(f"{said['job']} is late", lines)


def _recovery(said: Said) -> Words:
    began = _clock(said["began_at"])
    if Kind.LATENESS in said["after"]:
        return Words(f"{said['job']} is on time again", (f"What was late since {began} has begun.",))
    line = f"Attempt {said['attempt']} succeeded at {_clock(said['at'])}, after trouble since {began}."
    untold = f"{count(said['count'], 'failure')} since the last notification." if said.get("count") else ""
    return Words(f"{said['job']} is well again", (line, untold))


def _outcome(said: Said) -> str:
    return _OUTCOMES.get(said["outcome"], "failed")


def _since(said: Said, what: str) -> str:
    """How many there were, where it is more than this one."""
    many = count(said.get("count", 1), what)
    if said.get("told_before_at"):
        return f"{many} since the last notification at {_clock(said['told_before_at'])}."
    return f"{many} since {_clock(said['began_at'])}." if said.get("count", 1) > 1 else ""


def _more(said: Said) -> str:
    more = said.get("more", 0)
    return f"And {count(more, 'more trouble')}, not told one by one: the limit per hour is reached." if more else ""


def _clock(moment: str) -> str:
    return f"{datetime.fromisoformat(moment).astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
