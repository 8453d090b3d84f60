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
from api.jobs.previews import of_key
from api.problems import problem_of
from console.fields import MomentField, ZonedForm
from console.jobs import forms
from console.people import needs
from executions.clock import database_now
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
    form = CheckForm(request.GET)
    if not form.is_valid():
        return _said(request, trouble=" ".join(str(message) for wrong in form.errors.values() for message in wrong))
    said = form.cleaned_data
    empty = {"cron": "cron", "every": "every", "once": "once_at"}.get(said["kind"])
    if empty is None:
        return _said(request, words="Only when asked: by a person, an app or another job.")
    if not said[empty]:
        return _said(request)
    try:
        return _said(request, **_seen(said))
    except Exception as error:
        problem = problem_of(error)
        if problem is None or problem.status >= 500:
            raise
        return _said(request, trouble=" ".join(place.detail for place in problem.places) or problem.detail)


def _seen(said: dict[str, Any]) -> dict[str, Any]:
    now = database_now()
    body = ScheduleBody().run_validation(forms.schedule(said))
    recurrence = of_key(bodies.recurrence(body, now=now), said["key"])
    count = min(_SHOWN, said["max_fires"] or _SHOWN)
    fires = with_remarks(recurrence, upcoming(recurrence, after=now, count=count), since=now)
    trouble = "" if fires else "It never fires: all its times are past, or do not exist."
    return {
        "words": in_words(recurrence),
        "fires": fires,
        "zone": (said["timezone"] or "UTC") if said["kind"] == "cron" else "UTC",
        "warnings": warnings.uneven_steps(said["cron"] if said["kind"] == "cron" else ""),
        "now": now,
        "trouble": trouble,
    }


def _said(request: HttpRequest, **context: Any) -> HttpResponse:
    return render(request, "console/jobs/check.html", context)


@cache
def zones() -> list[str]:
    return [*sorted(name for name in available_timezones() if "/" in name and not name.startswith("Etc/")), "UTC"]
