"""Receivers and what they were told, as JSON: the same for REST and for the commands."""

from typing import Any

from api.notifications.deeds import as_stored
from notifications.deliveries import Delivery
from notifications.models import Receiver


def in_short(receiver: Receiver, last: Delivery | None) -> dict[str, Any]:
    return as_stored(receiver) | {
        "active": receiver.is_active,
        "job": receiver.job.key,
        "created_at": receiver.created_at,
        "changed_at": receiver.changed_at,
        "changed_by": receiver.changed_by,
        "last": last and of_delivery(last),
    }


def in_full(receiver: Receiver, deliveries: list[Delivery]) -> dict[str, Any]:
    last = deliveries[0] if deliveries else None
    return in_short(receiver, last) | {"deliveries": [of_delivery(each) for each in deliveries]}


def of_delivery(delivery: Delivery) -> dict[str, Any]:
    notice = delivery.notice
    return {
        "event": notice.kind,
        "job": notice.job_key or None,
        "title": delivery.words.title,
        "made_at": notice.made_at,
        "execution": notice.execution_id,
        "state": delivery.state or None,
    }
