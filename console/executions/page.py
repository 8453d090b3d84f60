"""The page of one execution: what happened when, with the waits between, and why it is where it is."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.contrib import admin
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from access.roles import Role
from console.people import may, needs
from executions import timeline, why, words
from executions.clock import database_now
from executions.identity import fire_time_of, is_ours
from executions.models import Attempt, Execution
from executions.states import OPEN, State
from executions.timeline import Moment

_REPLAYS_SHOWN = 20
_OVER = {State.SUCCEEDED, State.DEAD, State.CANCELLED, State.SKIPPED}
_WORTH_TELLING = timedelta(milliseconds=1)


def found(pk: str) -> Execution:
    try:
        wanted = UUID(pk)
    except ValueError:
        raise Http404 from None
    row = Execution.objects.with_id(wanted).select_related("job").first() if is_ours(wanted) else None
    if row is None:
        raise Http404
    return row


def address_of(pk: UUID) -> str:
    return reverse("admin:onbeat_executions_execution_change", args=[pk])


def crumbs(execution: Execution | None = None) -> list[tuple[str, str]]:
    above = [("Executions", reverse("admin:onbeat_executions_execution_changelist"))]
    return above if execution is None else [*above, (short(execution), address_of(execution.pk))]


def short(execution: Execution) -> str:
    return f"{execution.job.key} · {str(execution.pk)[-12:]}"


@dataclass(frozen=True)
class Step:
    at: datetime
    what: str
    tone: str
    waited: str  # since the step before


@require_safe
@needs(Role.VIEWER)
def execution(request: HttpRequest, object_id: str) -> HttpResponse:
    one, now = found(object_id), database_now()
    attempts = list(Attempt.objects.filter(execution_id=one.pk, fire_time=fire_time_of(one.pk)).order_by("number"))
    is_open, may_operate = one.state in OPEN, may(request, Role.OPERATOR)
    schedule = getattr(one.job, "schedule", None) if one.job_id else None
    context = {
        **admin.site.each_context(request),
        "title": short(one),
        "crumbs": crumbs(),
        "one": one,
        "zone": schedule.timezone if schedule else "",
        "why": why.in_words(one, now=now),
        "why_tone": words.tone(one.state),
        "steps": steps(one, attempts, now=now),
        "attempts": [(attempt, (attempt.finished_at - attempt.started_at).total_seconds()) for attempt in attempts],
        "progress": _progress(one.progress),
        "replays": _replays(one),
        "now": now,
        "now_iso": now.isoformat(),
        "is_retry_waiting": one.state == State.SCHEDULED and one.attempt > 1,
        "may_cancel": may_operate and is_open and not one.cancel_requested_at,
        "may_replay": may_operate and one.state in _OVER and one.skipped_until is None,
        "may_retry": may_operate and one.state == State.SCHEDULED and one.attempt > 1,
    }
    return TemplateResponse(request, "console/executions/page.html", context)


def steps(one: Execution, attempts: list[Attempt], *, now: datetime) -> list[Step]:
    moments = [*timeline.moments(one, attempts), *_due(one)]
    moments.sort(key=lambda moment: moment.at)
    found, before = [], None
    for moment in moments:
        wait = moment.at - before if before is not None else timedelta(0)
        waited = words.duration(wait) if wait >= _WORTH_TELLING else ""
        found.append(Step(moment.at, _said(moment), "coming" if moment.at > now else _tone(moment), waited))
        before = moment.at
    return found


def _due(one: Execution) -> list[Moment]:
    """When it was due, or will be: the fire itself, and the next attempt if one waits."""
    due = [Moment(one.fire_time, "due", "")]
    if one.state == State.SCHEDULED and one.available_at != one.fire_time:
        what = f"attempt {one.attempt} comes" if one.attempt > 1 else "to be published"
        due.append(Moment(one.available_at, what))
    return due


def _said(moment: Moment) -> str:
    return (
        moment.what.replace("_", " ").capitalize()
        if moment.what.isupper()
        else moment.what[:1].upper() + moment.what[1:]
    )


def _tone(moment: Moment) -> str:
    return words.tone(moment.became) if moment.became else "calm"


def _progress(progress: Any) -> dict[str, Any] | None:
    """How far its handler said it is, with a share of the whole if both are known."""
    if not isinstance(progress, dict):
        return None
    done, total = progress.get("done"), progress.get("total")
    return {
        "done": done,
        "total": total,
        "note": progress.get("note") or "",
        "percent": _percent(done, total),
    }


def _percent(done: Any, total: Any) -> float | None:
    if not isinstance(done, int | float) or not isinstance(total, int | float) or total <= 0:
        return None
    try:
        return 100.0 * max(0.0, min(1.0, done / total))
    except OverflowError:  # numbers that no float holds
        return None


def _replays(one: Execution) -> list[Execution]:
    """The executions that repeat this one: none fired before it did."""
    rows = Execution.objects.filter(replay_of=one.pk, fire_time__gte=one.fire_time).order_by("fire_time")
    return list(rows.only("pk", "state", "fire_time")[:_REPLAYS_SHOWN])
