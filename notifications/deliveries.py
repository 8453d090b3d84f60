"""What was told to receivers, and how it went: for whoever looks."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from uuid import UUID

from django.db.models import Max

from executions.models import Execution
from notifications import letters
from notifications.models import Notice, Receiver, Trouble
from notifications.wording import Words

MOST = 20


@dataclass(frozen=True)
class Delivery:
    notice: Notice
    execution: Execution | None  # gone, if it is past its days

    @property
    def words(self) -> Words:
        return letters.of_notice(self.notice).words

    @property
    def state(self) -> str:
        return "" if self.execution is None else self.execution.state


def latest(receiver: Receiver, *, most: int = MOST) -> list[Delivery]:
    """The newest first."""
    notices = list(
        Notice.objects.filter(receiver=receiver).select_related("receiver").order_by("-made_at", "-pk")[:most]
    )
    executions = _executions([n.execution_id for n in notices if n.execution_id is not None])
    return [Delivery(n, executions.get(n.execution_id) if n.execution_id else None) for n in notices]


def latest_of_each(receivers: Collection[Receiver]) -> Mapping[int, Delivery]:
    """By receiver, for a list of them."""
    newest = Notice.objects.filter(receiver__in=[r.pk for r in receivers]).values("receiver").annotate(newest=Max("pk"))
    notices = Notice.objects.filter(pk__in=[row["newest"] for row in newest]).select_related("receiver")
    executions = _executions([n.execution_id for n in notices if n.execution_id is not None])
    return {n.receiver_id: Delivery(n, executions.get(n.execution_id) if n.execution_id else None) for n in notices}


def troubles_of(receiver: Receiver) -> list[Trouble]:
    """What it was told of, or will be, and what is not over."""
    return list(receiver.troubles.select_related("job").order_by("began_at")[:MOST])


def _executions(ids: Collection[UUID]) -> Mapping[UUID, Execution]:
    return {row.pk: row for row in Execution.objects.with_ids(ids)} if ids else {}
