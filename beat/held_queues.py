"""Queues that take nothing at the moment.

Their executions are passed by for a while: however many there are and however urgent, they must not keep those of other
queues waiting. Invariant: a queue that takes nothing is looked at again and again, and its return needs nobody's help.
"""

import time
from datetime import datetime, timedelta

from executions import events
from executions.confirms import UNCONFIRMED, UNROUTABLE, Report

# Somebody may be mending the queue at this very moment.
PAUSE = timedelta(seconds=5)
# To ask a queue that does not confirm takes its time, and leaves a message there each time.
_LONG_PAUSE = timedelta(seconds=30)
_SAY_AGAIN_SECONDS = 600.0


class HeldQueues:
    """What one beat knows of them."""

    def __init__(self) -> None:
        self._until: dict[str, datetime] = {}
        self._said_at: dict[str, float] = {}
        self._told: set[str] = set()  # those whose trouble was told, and not its end yet

    def closed(self, now: datetime) -> list[str]:
        """Those to pass by."""
        self._until = {queue: until for queue, until in self._until.items() if now < until <= now + _LONG_PAUSE}
        return sorted(self._until)

    def learn_from(self, report: Report, *, now: datetime) -> dict[str, str]:
        """Close the queues that took nothing, and say once what changed; returns those, with the reason."""
        closed: dict[str, str] = {}
        for queue in {row.queue for row in report.confirmed} & self._told:
            self._told.remove(queue)
            events.emit("a queue takes messages again", queue=queue)
        for reason, held in report.held.items():
            for queue in {row.queue for row in held}:
                if reason != UNROUTABLE:  # that one is declared anew, and takes the next one
                    self._until[queue] = now + (_LONG_PAUSE if reason == UNCONFIRMED else PAUSE)
                    closed[queue] = reason
                self._say_held(queue, reason, count=sum(row.queue == queue for row in held))
        return closed

    def _say_held(self, queue: str, reason: str, *, count: int) -> None:
        said_at = self._said_at.get(queue)
        if said_at is None or time.monotonic() - said_at > _SAY_AGAIN_SECONDS:
            self._said_at[queue] = time.monotonic()
            self._told.add(queue)
            events.warn("executions are held back", queue=queue, reason=reason, count=count)
