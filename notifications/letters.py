"""A notice and its surroundings: where its links lead, and which installation tells it.

Owns the addresses of the admin's pages as others reach them; a test compares them with the admin's own.
"""

from urllib.parse import urlsplit

from django.conf import settings

from notifications.bodies import Letter
from notifications.kinds import Kind
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


def _link(notice: Notice, receiver: Receiver) -> str:
    if not settings.ONBEAT_CALLBACKS_URL:
        return ""
    if execution := notice.said.get("execution"):
        return f"{settings.ONBEAT_CALLBACKS_URL}/admin/onbeat_executions/execution/{execution}/change/"
    if notice.kind == Kind.TEST:
        return f"{settings.ONBEAT_CALLBACKS_URL}/admin/onbeat_notifications/receiver/{receiver.pk}/change/"
    return f"{settings.ONBEAT_CALLBACKS_URL}/admin/onbeat_jobs/job/?q={notice.job_key}"
