"""Steps that were committed though their answer was lost on the way.

A step that failed is tried again, and then finds its own work: the attempt is claimed, or over. Invariant: each try has
a moment of its own, and only what bears the moment of an earlier try of ours is taken for ours.
"""

from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import TypeVar

from executions import lifecycle
from executions.clock import Clock
from executions.messages import Delivery
from executions.outcomes import Claim, Finish, Held
from workers.patience import reaching_database

T = TypeVar("T")
_clock = Clock()


def claimed(delivery: Delivery, worker: str, pauses: Sequence[float]) -> Claim | Held | None:
    """As `lifecycle.claim`. None: the attempt is taken by somebody else, over or no longer wanted."""
    pair = delivery.execution_id, delivery.attempt

    def claim(now: datetime, before: Collection[datetime]) -> Claim | Held | None:
        answer = lifecycle.claim(*pair, worker=worker, now=now)
        if answer is None and before:
            ours = lifecycle.claim_of(*pair, worker=worker)
            return ours if ours is not None and ours.started_at in before else None
        return answer

    return _tried(claim, pauses)


def finished(claim: Claim, end: Callable[[datetime], Finish], pauses: Sequence[float]) -> Finish:
    """As the verb of the lifecycle that ends it. REFUSED: it was ended by somebody else."""

    def finish(now: datetime, before: Collection[datetime]) -> Finish:
        answer = end(now)
        if answer is Finish.REFUSED and before:
            return lifecycle.finish_of(claim, ended_at=before) or answer
        return answer

    return _tried(finish, pauses)


def _tried(step: Callable[[datetime, Collection[datetime]], T], pauses: Sequence[float]) -> T:
    """Until it is answered. Each try gets its moment, and those of the tries before it."""
    before: list[datetime] = []

    def once() -> T:
        now = _clock.now()
        try:
            return step(now, tuple(before))
        finally:
            before.append(now)

    return reaching_database(once, pauses)
