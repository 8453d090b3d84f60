"""The states of an execution and the only ways between them. Pure: no Django.

Owns the vocabulary (State, Outcome, Trigger) and the table of transitions. Invariant: `executions/lifecycle/` makes
no step that is not a row of TRANSITIONS.
"""

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    SCHEDULED = "SCHEDULED"
    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    DEAD = "DEAD"
    CANCELLED = "CANCELLED"
    SKIPPED = "SKIPPED"


class Outcome(StrEnum):
    """How one attempt ended."""

    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    TIMED_OUT = "TIMED_OUT"
    WORKER_LOST = "WORKER_LOST"
    CANCELLED = "CANCELLED"


BAD_OUTCOMES = [Outcome.FAILED.value, Outcome.TIMED_OUT.value, Outcome.WORKER_LOST.value]


class Trigger(StrEnum):
    """What asked for the run."""

    SCHEDULE = "SCHEDULE"
    BACKFILL = "BACKFILL"
    MANUAL = "MANUAL"
    DELAYED = "DELAYED"
    REPLAY = "REPLAY"


class Overlap(StrEnum):
    """What becomes of a run whose job already has as many running as it may."""

    ALLOW = "ALLOW"  # it waits for its turn, if there is a limit at all
    SKIP = "SKIP"
    QUEUE = "QUEUE"  # one waits, further ones are skipped
    CANCEL_PREVIOUS = "CANCEL_PREVIOUS"  # it waits, and the oldest that runs is asked to stop


# A fire of these exists once per (job, fire_time); runs that people and apps ask for may share an instant.
FIRE_TRIGGERS = (Trigger.SCHEDULE, Trigger.BACKFILL)


@dataclass(frozen=True)
class Transition:
    source: State
    target: State
    when: str


TRANSITIONS = (
    Transition(State.SCHEDULED, State.QUEUED, "confirmed by the broker"),
    Transition(State.SCHEDULED, State.RUNNING, "claimed"),
    Transition(State.SCHEDULED, State.CANCELLED, "cancelled before it ran"),
    Transition(State.SCHEDULED, State.SKIPPED, "overlap, misfire or expired, with the reason"),
    Transition(State.QUEUED, State.RUNNING, "claimed"),
    Transition(State.QUEUED, State.SCHEDULED, "same attempt: unroutable, held by overlap or message lost"),
    Transition(State.QUEUED, State.CANCELLED, "cancelled before it ran"),
    Transition(State.RUNNING, State.SUCCEEDED, "finished"),
    Transition(State.RUNNING, State.DEAD, "gave up"),
    Transition(State.RUNNING, State.CANCELLED, "stopped on request"),
    Transition(State.RUNNING, State.SCHEDULED, "retry: attempt + 1, later available_at"),
    Transition(State.SKIPPED, State.SCHEDULED, "backfill only, with provenance"),
)

CLAIMABLE = tuple(sorted(t.source for t in TRANSITIONS if t.target is State.RUNNING))
OPEN = (State.SCHEDULED, State.QUEUED, State.RUNNING)
FINAL = frozenset(State) - {t.source for t in TRANSITIONS}


def is_allowed(source: State, target: State) -> bool:
    return any(t.source is source and t.target is target for t in TRANSITIONS)
