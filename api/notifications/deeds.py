"""What is done to receivers, whoever asks: the deed and its entry in the audit trail.

REST, the admin and the commands call these. Invariant: the deed and its entry stand in one transaction; neither an
answer nor an entry has a URL or a key in it.
"""

from typing import Any

from django.db import transaction
from django.views.decorators.debug import sensitive_variables

from access import audit
from notifications import receivers
from notifications.models import Notice, Receiver
from notifications.receivers import Made
from notifications.refusals import NoSuchReceiver

_SECRETS = ("url", "routing_key")


def as_stored(receiver: Receiver) -> dict[str, Any]:
    """As it may be shown to anybody."""
    return {
        "name": receiver.name,
        "template": receiver.template,
        "to": receiver.origin,
        "events": receiver.events,
        "jobs": receiver.jobs,
        "late_after": receiver.late_after_seconds,
        "most_per_hour": receiver.most_per_hour,
        "secret": receiver.secret.name if receiver.secret else None,
    }


@sensitive_variables()
@transaction.atomic
def create(name: str, *, by: str, through: str, **fields: Any) -> Made:
    made = receivers.create(name, by=by, through=through, **fields)
    _record("create", name, by=by, through=through, after=as_stored(made.receiver))
    return made


@sensitive_variables()
@transaction.atomic
def change(name: str, *, by: str, through: str, **fields: Any) -> Receiver:
    before = as_stored(receivers.find(name))
    receiver = receivers.change(name, by=by, through=through, **fields)
    was, is_now = audit.what_changed(before, as_stored(receiver))
    replaced = [field for field in _SECRETS if fields.get(field)]
    if was or is_now or replaced:
        note = f"with another {' and '.join(replaced).replace('_', ' ')}" if replaced else ""
        _record("change", name, by=by, through=through, before=was, after=is_now, note=note)
    return receiver


@sensitive_variables()
def put(name: str, *, by: str, through: str, **fields: Any) -> Made:
    """Make it, or change it if it is there."""
    try:
        receivers.find(name)
    except NoSuchReceiver:
        return create(name, by=by, through=through, **fields)
    return Made(change(name, by=by, through=through, **fields), is_new=False)


@transaction.atomic
def remove(name: str, *, by: str, through: str) -> None:
    before = as_stored(receivers.find(name))
    receivers.remove(name, by=by, through=through)
    _record("remove", name, by=by, through=through, before=before)


@transaction.atomic
def send_test(name: str, *, by: str, through: str) -> Notice:
    notice = receivers.send_test(name)
    _record("test", name, by=by, through=through, after={"execution": str(notice.execution_id)})
    return notice


def _record(deed: str, name: str, *, by: str, through: str, **facts: Any) -> None:
    audit.record(who=by, through=through, action=f"receiver.{deed}", subject=f"receiver:{name}", **facts)
