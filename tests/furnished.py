"""A database with something of everything that the admin shows, and each of its addresses filled in from it."""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.contrib import admin
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.admin.utils import quote
from django.contrib.auth.models import Group, User
from django.contrib.contenttypes.models import ContentType
from django.db.models import Model
from django.urls.resolvers import URLResolver
from django_celery_results.models import TaskResult

from access import api_keys, audit
from access.models import ApiKey, AuditEntry
from access.roles import Role
from beat.models import Beat
from callbacks import hosts
from callbacks.models import Host
from executions import lifecycle
from executions.models import Attempt, DeadMessage, Execution
from jobs import definitions, runs
from jobs.http_target import HttpTarget
from jobs.models import Job, JobState, Schedule
from jobs.recurrence import Cron, Once
from notifications import receivers
from notifications.kinds import Kind
from notifications.models import Notice, Receiver, Trouble
from tests.inhabited import inhabit
from tests.making import a_job, claimed, planned
from workers.models import Worker

ROOT = "/admin/"
HTTP = HttpTarget("https://example.com/hook?token=7b1f", headers={"X-Team": "billing"}, body={"fixed": True})


@dataclass(frozen=True)
class Furniture:
    jobs: dict[str, int]  # by key
    executions: dict[str, list[str]]  # by what became of them
    messages: list[int]
    ids: dict[str, list[str]]  # of the rows to look at, by the place of their model in the admin

    def job(self, key: str, page: str = "change") -> str:
        return f"{ROOT}onbeat_jobs/job/{self.jobs[key]}/{page}/"

    def execution(self, name: str, page: str = "change") -> str:
        return f"{ROOT}onbeat_executions/execution/{self.executions[name][0]}/{page}/"


def furnish(now: datetime) -> Furniture:
    there = inhabit(now, each=1)
    jobs = dict(there.jobs)
    for job in (
        a_job(now=now, key="berlin", schedule=Cron("30 2 * * *", "Europe/Berlin"), owner="me", tags=["a", "b"]),
        definitions.create(key="call", http=HTTP, schedule=Cron("H * * * *"), kwargs={"n": 7}, now=now),
        _completed(now),
    ):
        jobs[job.key] = job.pk
    executions = {**there.executions, **_more_executions(Job.objects.get(key="plain"), now)}
    _who_did_what(now)
    Beat.objects.create(
        name="beat@ill", host="h", pid=2, started_at=now, seen_at=now, refusal="clock off", is_broker_away=True
    )
    for _ in range(5):
        hosts.went_wrong("https://down.example", "it answered 500", began=now, now=now)
    _who_is_told(executions["dead"][0], now)
    TaskResult.objects.create(task_id="7", task_name="their.task", status="FAILURE", traceback="boom", worker="w")
    ids = _ids()
    ids["onbeat_executions/execution"] = [pks[0] for pks in executions.values()]
    ids["onbeat_jobs/job"] = [str(jobs[key]) for key in ("plain", "paused", "over", "completed", "call", "berlin")]
    return Furniture(jobs, executions, there.messages, ids)


def _completed(now: datetime) -> Job:
    job = a_job(now=now, key="completed", schedule=Once(now + timedelta(hours=1)))
    Schedule.objects.filter(job=job).update(next_fire_at=None)  # as if it had fired
    assert definitions.complete_ended(now) == 1
    assert Job.objects.get(pk=job.pk).state == JobState.COMPLETED
    return job


def _more_executions(job: Job, now: datetime) -> dict[str, list[str]]:
    stopping, refused, lost = (planned(job, now - timedelta(minutes=number)) for number in (10, 11, 12))
    claimed(stopping, now=now)
    lifecycle.cancel([stopping.pk], reason="too slow", now=now)
    _gave_up(refused, now)
    Attempt.objects.filter(execution_id=refused.pk).update(refused_at=now, refused_outcome="SUCCEEDED")
    _gave_up(lost, now)
    (replay,) = runs.replay([lost.pk], args=["again"], now=now)
    delayed = runs.run(job, run_key="user-7", delay=timedelta(hours=1), now=now).execution_id
    Execution.objects.filter(pk=stopping.pk).update(
        progress={"done": 3, "total": 4, "note": "nearly there"}, checkpoint={"page": 7077}
    )
    named = {"stopping": stopping.pk, "refused": refused.pk, "replayed": lost.pk, "replay": replay, "delayed": delayed}
    return {name: [str(pk)] for name, pk in named.items()}


def _gave_up(execution: Execution, now: datetime) -> None:
    lifecycle.fail(claimed(execution, now=now), error="Traceback:\nboom", kinds=("KeyError",), now=now)


def _who_did_what(now: datetime) -> None:
    user = User.objects.create_user("grace", first_name="Grace", email="grace@example.com")
    user.groups.add(Group.objects.get(name=Role.VIEWER.group))
    api_keys.make(name="billing", role=Role.EDITOR, by="ada", now=now)
    api_keys.revoke(api_keys.make(name="leaked", role=Role.VIEWER, now=now).key.prefix, now=now)
    audit.record(
        who="ada", through="rest", action="job.change", subject="job:plain", before={"n": 1}, after={"n": 2}, now=now
    )
    LogEntry.objects.create(
        user=user,
        content_type=ContentType.objects.get_for_model(User),
        object_id=str(user.pk),
        object_repr="grace",
        action_flag=CHANGE,
        change_message="Changed.",
    )


def _who_is_told(dead: str, now: datetime) -> None:
    """Of a dead letter, and of a test whose delivery is past its days."""
    url = "https://hooks.example.com/services/T0P/S3CRETPATH"
    receiver = receivers.create("ops", template="slack", url=url, jobs=["pla*"], by="ada", now=now).receiver
    said = {"job": "plain", "execution": dead, "attempt": 1, "outcome": "FAILED", "error": "KeyError: <b>7</b>"}
    said |= {"at": now.isoformat(), "began_at": now.isoformat(), "count": 3, "is_dead": True}
    Notice.objects.create(
        receiver=receiver,
        kind=Kind.DEAD_LETTER,
        subject="1",
        about="plain",
        job_key="plain",
        said=said,
        made_at=now,
        execution_id=dead,
    )
    Notice.objects.create(receiver=receiver, kind=Kind.TEST, subject="2", about="test ops", made_at=now)
    Trouble.objects.create(
        receiver=receiver, job=Job.objects.get(key="plain"), kind=Kind.LATENESS, began_at=now, last_at=now, untold=1
    )


_SHOWN: tuple[type[Model], ...] = (
    *(ApiKey, AuditEntry, User, Group, Beat, Worker, Host, Receiver),
    *(DeadMessage, TaskResult),
)


def _ids() -> dict[str, list[str]]:
    return {
        f"{model._meta.app_label}/{model._meta.model_name}": [
            str(quote(pk)) for pk in model._default_manager.order_by("pk").values_list("pk", flat=True)
        ]
        for model in _SHOWN
    }


# ── Addresses ────────────────────────────────────────────────────────────────────────────────────────────────────


def patterns() -> list[str]:
    """Every address that the admin has, as it is written in its table."""
    admin.autodiscover()  # as the addresses of the web process do
    return list(_below(admin.site.urls[0]))


def _below(urls: Any, before: str = "") -> Any:
    for url in urls:
        if isinstance(url, URLResolver):
            yield from _below(url.url_patterns, before + str(url.pattern))
        else:
            yield before + str(url.pattern)


def addresses(pattern: str, there: Furniture) -> list[str]:
    """An address for each row that it could be of. What cannot be filled in fails: say here how."""
    return [ROOT + filled for filled in _filled(pattern, there)]


def _filled(pattern: str, there: Furniture) -> list[str]:
    if labels := re.fullmatch(r"\^\(\?P<app_label>([\w|]+)\)/\$", pattern):
        return [f"{label}/" for label in labels[1].split("|")]
    if pattern in _BY_HAND:
        return _BY_HAND[pattern](there)
    if of_row := re.fullmatch(r"(\w+/\w+)/<(?:path:)?(?:object_)?id>/([\w-]+/)?", pattern):
        model, page = of_row[1], of_row[2] or ""
        assert there.ids[model], f"there is no row for {pattern}"
        # Redirects, and what nobody may: the same for every row.
        return [f"{model}/{pk}/{page}" for pk in there.ids[model][: 1 if page in ("", "history/", "delete/") else None]]
    assert not set(pattern) & set("<(^$*"), f"tests/furnished.py does not know how to fill {pattern!r}"
    return [pattern]


def _group_of_dead_letters(there: Furniture) -> str:
    dead = Execution.objects.get(pk=there.executions["dead"][0])
    return f"?job={dead.job_id}&fingerprint={dead.fingerprint}"


_BY_HAND: dict[str, Any] = {
    "(?P<url>.*)$": lambda _: ["nowhere/at/all/"],
    "r/<path:content_type_id>/<path:object_id>/": lambda there: [
        f"r/{ContentType.objects.get_for_model(Job).pk}/{there.jobs['plain']}/"
    ],
    "dead-letters/messages/<slug:deed>/": lambda _: [f"dead-letters/messages/{d}/" for d in ("replay", "discard")],
    "dead-letters/replay/": lambda there: ["dead-letters/replay/" + _group_of_dead_letters(there)],
    "dead-letters/discard/": lambda there: ["dead-letters/discard/" + _group_of_dead_letters(there)],
    "schedule-check/": lambda _: [
        f"schedule-check/?{said}"
        for said in ("kind=cron&cron=H+2+*+*+*&timezone=Europe/Berlin&key=k", "kind=every&every=x", "kind=once", "")
    ],
    "search/": lambda _: ["search/?s=job", "search/?s=job&extended=1", "search/"],
    "autocomplete/": lambda _: ["autocomplete/?app_label=onbeat_executions&model_name=execution&field_name=job&term=p"],
    "onbeat_jobs/job/": lambda _: [f"onbeat_jobs/job/{said}" for said in ("", "?search=p&order=next", "?state=ALL")],
    "onbeat_executions/execution/": lambda there: [
        f"onbeat_executions/execution/{said}"
        for said in ("", "?state=open&queue=default", f"?job={there.jobs['plain']}&when=any", "?job=no-such-job")
    ],
}


def everywhere(there: Furniture, *, most: int | None = None) -> list[str]:
    """Every address, of every row or of the first so many."""
    return [address for pattern in patterns() for address in addresses(pattern, there)[:most]]
