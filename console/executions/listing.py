"""The list of executions, found as the API finds them: a page looks at a bounded number of rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django import forms
from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.views.decorators.http import require_safe

from access.roles import Role
from api import pages
from api.problems import Problem
from console.fields import MomentField, ZonedForm
from console.jobs.listing import known_queues
from console.people import may, needs
from executions.clock import database_now
from executions.finding import Place, Sought, newest_first
from executions.models import Execution
from executions.states import CLAIMABLE, OPEN, State, Trigger
from executions.storable import stored_in_a_line
from jobs.models import Job, Schedule
from workers.models import Worker

PER_PAGE = 50
_PLACE = (datetime, UUID)
_OPEN = "open"
_STATES = [("", "Any"), (_OPEN, "Not over"), *((state.value, state.value.capitalize()) for state in State)]
_TRIGGERS = [("", "Any"), *((trigger.value, trigger.value.capitalize()) for trigger in Trigger)]
_WHEN = [
    ("", "Until now"),
    ("hour", "Last hour"),
    ("day", "Last 24 hours"),
    ("week", "Last 7 days"),
    ("coming", "Still to come"),
    ("any", "Any time"),
]
_BACK = {"hour": timedelta(hours=1), "day": timedelta(days=1), "week": timedelta(days=7)}
_AHEAD = timedelta(minutes=1)  # planned a little before its time


class ExecutionFilters(ZonedForm):
    state = forms.ChoiceField(required=False, choices=_STATES)
    job = forms.CharField(required=False, widget=forms.TextInput(attrs={"placeholder": "Key or id"}))
    queue = forms.CharField(required=False, widget=forms.TextInput(attrs={"list": "ob-queues"}))
    worker = forms.CharField(required=False, widget=forms.TextInput(attrs={"list": "ob-workers"}))
    trigger = forms.ChoiceField(required=False, choices=_TRIGGERS)
    error = forms.CharField(required=False, widget=forms.TextInput(attrs={"placeholder": "A part of the error"}))
    fingerprint = forms.CharField(required=False, widget=forms.HiddenInput())
    when = forms.ChoiceField(required=False, choices=_WHEN)
    since = MomentField(required=False)
    until = MomentField(required=False)


@dataclass(frozen=True)
class Brief:
    """A row, with what people ask of it."""

    execution: Execution
    zone: str = ""  # of its job's schedule

    @property
    def seconds(self) -> float | None:
        one = self.execution
        if one.started_at is None or one.finished_at is None:
            return None
        return (one.finished_at - one.started_at).total_seconds()

    @property
    def late_seconds(self) -> float | None:
        """How long after it was due its attempt began; of one that has not, it would be the attempt before."""
        one = self.execution
        if one.started_at is None or one.state in CLAIMABLE:
            return None
        return (one.started_at - one.available_at).total_seconds()

    @property
    def tells(self) -> str:
        """Why, or what went wrong, in a line."""
        return self.execution.reason or stored_in_a_line(self.execution.error)


def briefs(executions: Sequence[Execution]) -> list[Brief]:
    ids = {execution.job_id for execution in executions}
    zones = dict(Schedule.objects.filter(job_id__in=ids).values_list("job_id", "timezone"))
    return [Brief(execution, zones.get(execution.job_id, "")) for execution in executions]


class NotSought(Exception):
    """What was asked for cannot be; the text says why."""


def is_asked(said: Mapping[str, Any]) -> bool:
    """Whether the filters say anything: without, a list is of what happened until now, and an action of nothing."""
    return any(said.get(name) for name in ExecutionFilters.base_fields)


def sought(said: Mapping[str, Any], *, now: datetime) -> Sought:
    """What the filters say."""
    states = tuple(OPEN) if said.get("state") == _OPEN else (State(said["state"]),) if said.get("state") else ()
    since, until = said.get("since"), said.get("until")
    when = said.get("when") or ""
    if when in _BACK:
        since = since or now - _BACK[when]
    if when == "coming":
        since = since or now
    elif when != "any" and said.get("state") != _OPEN:
        until = until or now + _AHEAD
    return Sought(
        job_id=_job_id(said.get("job", "").strip()),
        states=states,
        triggers=(Trigger(said["trigger"]),) if said.get("trigger") else (),
        since=since,
        until=until,
        **{name: said.get(name, "").strip() for name in ("queue", "worker", "error", "fingerprint")},
    )


def _job_id(named: str) -> int | None:
    """Of the open job of this key, or of any by its id; keys of digits alone go before ids, but for #7."""
    if not named:
        return None
    if named.startswith("#"):  # no key does: so that links mean the job they are beside
        return _job_of_id(named[1:], named)
    found = Job.objects.filter(key=named).order_by("-pk") if named.isprintable() else Job.objects.none()
    open_first = found.open().values_list("pk", flat=True).first() or found.values_list("pk", flat=True).first()
    if open_first is not None:
        return int(open_first)
    return _job_of_id(named, named)


def _job_of_id(number: str, named: str) -> int:
    if number.isascii() and number.isdecimal() and len(number) < 19 and Job.objects.filter(pk=int(number)).exists():
        return int(number)
    raise NotSought(f"There is no job {named[:80]!r}; look for its key in the list of jobs.")


@require_safe
@needs(Role.VIEWER)
def executions(request: HttpRequest) -> HttpResponse:
    now = database_now()
    form = ExecutionFilters(request.GET or None)
    said = form.cleaned_data if form.is_valid() else {}
    rows: list[Brief] = []
    last, trouble = None, "" if form.is_valid() or not form.is_bound else "The filters cannot be read; see below."
    try:
        if not trouble:
            cursor = request.GET.get("cursor", "")
            after = Place(*pages.read(cursor, _PLACE)) if cursor else None
            page = newest_first(sought(said, now=now), limit=PER_PAGE, now=now, after=after)
            rows, last = briefs(page.rows), page.last
    except (NotSought, Problem) as problem:
        trouble = str(problem)
    chosen = {name: value for name, value in request.GET.items() if value and name not in ("cursor", "viewer_zone")}
    zone = {"viewer_zone": request.GET.get("viewer_zone", "UTC")} if {"since", "until"} & set(chosen) else {}
    context = {
        **admin.site.each_context(request),
        "title": "Executions",
        "form": form,
        "executions": rows,
        "next": urlencode({**chosen, **zone, "cursor": pages.written(*last)}) if last else "",
        "is_first": "cursor" not in request.GET,
        "first": urlencode({**chosen, **zone}),
        "chosen": urlencode({**chosen, **zone}),
        "is_filtered": is_asked(said) or bool(trouble),
        "trouble": trouble,
        "queues": known_queues(),
        "workers": list(Worker.objects.order_by("name").values_list("name", flat=True)[:200]),
        "now": now,
        "now_iso": now.isoformat(),
        "may_operate": may(request, Role.OPERATOR),
    }
    return TemplateResponse(request, "console/executions/list.html", context)
