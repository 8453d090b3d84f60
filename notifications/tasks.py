"""The worker task that delivers a notification: what callbacks do, with what is sealed of a receiver.

Invariant: the execution names its notice and holds nothing else; address, routing key and signing keys are opened in
the worker's memory alone. What is about the same thing is delivered in its order: the end of a trouble never overtakes
its beginning.
"""

from datetime import timedelta
from typing import Any
from uuid import UUID

from celery import shared_task
from django.db.models import Q
from django.views.decorators.debug import sensitive_variables

from callbacks.hosts import NotNow
from callbacks.refusals import Forbidden, GaveUp
from callbacks.tasks import Call, CallbackTask, send_admitted
from executions.clock import Clock
from executions.models import Execution
from jobs import vault
from jobs.http_target import HttpTarget
from jobs.kept_secrets import Material
from jobs.models import SecretPart
from jobs.targets import rules
from jobs.web_address import Unfit, WebAddress, parsed
from notifications import letters
from notifications.bodies import body_of
from notifications.kinds import TASK, Template
from notifications.models import Notice, Receiver
from notifications.receivers import REQUEST_SECONDS

_LOOK_AGAIN_AFTER = timedelta(seconds=5)
_FEWEST_OF_A_SECRET = 6
_NOTHING = "there is no notification to deliver: its receiver was removed, or this job was run by hand"

_clock = Clock()


class NotifyTask(CallbackTask):
    abstract = True

    def call_of(self, execution_id: UUID) -> Call | GaveUp | NotNow:
        found = _notice_of(execution_id)
        if found is None:
            return GaveUp(_NOTHING)
        if _is_preceded(found):
            return NotNow("waits for the notification before it", _clock.now() + _LOOK_AGAIN_AFTER)
        try:
            return _call_of(found, found.receiver)
        except (LookupError, vault.CannotOpen) as error:
            return GaveUp(f"a secret of the receiver cannot be used: {error.args[0]}")
        except Unfit as unfit:
            return Forbidden(str(unfit))


def _notice_of(execution_id: UUID) -> Notice | None:
    """By its payload, which a replay has as well; only those of the receiver whose job it is."""
    row = Execution.objects.with_id(execution_id).values_list("job_id", "kwargs").first()
    if row is None or not isinstance(number := row[1].get("notice"), int):
        return None
    notices = Notice.objects.select_related("receiver__job", "receiver__secret")
    return notices.filter(pk=number, receiver__job_id=row[0]).first()


def _is_preceded(notice: Notice) -> bool:
    """Whether one that is about the same and was made before is still on its way."""
    before = Notice.objects.filter(receiver=notice.receiver_id, about=notice.about, pk__lt=notice.pk)
    ids = list(before.order_by("-pk").values_list("execution_id", flat=True)[:20])
    return Execution.objects.with_ids([pk for pk in ids if pk is not None]).open().exists()


@sensitive_variables()
def _call_of(notice: Notice, receiver: Receiver) -> Call:
    url, template = parsed(vault.opened(receiver.sealed_url), rules()), Template(receiver.template)
    routing_key = vault.opened(receiver.sealed_key) if receiver.sealed_key else ""
    material = Material(signing_keys=_signing_keys(receiver, url), others=(*_parts_of(url), routing_key))
    # Told of is the host alone.
    target = HttpTarget(url=url.origin, timeout_seconds=REQUEST_SECONDS)
    body = body_of(letters.of_notice(notice), template, routing_key=routing_key)
    return Call(receiver.job, target, url, material, payload=body)


@sensitive_variables()
def _signing_keys(receiver: Receiver, url: WebAddress) -> tuple[str, ...]:
    secret = receiver.secret
    if secret is None:
        return ()
    if not secret.is_for(url.host):
        raise LookupError(f"{secret.name!r} is not for {url.host}")
    now = _clock.now()
    live = SecretPart.objects.filter(Q(ends_at=None) | Q(ends_at__gt=now), secret=secret).order_by("-created_at", "-pk")
    return tuple(vault.opened(part.sealed) for part in live)


def _parts_of(url: WebAddress) -> tuple[str, ...]:
    """What of an address may be as secret as the whole: a receiver may tell back a part of it."""
    words = url.path.replace("?", "/").replace("&", "/").replace("=", "/").split("/")
    return (url.path, *(word for word in words if len(word) >= _FEWEST_OF_A_SECRET))


@shared_task(name=TASK, base=NotifyTask, typing=False)
def notify(**_payload: Any) -> Any:
    """Deliver one notification."""
    return send_admitted({})
