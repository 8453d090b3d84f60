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
from api.executions import deeds as on_executions
from console import deeds
from console.deeds import Deed, came_from
from console.executions import sweeping
from console.executions.forms import NoteForm, ReasonForm
from console.executions.page import address_of, crumbs, found, short
from console.fields import JsonField
from console.people import needs, signature
from executions.identity import is_ours
from executions.models import Execution
from executions.states import FINAL, OPEN, State
from executions.words import count
from jobs import sweeps

MOST_SELECTED = 1000
_LISTED = "admin:onbeat_executions_execution_changelist"


# ── One ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@needs(Role.OPERATOR)
def cancel(request: HttpRequest, object_id: str) -> HttpResponse:
    one = found(object_id)

    def do(said: dict[str, Any]) -> str:
        outcome = on_executions.cancel(one, reason=said["reason"], **signature(request))
        return "It is cancelled." if outcome == on_executions.CANCELLED else "It runs, and was asked to stop."

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
        on_executions.retry_now(one, **signature(request))
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
        new = on_executions.replay(one, note=said["note"], **changes, **signature(request))
        told = 'Replayed as a new execution. <a href="{}" class="underline">See it</a>'
        return format_html(told, address_of(new))

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
    by = signature(request)
    if name == "cancel":
        done = on_executions.cancel_selection(ids, reason=said["reason"], **by)
        return f"{count(len(done.before_run), 'execution')} cancelled, {len(done.asked_to_stop)} asked to stop."
    if name == "retry":
        return f"{count(on_executions.retry_selection_now(ids, **by), 'retry comes', 'retries come')} now."
    return f"{count(len(on_executions.replay_selection(ids, note=said['note'], **by)), 'execution')} replayed."
