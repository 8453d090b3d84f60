"""The list of jobs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from typing import Any, NamedTuple
from urllib.parse import urlencode

from django import forms
from django.contrib import admin
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.views.decorators.http import require_safe

from access.roles import Role
from api import pages
from api.jobs import listing
from api.problems import Problem
from console.people import may, needs
from executions import queues, recent
from executions.clock import database_now
from executions.recent import Recent
from jobs.figures import LATE_AFTER
from jobs.http_target import HttpTarget
from jobs.models import Job, JobState
from workers.models import Worker

PER_PAGE = 50
IN_STRIP = 30

ENDED = ("SUCCEEDED", "DEAD", "CANCELLED", "SKIPPED")
_OPEN = "open"
_STATES = [(_OPEN, "Active and paused"), *((state.value, state.value.capitalize()) for state in JobState)]


class Order(NamedTuple):
    """A way through the jobs that an index leads."""

    label: str
    column: str
    kind: type
    is_down: bool = False


ORDERS = {
    "key": Order("Key", "key", str),
    "next": Order("Next fire", "schedule__next_fire_at", datetime),  # of those that have one
    "changed": Order("Changed last", "changed_at", datetime, is_down=True),
    "newest": Order("Newest", "pk", int, is_down=True),
}


class JobFilters(forms.Form):
    search = forms.CharField(required=False, widget=forms.TextInput(attrs={"placeholder": "Key, task or owner"}))
    state = forms.ChoiceField(required=False, choices=_STATES)
    queue = forms.CharField(required=False, widget=forms.TextInput(attrs={"list": "ob-queues"}))
    tag = forms.CharField(required=False)
    owner = forms.CharField(required=False)
    order = forms.ChoiceField(required=False, choices=[(name, order.label) for name, order in ORDERS.items()])


@dataclass(frozen=True)
class Row:
    job: Job
    runs: Sequence[Recent]  # the latest first
    now: datetime

    @property
    def target(self) -> str:
        return target_of(self.job)

    @property
    def schedule(self) -> Any:
        return getattr(self.job, "schedule", None)

    @property
    def when(self) -> str:
        return self.schedule.in_words if self.schedule else "Only when asked"

    @property
    def zone(self) -> str:
        return self.schedule.timezone if self.schedule else ""

    @property
    def next_fire_at(self) -> datetime | None:
        return next_fire_of(self.job)

    @property
    def is_late(self) -> bool:
        return self.next_fire_at is not None and self.next_fire_at < self.now - LATE_AFTER

    @property
    def last(self) -> Recent | None:
        """The latest that has ended."""
        return next((run for run in self.runs if run.state in ENDED), None)


def target_of(job: Job) -> str:
    return HttpTarget.stored(job.http).shown if job.http else job.task


def next_fire_of(job: Job) -> datetime | None:
    schedule = getattr(job, "schedule", None)
    return schedule.next_fire_at if schedule is not None and schedule.is_active else None


@require_safe
@needs(Role.VIEWER)
def jobs(request: HttpRequest) -> HttpResponse:
    form = JobFilters(request.GET or None)
    said = form.cleaned_data if form.is_valid() else {}
    now = database_now()
    trouble = "" if form.is_valid() or not form.is_bound else "The filters cannot be read; choose from what is there."
    try:
        found, cursor = ([], None) if trouble else _page(said, request.GET.get("cursor", ""))
    except Problem as problem:
        found, cursor, trouble = [], None, problem.detail
    runs = recent.of_jobs([job.pk for job in found], count=IN_STRIP, now=now)
    chosen = {name: value for name, value in said.items() if value}
    context = {
        **admin.site.each_context(request),
        "title": "Jobs",
        "form": form if form.is_bound else JobFilters(initial={"state": _OPEN, "order": "key"}),
        "rows": [Row(job, runs.get(job.pk, ()), now) for job in found],
        "next": urlencode({**chosen, "cursor": cursor}) if cursor else "",
        "is_first": "cursor" not in request.GET,
        "first": urlencode(chosen),
        "is_filtered": (bool(set(chosen) - {"order"}) and chosen.get("state") != _OPEN) or len(chosen) > 1,
        "trouble": trouble,
        "queues": known_queues(),
        "now": now,
        "now_iso": now.isoformat(),
        "may_operate": may(request, Role.OPERATOR),
        "may_edit": may(request, Role.EDITOR),
    }
    return TemplateResponse(request, "console/jobs/list.html", context)


def _page(said: Mapping[str, Any], cursor: str) -> tuple[list[Job], str | None]:
    """The jobs of a page with their schedules, and where the next one begins."""
    order = ORDERS[said.get("order") or "key"]
    rows = listing.matching(_query(said)).select_related("schedule")
    if order.column == "schedule__next_fire_at":
        rows = rows.filter(schedule__is_active=True, schedule__next_fire_at__isnull=False)
    if cursor:
        place, pk = pages.read(cursor, [order.kind, int])
        way = "lt" if order.is_down else "gt"
        # The first part is what an index begins from.
        rows = rows.filter(**{f"{order.column}__{way}e": place})
        rows = rows.filter(Q(**{f"{order.column}__{way}": place}) | Q(**{f"pk__{way}": pk}))
    sign = "-" if order.is_down else ""
    found = list(rows.order_by(f"{sign}{order.column}", f"{sign}pk")[: PER_PAGE + 1])
    if len(found) <= PER_PAGE:
        return found, None
    last = found[PER_PAGE - 1]
    return found[:PER_PAGE], pages.written(attrgetter(order.column.replace("__", "."))(last), last.pk)


def _query(said: Mapping[str, Any]) -> dict[str, Any]:
    query = {name: said[name].strip() for name in ("search", "queue", "tag", "owner") if said.get(name, "").strip()}
    state = said.get("state") or _OPEN
    return query if state == _OPEN else {**query, "state": [JobState(state)]}


def known_queues() -> list[str]:
    """Those that workers consume: to look through all jobs would read them all."""
    names = {name for each in Worker.objects.values_list("queues", flat=True) for name in each}
    return sorted(filter(None, map(queues.job_queue_name, names)))
