"""What people do to executions: cancel, retry now, replay; one, a selection, or all that match."""

from collections import Counter
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.urls import reverse
from django.utils.html import format_html
from django.views.decorators.http import require_POST

from access.roles import Role
from console import deeds
from console.deeds import Deed, came_from
from console.executions import sweeping
from console.executions.forms import NoteForm, ReasonForm
from console.executions.page import address_of, crumbs, found, short
from console.fields import JsonField
from console.people import needs, record
from executions.identity import is_ours
from executions.models import Execution
from executions.states import FINAL, OPEN, State
from executions.words import count
from jobs import runs, sweeps
from jobs.refusals import InvalidRun

MOST_SELECTED = 1000
_LISTED = "admin:onbeat_executions_execution_changelist"


# ── One ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@needs(Role.OPERATOR)
def cancel(request: HttpRequest, object_id: str) -> HttpResponse:
    one = found(object_id)

    def do(said: dict[str, Any]) -> str:
        reason = said["reason"] or "cancelled"
        done = runs.cancel_executions([one.pk], reason=reason)
        if not done.before_run and not done.asked_to_stop:
            raise InvalidRun("state", f"It is {found(object_id).state} by now and can no longer be cancelled.")
        record(request, "execution.cancel", f"execution:{one.pk}", note=reason)
        return "It is cancelled." if done.before_run else "It runs, and was asked to stop."

    explains = ["It runs: it is asked to stop, and killed after its grace."] if one.state == State.RUNNING else []
    deed = Deed(
        title="Cancel this execution",
        verb="Cancel it",
        back=address_of(one.pk),
        do=do,
        form=ReasonForm,
        explains=[f"{one.job.key}, {one.state.lower()}.", *explains],
        is_destructive=True,
        crumbs=crumbs(one),
    )
    return deeds.page(request, deed)


@require_POST
@needs(Role.OPERATOR)
def retry(request: HttpRequest, object_id: str) -> HttpResponseBase:
    one = found(object_id)

    def do() -> str:
        if not runs.retry_now([one.pk]):
            problem = f"It is {one.state} at attempt {one.attempt}: no retry waits for its time here."
            raise InvalidRun("state", problem)
        record(request, "execution.retry_now", f"execution:{one.pk}")
        return "Its next attempt comes now."

    return deeds.at_once(request, address_of(one.pk), do)


class ReplayForm(NoteForm):
    args = JsonField(list, label="Arguments")
    kwargs = JsonField(dict, label="Named arguments")
    field_order = ["args", "kwargs", "note"]


@needs(Role.OPERATOR)
def replay(request: HttpRequest, object_id: str) -> HttpResponse:
    """As it was, or with another payload."""
    one = found(object_id)

    def do(said: dict[str, Any]) -> str:
        changes = {name: said[name] for name in ("args", "kwargs") if said[name] != getattr(one, name)}
        note = said["note"] or "replayed"
        new = runs.replay([one.pk], note=note, **changes)
        if not new:
            raise InvalidRun(
                "state", "It will still run by itself, or stands for many fires; only what is over is replayed."
            )
        record(request, "execution.replay", f"execution:{one.pk}", after={"replay": new[0]}, note=said["note"])
        told = 'Replayed as a new execution. <a href="{}" class="underline">See it</a>'
        return format_html(told, address_of(new[0]))

    deed = Deed(
        title=f"Replay {short(one)}",
        verb="Replay",
        back=address_of(one.pk),
        do=do,
        form=ReplayForm,
        initial={"args": one.args, "kwargs": one.kwargs},
        explains=["Runs again as a new execution that points to this one. A dead letter counts as handled then."],
        crumbs=crumbs(one),
    )
    return deeds.page(request, deed)


# ── A selection, or all that match ───────────────────────────────────────────────────────────────────────────────


@require_POST
@needs(Role.OPERATOR)
def act(request: HttpRequest) -> HttpResponseBase:
    """First the count, with a button; that button does it."""
    name = request.POST.get("deed", "")
    back = came_from(request, reverse(_LISTED))
    if name in ("cancel-matching", "replay-matching"):
        return sweeping.page(request, sweeps.Deed(name.removesuffix("-matching")), back)
    ids = _selected(request)
    if name not in _VERBS or not ids:
        messages.error(request, "Select executions first.")
        return HttpResponseRedirect(back)
    return deeds.page(request, _on_selection(request, name, ids, back))


def _selected(request: HttpRequest) -> list[UUID]:
    found_ids = []
    for text in request.POST.getlist("selected")[:MOST_SELECTED]:
        try:
            one = UUID(text)
        except ValueError:
            continue
        if is_ours(one):
            found_ids.append(one)
    return found_ids


_VERBS = {"cancel": "Cancel", "retry": "Retry now", "replay": "Replay"}
_FITS = {"cancel": frozenset(OPEN), "retry": frozenset({State.SCHEDULED}), "replay": FINAL | {State.SKIPPED}}


def _on_selection(request: HttpRequest, name: str, ids: Sequence[UUID], back: str) -> Deed:
    rows = list(Execution.objects.with_ids(ids).values_list("state", "attempt", "skipped_until"))
    fit = [row for row in rows if row[0] in _FITS[name]]
    if name == "retry":
        fit = [row for row in fit if row[1] > 1]
    if name == "replay":
        fit = [row for row in fit if row[2] is None]
    by_state = ", ".join(f"{number} {state.lower()}" for state, number in Counter(row[0] for row in rows).most_common())
    left = len(rows) - len(fit)
    explains = [
        f"{count(len(rows), 'execution')} selected: {by_state}.",
        f"{count(len(fit), 'execution')} will be {_DONE[name]}."
        + (f" {count(left, 'other')} {_LEFT[name]} and {'is' if left == 1 else 'are'} left alone." if left else ""),
    ]
    return Deed(
        title=f"{_VERBS[name]}: {count(len(fit), 'execution')}",
        verb=f"{_VERBS[name]} {count(len(fit), 'execution')}",
        back=back,
        do=lambda said: _do(request, name, ids, said),
        form={"cancel": ReasonForm, "retry": forms.Form, "replay": NoteForm}[name],
        explains=explains,
        is_destructive=name == "cancel",
        crumbs=crumbs(),
        hidden=[("deed", name), ("back", back), *(("selected", str(pk)) for pk in ids)],
    )


_DONE = {
    "cancel": "cancelled, or asked to stop if they run",
    "retry": "tried again now",
    "replay": "run again as new ones",
}
_LEFT = {
    "cancel": "already over",
    "retry": "without a retry that waits",
    "replay": "not over yet, or standing for many fires",
}


def _do(request: HttpRequest, name: str, ids: Sequence[UUID], said: dict[str, Any]) -> str:
    if name == "cancel":
        reason = said["reason"] or "cancelled"
        done = runs.cancel_executions(ids, reason=reason)
        cancelled, stopping = len(done.before_run), len(done.asked_to_stop)
        told, note = f"{count(cancelled, 'execution')} cancelled, {stopping} asked to stop.", reason
    elif name == "retry":
        hurried = runs.retry_now(ids)
        told, note = f"{count(hurried, 'retry comes', 'retries come')} now.", ""
    else:
        note = said["note"] or "replayed"
        told = f"{count(len(runs.replay(ids, note=note)), 'execution')} replayed."
    action = {"cancel": "execution.cancel", "retry": "execution.retry_now", "replay": "execution.replay"}[name]
    record(
        request, action, "a selection of executions", before={"executions": list(ids)}, after={"told": told}, note=note
    )
    return told
