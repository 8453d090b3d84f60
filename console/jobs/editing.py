"""Make a job, or change one: the form, checked as the API checks a body."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from django.contrib import admin, messages
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse

from access.roles import Role
from api.jobs import bodies, deeds
from api.jobs.bodies import JobBody
from api.jobs.named import anchor_of, schedule_of
from api.problems import Problem, problem_of
from console.jobs import forms
from console.jobs.checks import zones
from console.jobs.forms import JobForm
from console.jobs.listing import known_queues
from console.jobs.page import address_of, crumbs, found
from console.people import needs, signature
from executions.clock import database_now
from jobs.models import Job
from jobs.refusals import KeyTaken
from jobs.targets import known_tasks
from jobs.upserts import Said


@needs(Role.EDITOR)
def add(request: HttpRequest) -> HttpResponse:
    form = JobForm(request.POST or None, initial={"kind": "cron", "target": "task", "timezone": "UTC"})
    if request.method == "POST" and form.is_valid():
        job = _stored(request, form, None)
        if job is not None:
            messages.success(request, f"{job.key} is made.")
            return HttpResponseRedirect(address_of(job))
    return _page(request, form, None)


@needs(Role.EDITOR)
def change(request: HttpRequest, object_id: str) -> HttpResponse:
    job = found(object_id)
    written = bodies.written(job, schedule_of(job))
    form = JobForm(request.POST or None, initial={**forms.initial(written), "version": job.version})
    form.fields["key"].disabled = True
    if request.method == "POST" and form.is_valid():
        changed = _stored(request, form, job, http_body=(written["target"].get("http") or {}).get("body"))
        if changed is not None:
            messages.success(request, f"{job.key} is at version {changed.version}; what was planned follows it.")
            return HttpResponseRedirect(address_of(job))
    return _page(request, form, job)


def _stored(request: HttpRequest, form: JobForm, job: Job | None, *, http_body: Any = None) -> Job | None:
    """The job as the form says it; None: it was refused, and the form tells why."""
    said = dict(form.cleaned_data)
    if http_body is not None:
        said["body"] = http_body  # the form has no field for it, and leaves it as it is
    try:
        with transaction.atomic():
            now = database_now()
            if job is None:
                return deeds.create(_checked(said, now=now, anchor=None), now=now, **signature(request))
            body = replace(_checked(said, now=now, anchor=anchor_of(schedule_of(job))), key=job.key)
            return deeds.replace(job, body, version=said["version"], now=now, **signature(request))
    except KeyTaken as taken:
        form.add_error("key", str(taken))
        return None
    except Exception as error:
        problem = problem_of(error)
        if not isinstance(problem, Problem) or problem.status >= 500:
            raise
        form.add_problem(problem)
        return None


def _checked(said: Mapping[str, Any], *, now: datetime, anchor: datetime | None) -> Said:
    return bodies.said(JobBody().run_validation(forms.body(said)), now=now, anchor=anchor)


def _page(request: HttpRequest, form: JobForm, job: Job | None) -> HttpResponse:
    context = {
        **admin.site.each_context(request),
        "title": f"Change {job.key}" if job else "New job",
        "crumbs": crumbs(job),
        "form": form,
        "job": job,
        "tasks": known_tasks(),
        "zones": zones(),
        "queues": known_queues(),
        "of_schedule": forms.OF_SCHEDULE,
        "back": address_of(job) if job else crumbs()[0][1],
    }
    return TemplateResponse(request, "console/jobs/form.html", context, status=422 if form.errors else 200)
