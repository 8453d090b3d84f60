"""A notice and its surroundings: where its links lead, and which installation tells it.

Owns the addresses of the admin's pages as others reach them; a test compares them with the admin's own.
"""

from datetime import datetime
from typing import Any
from urllib.parse import quote, urlsplit

from django.conf import settings

from executions.identity import new_execution_id
from notifications.bodies import Body, Letter, body_of
from notifications.kinds import Kind, Template
from notifications.models import Notice, Receiver


def of_notice(notice: Notice) -> Letter:
    receiver = notice.receiver
    return Letter(
        kind=Kind(notice.kind),
        about=notice.about,
        said=notice.said,
        made_at=notice.made_at,
        receiver=receiver.name,
        link=_link(notice, receiver),
        source=source(),
    )


def source() -> str:
    return urlsplit(settings.ONBEAT_CALLBACKS_URL).netloc or settings.ONBEAT_CONSOLE_LABEL or "onbeat"


def example(template: Template, *, receiver: str, now: datetime) -> Body:
    """What such a receiver would get of a dead letter, made up; without a routing key."""
    execution, moment = str(new_execution_id(now)), now.isoformat()
    said: dict[str, Any] = {
        "job": "billing.daily",
        "execution": execution,
        "attempt": 3,
        "outcome": "FAILED",
        "error": "ConnectionError: the ledger does not answer",
        "at": moment,
        "began_at": moment,
        "count": 1,
        "is_dead": True,
    }
    link = _page(f"onbeat_executions/execution/{execution}/change/")
    letter = Letter(Kind.DEAD_LETTER, said["job"], said, now, receiver, link, source())
    return body_of(letter, template, routing_key="…")


def _link(notice: Notice, receiver: Receiver) -> str:
    if execution := notice.said.get("execution"):
        return _page(f"onbeat_executions/execution/{execution}/change/")
    if notice.kind == Kind.TEST:
        return _page(f"onbeat_notifications/receiver/{receiver.pk}/change/")
    return _page(f"onbeat_jobs/job/?q={quote(notice.job_key)}")


def _page(path: str) -> str:
    """Nothing, if nobody said where this installation is reached."""
    return f"{settings.ONBEAT_CALLBACKS_URL}/admin/{path}" if settings.ONBEAT_CALLBACKS_URL else ""
