"""What people do to a job: run, pause, resume, archive, backfill. Each calls one function of the domain."""

from datetime import timedelta
from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.urls import reverse
from django.utils.html import format_html
from django.views.decorators.http import require_POST

from access.roles import Role
from api.jobs import deeds as job_deeds
from console import deeds
from console.deeds import Deed, came_from
from console.fields import JsonField, MomentField, ZonedForm
from console.jobs.page import address_of, crumbs, found
from console.people import needs, signature
from console.templatetags.onbeat import moment
from executions.clock import database_now
from executions.models import MAX_PRIORITY
from executions.words import count
from jobs import backfill as backfilling
from jobs.models import Job
from jobs.runs import Wanted

_SHOWN_FIRES = 200


# ── Run ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@require_POST
@needs(Role.OPERATOR)
def run_now(request: HttpRequest, object_id: str) -> HttpResponseBase:
    """With the payload of the job, at one press."""
    job = found(object_id)
    return deeds.at_once(request, came_from(request, address_of(job)), lambda: _run(request, job, Wanted()))


class RunForm(ZonedForm):
    args = JsonField(list, label="Arguments", help_text="A JSON list, in place of the job's.")
    kwargs = JsonField(dict, label="Named arguments", help_text="A JSON object, in place of the job's.")
    run_at = MomentField(required=False, label="Run at", help_text="Empty: now.")
    run_key = forms.CharField(
        required=False, max_length=200, label="Run key", help_text="A name for this run; in use: that run is kept."
    )
    priority = forms.IntegerField(required=False, min_value=0, max_value=MAX_PRIORITY, help_text="Empty: the job's.")


@needs(Role.OPERATOR)
def run(request: HttpRequest, object_id: str) -> HttpResponse:
    """With another payload, or later."""
    job = found(object_id)

    def do(said: dict[str, Any]) -> str:
        fields = {"args": said["args"], "kwargs": said["kwargs"], "run_at": said["run_at"]}
        return _run(request, job, Wanted(**fields, run_key=said["run_key"], priority=said["priority"]))

    deed = Deed(
        title=f"Run {job.key}",
        verb="Run",
        back=address_of(job),
        do=do,
        form=RunForm,
        initial={"args": job.args, "kwargs": job.kwargs},
        explains=["One run beside the schedule, which goes on as it is."],
        crumbs=crumbs(job),
    )
    return deeds.page(request, deed)


def _run(request: HttpRequest, job: Job, wanted: Wanted) -> str:
    asked = job_deeds.run(job, [wanted], **signature(request))[0]
    address = reverse("admin:onbeat_executions_execution_change", args=[asked.execution_id])
    told = "{} was asked to run." if asked.is_new else "{} has a run of this key already."
    return format_html(told + ' <a href="{}" class="underline">See the execution</a>', job.key, address)


# ── Pause, resume, archive ───────────────────────────────────────────────────────────────────────────────────────


class PauseForm(ZonedForm):
    reason = forms.CharField(
        max_length=200, help_text="Stands beside every fire that does not happen.", widget=forms.TextInput()
    )
    until = MomentField(required=False, help_text="Resumes by itself then; empty: until somebody resumes it.")


@needs(Role.OPERATOR)
def pause(request: HttpRequest, object_id: str) -> HttpResponse:
    job = found(object_id)

    def do(said: dict[str, Any]) -> str:
        until = said["until"]
        job_deeds.pause(job, reason=said["reason"], until=until, **signature(request))
        return format_html("{} is paused until {}.", job.key, moment(until)) if until else f"{job.key} is paused."

    deed = Deed(
        title=f"Pause {job.key}",
        verb="Pause",
        back=came_from(request, address_of(job)),
        do=do,
        form=PauseForm,
        initial={"reason": job.paused_reason, "until": job.paused_until},
        explains=["It fires no more until it is resumed. Runs that were asked for, and retries, still happen."],
        crumbs=crumbs(job),
        hidden=[("back", came_from(request, address_of(job)))],
    )
    return deeds.page(request, deed)


@require_POST
@needs(Role.OPERATOR)
def resume(request: HttpRequest, object_id: str) -> HttpResponseBase:
    job = found(object_id)

    def do() -> str:
        job_deeds.resume(job, **signature(request))
        return f"{job.key} fires again; nothing of what passed is made up for."

    return deeds.at_once(request, came_from(request, address_of(job)), do)


class ArchiveForm(forms.Form):
    reason = forms.CharField(required=False, max_length=200)


@needs(Role.EDITOR)
def archive(request: HttpRequest, object_id: str) -> HttpResponse:
    job = found(object_id)

    def do(said: dict[str, Any]) -> str:
        job_deeds.archive(job, reason=said["reason"], **signature(request))
        return f"{job.key} is archived."

    deed = Deed(
        title=f"Archive {job.key}",
        verb="Archive for good",
        back=address_of(job),
        do=do,
        form=ArchiveForm,
        explains=[
            "It fires no more, and cannot be brought back: a job of the same key would be a new one.",
            "Its history stays. Runs that were asked for still happen.",
        ],
        is_destructive=True,
        crumbs=crumbs(job),
    )
    return deeds.page(request, deed)


# ── Backfill ─────────────────────────────────────────────────────────────────────────────────────────────────────


class BackfillForm(ZonedForm):
    start = MomentField(label="From", help_text="The first fire time, included.")
    end = MomentField(label="To", help_text="The last one, included.")
    per_minute = forms.IntegerField(
        min_value=1,
        max_value=backfilling.MOST_PER_MINUTE,
        initial=backfilling.DEFAULT_PER_MINUTE,
        label="Per minute",
        help_text="How many are published in a minute.",
    )


@needs(Role.OPERATOR)
def backfill(request: HttpRequest, object_id: str) -> HttpResponse:
    """First what would be done, then the button that does it."""
    job, now = found(object_id), database_now().replace(microsecond=0)
    seen: dict[str, Any] = {}

    def do(said: dict[str, Any]) -> str:
        asked = {name: said[name] for name in ("start", "end", "per_minute")}
        range_ = " ".join(map(str, asked.values()))
        if "preview" in request.POST or request.POST.get("previewed") != range_:
            # What runs is what was looked at: who changes the range after the look gets another look.
            seen.update(preview=backfilling.preview(job, **asked), range=range_)
            raise _OnlyLooked
        done = job_deeds.backfill(job, **asked, **signature(request))
        return f"{count(done.to_run, 'fire')} of {job.key} will run."

    deed = Deed(
        title=f"Backfill {job.key}",
        verb="Run these fires",
        back=address_of(job),
        do=do,
        form=BackfillForm,
        initial={"start": now - timedelta(days=1), "end": now, "per_minute": backfilling.DEFAULT_PER_MINUTE},
        explains=["Runs the fires of a past range that have no row yet or were skipped, each once."],
        crumbs=crumbs(job),
        template="console/jobs/backfill.html",
        context={"seen": seen, "most": _SHOWN_FIRES},
    )
    try:
        return deeds.page(request, deed)
    except _OnlyLooked:
        form = BackfillForm(request.POST)
        form.is_valid()
        return deeds.show(request, deed, form)


class _OnlyLooked(Exception):
    """The form was good, and nothing was to be done yet."""
