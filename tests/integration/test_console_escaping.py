"""Whatever people and programs wrote is text on every page of the admin, and never a part of it."""

import logging
from typing import Any, NamedTuple
from urllib.parse import urlencode

import pytest
from django.apps import apps
from django.contrib.admin.models import LogEntry
from django.contrib.admin.utils import quote
from django.contrib.auth.models import Group, User
from django.db.models import CharField, JSONField, Model, TextField
from django.http import HttpResponse
from django_celery_results.models import TaskResult

from beat.models import Beat
from executions.clock import database_now
from executions.models import DeadMessage
from jobs.models import Job, JobVersion, Schedule
from notifications.kinds import Kind
from notifications.models import Notice
from tests.furnished import ROOT, Furniture, everywhere
from tests.tiers import once_embedded
from tests.visiting import confirm, root
from workers.models import Worker

pytestmark = [pytest.mark.django_db, once_embedded]
# As it is written, or with quotes that could end an attribute.
RAW = ("<script>alert", "<img src=x", "</textarea></textarea>", "'\"hey", '&#x27;"hey', "'&quot;hey")
LABELS = ("onbeat_jobs", "onbeat_executions", "onbeat_beat", "onbeat_workers", "onbeat_callbacks", "onbeat_access")
LABELS += ("onbeat_notifications",)
# What the product itself chose, or what no page could be found without.
KEPT = {
    "StoredForecast.counts",
    "Job.key",
    "Schedule.expression",
    "Schedule.timezone",
    "ApiKey.prefix",
    "ApiKey.digest",
    "Worker.running",
}
KEPT |= {"DeadMessage.digest", "RunKey.key", "Secret.name", "SecretPart.sealed", "LogEntry.object_id", "Job.http"}
KEPT |= {"TaskResult.task_id", "User.username", "User.password", "JobVersion.definition", "LogEntry.change_message"}
NOT_SHOWN = {"Secret.hosts", "Secret.changed_by", "HourlyCount.queue", "HourlyTotal.queue", "QueueSample.queue"}
NOT_SHOWN |= {f"IdempotentAnswer.{name}" for name in ("owner", "key", "fingerprint", "body", "headers")}
NOT_SHOWN |= {"TaskResult.result", "TaskResult.meta", "Execution.response", "Snapshot.name", "Snapshot.figures"}
NOT_SHOWN |= {"Receiver.sealed_url", "Receiver.sealed_key", "Trouble.said", "Notice.subject", "Notice.about"}
NOT_SHOWN |= {"Notice.job_key", "Receiver.events"}
KEPT |= {"Notice.said"}


def hostile(name: str = "") -> str:
    """Ends a script, an attribute in either quotes, a tag and a text area; fits into 16 characters at its worst."""
    return f"<script>alert(1)</script>{name}'\"hey><img src=x onerror=alert(1)></textarea>"


HOSTILE = hostile()


def in_json(name: str) -> Any:
    """As this column holds it; anything, where any JSON may be."""
    text = hostile(name)
    if name in (
        "Job.args",
        "Job.tags",
        "Execution.args",
        "Worker.queues",
        "Worker.tasks",
        "Secret.hosts",
        "Receiver.jobs",
    ):
        return [text]
    if name == "Job.retry":
        return {"retry_on": [text], "give_up_on": [text], "backoff": "FIXED"}
    if name == "Execution.progress":
        return {"done": text, "total": text, "note": text}
    return {} if "histogram" in name else {text: [text, {"a": text}]}


def spoil(model: type[Model]) -> set[str]:
    """Write it into every text and every JSON of every row; in which columns it can be told from others."""
    said: dict[str, Any] = {}
    whole = set()
    for field in model._meta.concrete_fields:
        name = f"{model.__name__}.{field.name}"
        if name in KEPT or field.primary_key or field.choices:
            continue
        if isinstance(field, JSONField):
            said[field.name] = in_json(name)
        elif isinstance(field, CharField | TextField) and field.unique:
            _each_of_its_own(model, field.name, hostile(name))
        elif isinstance(field, CharField | TextField):
            said[field.name] = hostile(name)[: field.max_length]
        if said.get(field.name) and (field.max_length or 1000) >= len(f"<script>alert(1)</script>{name}"):
            whole.add(name)
    if said:
        model._default_manager.all().update(**said)
    return whole


def _each_of_its_own(model: type[Model], name: str, text: str) -> None:
    for pk in model._default_manager.values_list("pk", flat=True):
        model._default_manager.filter(pk=pk).update(**{name: f"{text}{pk}"})


class Spoilt(NamedTuple):
    there: Furniture
    columns: set[str]


@pytest.fixture
def spoilt(db: None, furniture: Furniture, caplog: pytest.LogCaptureFixture) -> Spoilt:
    there, now = furniture, database_now()
    caplog.set_level(logging.ERROR, logger="django.request")
    facts = {"pid": 1, "started_at": now}
    Worker.objects.create(name=hostile("Worker.name"), heartbeat_at=now, **facts)
    Beat.objects.create(name=hostile("Beat.name"), ticked_at=now, seen_at=now, **facts)
    User.objects.create_user(hostile("User.username"))
    ours = [model for label in LABELS for model in apps.get_app_config(label).get_models()]
    columns = set().union(*(spoil(model) for model in (*ours, User, Group, TaskResult, LogEntry)))
    columns |= {"Worker.name", "Beat.name", "User.username", *_by_hand(there)}
    kinds = {"onbeat_workers/worker": Worker, "onbeat_beat/beat": Beat, "auth/user": User}
    ids = {place: [str(quote(row.pk)) for row in kind._default_manager.order_by("pk")] for place, kind in kinds.items()}
    return Spoilt(Furniture(there.jobs, there.executions, there.messages, {**there.ids, **ids}), columns)


def _by_hand(there: Furniture) -> set[str]:
    """What has a shape: requests, schedules, versions."""
    text = hostile("Job.http")
    http = {"url": f"https://example.com/{text}", "headers": {text: text}, "body": text, "secret": text}
    Job.objects.filter(pk=there.jobs["call"]).update(http=http)
    Schedule.objects.filter(job_id=there.jobs["paused"]).update(
        expression=hostile("Schedule.expression"), timezone=hostile("")[:64]
    )
    text = hostile("JobVersion.definition")
    for version in JobVersion.objects.filter(job_id=there.jobs["plain"]):
        words = {"owner": text, "tags": [text], "task": text, "kwargs": {text: version.version}}
        definition = {**version.definition, **words, "args": [text, version.version]}
        JobVersion.objects.filter(pk=version.pk).update(definition=definition)
    text = hostile("Notice.said")
    for notice in Notice.objects.filter(kind=Kind.DEAD_LETTER):
        Notice.objects.filter(pk=notice.pk).update(said={**notice.said, "job": text, "error": text})
    return {"Job.http", "Schedule.expression", "JobVersion.definition", "Notice.said"}


def check(response: HttpResponse, where: str) -> None:
    html = response.content.decode()
    assert [raw for raw in RAW if raw in html] == [], where


def test_what_was_written_is_text_on_every_page(spoilt: Spoilt) -> None:
    client, seen = root(), set()
    for address in everywhere(spoilt.there):
        response = client.get(address)
        check(response, address)
        html = response.content.decode()
        seen |= {name for name in spoilt.columns - seen if f"&lt;/script&gt;{name}" in html}
    assert spoilt.columns - seen <= NOT_SHOWN  # a test that never meets a column would not notice it


ASKED = {
    "onbeat_jobs/job/": ("search", "state", "queue", "tag", "owner", "order", "cursor"),
    "onbeat_executions/execution/": (
        *("state", "job", "queue", "worker", "trigger", "error", "when", "since", "until"),
        *("fingerprint", "cursor", "viewer_zone"),
    ),
    "schedule-check/": ("cron", "timezone", "every", "once_at", "start", "max_fires", "key"),
    "dead-letters/replay/": ("job", "fingerprint"),
    "onbeat_access/auditentry/": ("q", "o", "p", "action", "through__exact", "e"),
}


def test_what_is_asked_for_is_text_in_the_answer(spoilt: Spoilt) -> None:
    client = root()
    for place, names in ASKED.items():
        for name in names:
            check(client.get(f"{ROOT}{place}", {"kind": "cron", "cron": "x", name: HOSTILE}), f"{place} {name}")
    query = urlencode(dict.fromkeys({name for names in ASKED.values() for name in names} | {"back", "next"}, HOSTILE))
    for address in everywhere(spoilt.there, most=1):
        check(client.get(f"{address}{'&' if '?' in address else '?'}{query}"), address)


def test_what_is_refused_is_text_in_the_form_that_comes_back(spoilt: Spoilt) -> None:
    client, there = root(), spoilt.there
    forms = [there.job("berlin", page) for page in ("run", "pause", "archive", "backfill", "edit")]
    forms += [there.execution("dead", page) for page in ("cancel", "replay")]
    forms += [f"{ROOT}onbeat_jobs/job/add/", f"{ROOT}onbeat_access/apikey/add/", f"{ROOT}dead-letters/discard/"]
    for address in forms:
        names = client.get(address).context["form"].fields
        response = confirm(client, address, **dict.fromkeys(names, HOSTILE * 5), viewer_zone=HOSTILE, back=HOSTILE)
        assert response.status_code == 422, address
        check(response, address)


def test_what_is_told_after_a_deed_is_text(spoilt: Spoilt) -> None:
    client, there = root(), spoilt.there
    told = [
        confirm(client, there.job("berlin", "pause"), reason=HOSTILE),
        client.post(there.job("paused", "resume")),
        client.post(
            f"{ROOT}onbeat_executions/execution/act/", {"deed": "cancel-matching", "matching": f"job={HOSTILE}"}
        ),
        confirm(client, f"{ROOT}dead-letters/messages/replay/", selected=DeadMessage.objects.get().pk),
        confirm(client, f"{ROOT}onbeat_access/apikey/add/", name=HOSTILE, role="viewer"),
    ]
    assert [response.status_code for response in told] == [302] * 5
    check(client.get(f"{ROOT}onbeat_jobs/job/"), "the next page")
