"""A schedule that somebody is typing: the sentence, the next fires, or what is wrong with it. Changes nothing."""

from functools import cache
from typing import Any
from zoneinfo import available_timezones

from django import forms as django_forms
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from access.roles import Role
from api.jobs import bodies, warnings
from api.jobs.bodies import ScheduleBody
from api.jobs.named import anchor_of, schedule_of
from api.jobs.previews import of_key
from api.problems import problem_of
from console.fields import MomentField, ZonedForm
from console.jobs import forms
from console.jobs.page import found
from console.people import needs
from executions.clock import database_now
from jobs.models import Schedule
from jobs.recurrence import Cron, Every, Once, Within
from jobs.shifts import with_remarks
from jobs.upcoming import upcoming
from jobs.wording import in_words

_SHOWN = 5


class CheckForm(ZonedForm):
    kind = django_forms.CharField(required=False)
    cron = django_forms.CharField(required=False)
    timezone = django_forms.CharField(required=False)
    every = django_forms.IntegerField(required=False)
    once_at = MomentField(required=False)
    start = MomentField(required=False)
    end = MomentField(required=False)
    max_fires = django_forms.IntegerField(required=False, min_value=1)
    key = django_forms.CharField(required=False)


@require_safe
@needs(Role.VIEWER)
def schedule(request: HttpRequest) -> HttpResponse:
    job = found(request.GET["job"]) if request.GET.get("job") else None
    stored = None if job is None else schedule_of(job)
    form = CheckForm(request.GET, initial={} if job is None else forms.initial(bodies.written(job, stored)))
    if not form.is_valid():
        return _said(request, trouble=" ".join(str(message) for wrong in form.errors.values() for message in wrong))
    said = form.cleaned_data if job is None else {**form.cleaned_data, "key": job.key}
    empty = {"cron": "cron", "every": "every", "once": "once_at"}.get(said["kind"])
    if empty is None:
        return _said(request, words="Only when asked: by a person, an app or another job.")
    if not said[empty]:
        return _said(request)
    try:
        return _said(request, **_seen(said, stored))
    except Exception as error:
        problem = problem_of(error)
        if problem is None or problem.status >= 500:
            raise
        return _said(request, trouble=" ".join(place.detail for place in problem.places) or problem.detail)


def _seen(said: dict[str, Any], stored: Schedule | None) -> dict[str, Any]:
    """`stored`: the schedule that somebody changes, whose intervals go on from where they are."""
    now = database_now()
    body = ScheduleBody().run_validation(forms.schedule(said))
    recurrence = of_key(bodies.recurrence(body, now=now, anchor=anchor_of(stored)), said["key"])
    fires = with_remarks(recurrence, upcoming(recurrence, after=now, count=_count(said, recurrence, stored)), since=now)
    trouble = "" if fires else "It never fires: all its times are past, or do not exist."
    return {
        "words": in_words(recurrence),
        "fires": fires,
        "zone": (said["timezone"] or "UTC") if said["kind"] == "cron" else "UTC",
        "warnings": warnings.uneven_steps(said["cron"] if said["kind"] == "cron" else ""),
        "now": now,
        "trouble": trouble,
    }


def _count(said: dict[str, Any], recurrence: Cron | Every | Once | Within, stored: Schedule | None) -> int:
    """How many are shown: of a limit that stays as it is, what is left; a new schedule begins anew."""
    most: int | None = said["max_fires"]
    if stored is not None and stored.max_fires == most and stored.is_readable and stored.recurrence == recurrence:
        most = stored.fires_left
    return _SHOWN if most is None else min(_SHOWN, most)


def _said(request: HttpRequest, **context: Any) -> HttpResponse:
    return render(request, "console/jobs/check.html", context)


@cache
def zones() -> list[str]:
    return [*sorted(name for name in available_timezones() if "/" in name and not name.startswith("Etc/")), "UTC"]
