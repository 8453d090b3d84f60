"""The page of one job: what it is, when it fires, how it went, what it was before."""

from typing import Any

from django.conf import settings
from django.contrib import admin
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from access.roles import Role
from api.jobs import bodies, warnings
from api.jobs.targets import target_written
from console.executions.listing import briefs
from console.jobs import policies
from console.jobs.listing import IN_STRIP, Row, next_fire_of
from console.people import may, needs
from executions import recent
from executions.clock import database_now
from executions.finding import Sought, newest_first
from executions.retry import RetryPolicy
from jobs.differences import differences
from jobs.models import OPEN_STATES, Job, JobVersion, Schedule
from jobs.refusals import Refused
from jobs.shifts import ShownFire, with_remarks
from jobs.upcoming import upcoming

_FIRES = 10
_RUNS = 15
_VERSIONS = 20


def found(pk: str) -> Job:
    job = Job.objects.select_related("schedule").filter(pk=pk).first() if pk.isdecimal() and len(pk) < 19 else None
    if job is None:
        raise Http404
    return job


def address_of(job: Job) -> str:
    return reverse("admin:onbeat_jobs_job_change", args=[job.pk])


def crumbs(job: Job | None = None) -> list[tuple[str, str]]:
    above = [("Jobs", reverse("admin:onbeat_jobs_job_changelist"))]
    return above if job is None else [*above, (job.key, address_of(job))]


@require_safe
@needs(Role.VIEWER)
def job(request: HttpRequest, object_id: str) -> HttpResponse:
    one, now = found(object_id), database_now()
    schedule: Schedule | None = getattr(one, "schedule", None)
    runs = recent.of_jobs([one.pk], count=IN_STRIP, now=now)
    fires, trouble = _next_fires(schedule, now)
    page = newest_first(Sought(job_id=one.pk), limit=_RUNS, now=now)
    is_open = one.state in OPEN_STATES
    context = {
        **admin.site.each_context(request),
        "title": one.key,
        "crumbs": crumbs(),
        "job": one,
        "row": Row(one, runs.get(one.pk, ()), now),
        "schedule": schedule,
        "next_fire_at": next_fire_of(one),
        "zone": schedule.timezone if schedule else "",
        "fires": fires,
        "fires_trouble": trouble,
        "policies": policies.in_words(_said(one, schedule)),
        "warnings": warnings.of_jobs([one])[0] if is_open else [],
        "http": target_written(one).get("http"),
        "executions": briefs(page.rows),
        "has_more": page.last is not None,
        "versions": _versions(one, request.GET.get("versions") == "all"),
        "now": now,
        "now_iso": now.isoformat(),
        "is_open": is_open,
        "may_operate": may(request, Role.OPERATOR) and is_open,
        "may_edit": may(request, Role.EDITOR) and is_open,
    }
    return TemplateResponse(request, "console/jobs/page.html", context)


def _next_fires(schedule: Schedule | None, now: Any) -> tuple[list[ShownFire], str]:
    """As if it were not paused; and why they cannot be told, if they cannot."""
    if schedule is None:
        return [], ""
    count = _FIRES if schedule.fires_left is None else min(_FIRES, schedule.fires_left)
    try:
        recurrence = schedule.recurrence
        return with_remarks(recurrence, upcoming(recurrence, after=now, count=count), since=now), ""
    except (Refused, ValueError, OverflowError) as refused:
        return [], str(refused)


def _said(job: Job, schedule: Schedule | None) -> policies.Said:
    named = ("misfire", "misfire_grace_seconds", "misfire_limit", "jitter_seconds")
    of_schedule = {name: getattr(schedule, name) for name in named} if schedule else {}
    names = ("max_lost", "overlap", "max_concurrency", "timeout_seconds", "stop_grace_seconds", "priority")
    retry = {**job.retry, "max_attempts": job.max_attempts}
    return policies.Said(
        retry=RetryPolicy.stored(retry),
        default_timeout_seconds=settings.ONBEAT_WORKERS_TIMEOUT_SECONDS,
        keep_result=job.keep_result,
        **{name: getattr(job, name) for name in names},
        **of_schedule,
    )


def _versions(job: Job, is_all: bool) -> list[JobVersion]:
    rows = JobVersion.objects.filter(job=job).defer("definition").order_by("-version")
    return list(rows if is_all else rows[:_VERSIONS])


@require_safe
@needs(Role.VIEWER)
def versions(request: HttpRequest, object_id: str) -> HttpResponse:
    """What differs between two versions; if none is named, between the last two."""
    one = found(object_id)
    since, until = _number(request, "since", one.version - 1), _number(request, "until", one.version)
    rows = {row.version: row for row in JobVersion.objects.filter(job=one, version__in=[since, until])}
    if since not in rows or until not in rows:
        told, changed = f"{one.key} has no version {since if since not in rows else until}.", []
    else:
        told = ""
        before, after = (bodies.of_version(rows[number].definition) for number in (since, until))
        changed = differences(before, after)
    context = {
        **admin.site.each_context(request),
        "title": f"Version {since} → {until}",
        "crumbs": crumbs(one),
        "job": one,
        "since": rows.get(since),
        "until": rows.get(until),
        "numbers": list(
            JobVersion.objects.filter(job=one).order_by("-version").values_list("version", flat=True)[:200]
        ),
        "differences": changed,
        "trouble": told,
    }
    return TemplateResponse(request, "console/jobs/versions.html", context)


def _number(request: HttpRequest, name: str, otherwise: int) -> int:
    text = request.GET.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else max(otherwise, 1)
