"""Who is told: make, change and remove receivers, and test them.

Owns every change of a receiver. Invariants: its URL and PagerDuty's routing key are sealed and told to nobody but who
sends; with it stands the job whose executions are its deliveries; what is refused is not saved. `now` is for tests;
left out, it is the database's time.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from difflib import get_close_matches
from typing import Any

from django.db import IntegrityError, transaction
from django.views.decorators.debug import sensitive_variables

from executions.clock import database_now
from executions.models import Execution
from executions.retry import RetryPolicy
from executions.storable import storable_text
from jobs import definitions, finding, kept_secrets, new_jobs, runs, targets, vault, web_address
from jobs.http_target import HTTP_QUEUE, is_secret_name
from jobs.models import OPEN_STATES, Job, Secret, SecretUse
from jobs.refusals import KeyTaken, NoSuchJob, Refused, check_text, shown
from notifications import notices
from notifications.kinds import (
    DEFAULT_EVENTS,
    DEFAULT_LATE_AFTER_SECONDS,
    DEFAULT_MOST_PER_HOUR,
    EVENTS,
    OWNER,
    PAGERDUTY_URL,
    TASK,
    Kind,
    Template,
)
from notifications.models import Lookout, Notice, Receiver, Trouble
from notifications.refusals import InvalidReceiver, NoSuchReceiver

MOST_JOBS = 200
MOST_LATE_SECONDS = 30 * 24 * 3600
MOST_PER_HOUR = 1000
REQUEST_SECONDS = 15
MOST_ATTEMPTS = 8
_PATTERN = re.compile(r"[A-Za-z0-9*][A-Za-z0-9._:@/*-]{0,199}")
_ROUTING_KEY = re.compile(r"[A-Za-z0-9]{20,64}")
_CHARACTERS_OF_BY = 200
# Soon, for people wait for them; and long enough to outlast an hour's outage of who is told.
_RETRY = RetryPolicy(max_attempts=MOST_ATTEMPTS, initial_seconds=15, cap_seconds=900, jitter=0.2)
_PRIORITY = 7


@dataclass(frozen=True)
class Made:
    """A receiver, and the key that it verifies signatures with, this one time, if it was made here."""

    receiver: Receiver
    key: str = field(default="", repr=False)
    is_new: bool = True


@sensitive_variables()
def create(
    name: str,
    *,
    template: Template | str = Template.STANDARD,
    url: str = "",
    routing_key: str = "",
    secret: str | None = None,
    events: Sequence[str] = DEFAULT_EVENTS,
    jobs: Sequence[str] = (),
    late_after_seconds: int = DEFAULT_LATE_AFTER_SECONDS,
    most_per_hour: int = DEFAULT_MOST_PER_HOUR,
    by: str = "",
    through: str = "python",
    now: datetime | None = None,
) -> Made:
    """Without a secret the standard template is signed by a key that is made here, and told this once.

    What happened before is not told.
    """
    check_text(InvalidReceiver, name=name, url=url, routing_key=routing_key, by=by, through=through)
    if not is_secret_name(name):
        raise InvalidReceiver(
            "name", f"The name {shown(name)} must be 1 to 100 letters, digits and . _ -, a letter or digit first."
        )
    template, now = _template(template), now or database_now()
    said = {
        "events": _events(events),
        "jobs": _jobs(jobs, so_far=()),
        "late_after_seconds": _seconds(late_after_seconds),
        "most_per_hour": _per_hour(most_per_hour),
    }
    address = _address(url or (PAGERDUTY_URL if template is Template.PAGERDUTY else ""))
    key = _routing_key(routing_key, template)
    try:
        with transaction.atomic():
            job = _new_job(name, by=by, through=through, now=now)
            signing, made = _signing(secret, name, template, address.host, by=by, now=now)
            receiver = Receiver(
                name=name,
                template=template,
                job=job,
                origin=address.origin,
                sealed_url=vault.seal(url or PAGERDUTY_URL),
                sealed_key=vault.seal(key) if key else "",
                secret=signing,
                since=now,
                created_at=now,
                changed_at=now,
                changed_by=storable_text(by, _CHARACTERS_OF_BY),
                **said,
            )
            receiver.save()
    except (IntegrityError, KeyTaken):
        raise InvalidReceiver(
            "name", f"There is a receiver or a job of the name {name!r} already; choose another name."
        ) from None
    return Made(receiver, made)


@sensitive_variables()
def change(name: str, *, by: str = "", through: str = "python", now: datetime | None = None, **fields: Any) -> Receiver:
    """Give it other values: those named. A URL or routing key that is empty stays as it is."""
    known = ("template", "url", "routing_key", "secret", "events", "jobs", "late_after_seconds", "most_per_hour")
    for given in fields:
        if given not in known:
            raise InvalidReceiver(given, f"A receiver has no field {shown(given)}; there are {', '.join(known)}.")
    check_text(InvalidReceiver, by=by, through=through, **{n: fields[n] for n in ("url", "routing_key") if n in fields})
    now = now or database_now()
    with transaction.atomic():
        receiver = _held(name)
        _apply(receiver, fields)
        if receiver.job.state not in OPEN_STATES:
            receiver.job = _new_job(receiver.name, by=by, through=through, now=now)
        receiver.changed_at, receiver.changed_by = now, storable_text(by, _CHARACTERS_OF_BY)
        receiver.save()
        wanted = {str(event) for event in receiver.events}
        unwanted = [trouble.pk for trouble in receiver.troubles.select_related("job") if not _is_for(trouble, wanted)]
        Trouble.objects.filter(pk__in=unwanted).delete()
    return receiver


def _is_for(trouble: Trouble, wanted: Collection[str]) -> bool:
    return trouble.kind in wanted and trouble.receiver.covers(trouble.job.key)


@sensitive_variables()
def _apply(receiver: Receiver, fields: dict[str, Any]) -> None:
    checks = {"events": _events, "late_after_seconds": _seconds, "most_per_hour": _per_hour}
    for name, check in checks.items():
        if name in fields:
            setattr(receiver, name, check(fields[name]))
    if "jobs" in fields:
        receiver.jobs = _jobs(fields["jobs"], so_far=receiver.jobs)
    template = _template(fields.get("template", receiver.template))
    if fields.get("url"):
        receiver.origin = _address(fields["url"]).origin
        receiver.sealed_url = vault.seal(fields["url"])
    key = fields.get("routing_key", "")
    if key or (template is Template.PAGERDUTY and not receiver.sealed_key):
        receiver.sealed_key = vault.seal(_routing_key(key, template))
    elif template is not Template.PAGERDUTY:
        receiver.sealed_key = ""
    receiver.template = template
    if "secret" in fields:
        receiver.secret = _kept(fields["secret"]) if fields["secret"] else None
    if template is Template.STANDARD and receiver.secret is None:
        raise InvalidReceiver("secret", "The standard template is signed; name a secret that is kept for signing.")
    if receiver.secret is not None:
        _check_host(receiver.secret, web_address.parsed(_url(receiver), targets.rules()).host)


def remove(name: str, *, by: str = "", through: str = "python", now: datetime | None = None) -> None:
    """With its notices, its job, and the signing key that was made with it. What was to be delivered is cancelled."""
    now = now or database_now()
    with transaction.atomic():
        receiver = _held(name)
        job, secret = receiver.job, receiver.secret
        receiver.delete()
        if job.state in OPEN_STATES:
            definitions.archive(job, reason="its receiver was removed", by=by, through=through, now=now)
        waiting = Execution.objects.open().filter(job_id=job.pk).values_list("pk", flat=True)
        runs.cancel_executions(list(waiting), reason="its receiver was removed", now=now)
        if secret is not None and secret.name == _own_secret(receiver.name):
            kept_secrets.remove(secret.name)


def send_test(name: str, *, now: datetime | None = None) -> Notice:
    """Send a notification that says that it is a test, the way that all go; its execution tells how it went."""
    receiver = find(name)
    if receiver.job.state not in OPEN_STATES:
        raise InvalidReceiver(
            "name",
            f"Its job {receiver.job.key!r} is {receiver.job.state}; save a change of the receiver to make a new one.",
        )
    with transaction.atomic():
        return notices.make_test(receiver, now=now or database_now())


def find(name: str) -> Receiver:
    found = None
    if is_secret_name(name):
        found = Receiver.objects.select_related("job", "secret").filter(name=name).first()
    if found is None:
        near = get_close_matches(str(name), list(Receiver.objects.values_list("name", flat=True)[:1000]), n=1)
        remedy = f"did you mean {near[0]!r}?" if near else "`./onbeat notifications create` makes one."
        raise NoSuchReceiver("name", f"There is no receiver {shown(name)}; {remedy}")
    return found


def listed() -> list[Receiver]:
    return list(Receiver.objects.select_related("job", "secret").order_by("name"))


def _held(name: str) -> Receiver:
    """Nobody looks meanwhile: what is being made for it is there, or will be made for what it is by then."""
    list(Lookout.objects.select_for_update())
    receiver = find(name)
    return Receiver.objects.select_for_update(of=("self",)).select_related("job", "secret").get(pk=receiver.pk)


def _new_job(name: str, *, by: str, through: str, now: datetime) -> Job:
    """What may be the target of a job says a setting; this one is our own."""
    fields = {
        "queue": HTTP_QUEUE,
        "priority": _PRIORITY,
        "retry": _RETRY,
        "timeout_seconds": REQUEST_SECONDS * 4,
        "owner": OWNER,
        "tags": [OWNER],
    }
    said = new_jobs.checked(f"{OWNER}.{name}", TASK, fields)
    return new_jobs.store([(said, None)], by=by, through=through, now=now)[0]


# ── What is said of it, checked ──────────────────────────────────────────────────────────────────────────────────


def _template(said: Template | str) -> Template:
    try:
        return Template(said)
    except ValueError:
        raise InvalidReceiver(
            "template", f"The template must be one of {', '.join(Template)}, not {shown(said)}."
        ) from None


def _events(said: object) -> list[str]:
    names = [said] if isinstance(said, str) else said
    if not isinstance(names, list | tuple) or not names:
        raise InvalidReceiver("events", f"The events must be some of {', '.join(EVENTS)}.")
    for event in names:
        if event not in EVENTS:
            near = get_close_matches(str(event), list(map(str, EVENTS)), n=1)
            remedy = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(EVENTS)}."
            raise InvalidReceiver("events", f"There is no event {shown(event)}; {remedy}")
    if list(names) == [Kind.RECOVERY]:
        raise InvalidReceiver("events", "A recovery is told of what was told before; name another event beside it.")
    return [str(event) for event in EVENTS if event in names]


def _jobs(said: object, *, so_far: Collection[str]) -> list[str]:
    if not isinstance(said, list | tuple):
        raise InvalidReceiver("jobs", "The jobs must be a list of keys; leave it empty for all jobs.")
    if len(said) > MOST_JOBS:
        raise InvalidReceiver("jobs", f"A receiver may name {MOST_JOBS} jobs, not {len(said)}; use * or all jobs.")
    for key in said:
        if not isinstance(key, str) or not _PATTERN.fullmatch(key):
            raise InvalidReceiver("jobs", f"{shown(key)} must be the key of a job, or one with * in it.")
        if key not in so_far and "*" not in key:
            try:
                finding.find(key)
            except NoSuchJob as refused:
                raise InvalidReceiver("jobs", str(refused)) from None
    return sorted(set(said))


def _seconds(said: object) -> int:
    if type(said) is not int or not 1 <= said <= MOST_LATE_SECONDS:
        raise InvalidReceiver(
            "late_after_seconds", f"late_after_seconds must be 1 to {MOST_LATE_SECONDS}, not {shown(said)}."
        )
    return said


def _per_hour(said: object) -> int:
    if type(said) is not int or not 1 <= said <= MOST_PER_HOUR:
        raise InvalidReceiver("most_per_hour", f"most_per_hour must be 1 to {MOST_PER_HOUR}, not {shown(said)}.")
    return said


@sensitive_variables()
def _address(url: str) -> web_address.WebAddress:
    """Its parts; nothing of the URL is in a refusal."""
    if not url:
        raise InvalidReceiver("url", "The url to send notifications to is missing.")
    try:
        return web_address.parsed(url, targets.rules())
    except web_address.Unfit as unfit:
        raise InvalidReceiver("url", str(unfit)) from None


@sensitive_variables()
def _routing_key(key: str, template: Template) -> str:
    if template is not Template.PAGERDUTY:
        if key:
            raise InvalidReceiver("routing_key", "Only the template pagerduty has a routing key; leave it out.")
        return ""
    if not _ROUTING_KEY.fullmatch(key):
        raise InvalidReceiver(
            "routing_key",
            "The routing key must be that of an Events API v2 integration in PagerDuty: 20 to 64 letters and digits.",
        )
    return key


@sensitive_variables()
def _signing(
    secret: str | None, name: str, template: Template, host: str, *, by: str, now: datetime
) -> tuple[Secret | None, str]:
    """What it is signed with, and a new key, if one was made."""
    if secret:
        kept = _kept(secret)
        _check_host(kept, host)
        return kept, ""
    if template is not Template.STANDARD:
        return None, ""  # those know no signatures
    try:
        made = kept_secrets.keep(_own_secret(name), SecretUse.SIGNING, by=by, now=now)
    except Refused as refused:
        raise InvalidReceiver("secret", str(refused)) from None
    return made.secret, made.key


def _kept(name: str) -> Secret:
    kept = Secret.objects.filter(name=name).first() if is_secret_name(name) else None
    if kept is None:
        raise InvalidReceiver(
            "secret", f"There is no secret {shown(name)}; keep it first, with `./onbeat secrets keep … --use signing`."
        )
    if kept.use != SecretUse.SIGNING:
        raise InvalidReceiver(
            "secret", f"The secret {name!r} is for {kept.use.lower()}, not for signing; name another."
        )
    return kept


def _check_host(secret: Secret, host: str) -> None:
    if not secret.is_for(host):
        raise InvalidReceiver(
            "secret", f"The secret {secret.name!r} is not for {host}; an admin can add that host to it."
        )


def _own_secret(name: str) -> str:
    return f"{OWNER}.{name}"[:100]


@sensitive_variables()
def _url(receiver: Receiver) -> str:
    try:
        return vault.opened(receiver.sealed_url)
    except vault.CannotOpen as error:
        raise InvalidReceiver("url", f"The url cannot be opened, {error}; give it anew.") from None
