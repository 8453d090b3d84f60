"""What the broker says about the messages of a batch. Pure: no Django, no connection.

Invariant: an execution counts as confirmed only if the broker has taken responsibility for its message.
"""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from executions.outgoing import Outgoing

UNROUTABLE = "no queue takes its message"
UNCONFIRMED = "its queue has not confirmed the messages before"
NACKED = "the broker took its message and gave it back: its queue is full, or broken"


@dataclass
class Report:
    """What the broker said about one batch."""

    confirmed: list[Outgoing] = field(default_factory=list)
    unknown: list[Outgoing] = field(default_factory=list)
    held: dict[str, list[Outgoing]] = field(default_factory=dict)  # by reason: their queue does not take them
    error: str = ""

    def and_then(self, following: "Report") -> "Report":
        held = {reason: [*self.held.get(reason, []), *rows] for reason, rows in following.held.items()}
        return Report(
            [*self.confirmed, *following.confirmed],
            [*self.unknown, *following.unknown],
            {**self.held, **held},
            following.error,
        )


class Confirms:
    """The outstanding delivery tags of one batch.

    Acks come out of order and may stand for many (`multiple`), so only the set of outstanding tags proves anything. A
    returned message carries no tag; it is known by its message id, and it comes before its own ack.
    """

    def __init__(self, executions: Sequence[Outgoing]) -> None:
        self.executions = executions
        self.outstanding: dict[int, Outgoing] = {}
        self._confirmed: list[Outgoing] = []
        self._nacked: list[Outgoing] = []
        self._returned: set[uuid.UUID] = set()

    def sent(self, tag: int, execution: Outgoing) -> None:
        self.outstanding[tag] = execution

    def acked(self, delivery_tag: int, multiple: bool) -> None:
        self._confirmed += self._settle(delivery_tag, multiple)

    def nacked(self, delivery_tag: int, multiple: bool) -> None:
        self._nacked += self._settle(delivery_tag, multiple)

    def returned(self, message_id: str) -> None:
        self._returned.add(uuid.UUID(message_id))

    def _settle(self, delivery_tag: int, multiple: bool) -> list[Outgoing]:
        # They were sent in the order of their tags.
        tags = list(takewhile(lambda tag: tag <= delivery_tag, self.outstanding)) if multiple else [delivery_tag]
        return [self.outstanding.pop(tag) for tag in tags if tag in self.outstanding]

    def report(self, held: Mapping[str, list[Outgoing]], error: str = "") -> Report:
        unroutable = [execution for execution in self._confirmed if execution.pk in self._returned]
        settled = {execution.pk for execution in (*self._confirmed, *self._nacked)}
        refused = {UNROUTABLE: unroutable, NACKED: self._nacked}
        return Report(
            confirmed=[execution for execution in self._confirmed if execution.pk not in self._returned],
            unknown=[execution for execution in self.executions if execution.pk not in settled],
            held={**held, **{reason: rows for reason, rows in refused.items() if rows}},
            error=error,
        )
