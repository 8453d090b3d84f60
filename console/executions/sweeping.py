"""Cancel or replay everything that the filters of the list match: first the count, then a part at a time.

Invariant: without a condition nothing is meant; what is stored after somebody looked is left alone; what cannot be done
in parts without doing the first part twice is refused.
"""

from dataclasses import replace
from datetime import datetime
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict

from api.executions import deeds as on_executions
from console import deeds
from console.deeds import Deed
from console.executions.forms import NoteForm, ReasonForm
from console.executions.listing import ExecutionFilters, NotSought, is_asked, sought
from console.executions.page import crumbs
from console.people import signature
from executions.clock import database_now
from executions.finding import Sought
from executions.states import State
from executions.words import count
from jobs import sweeps
from jobs.refusals import InvalidRun

_DONE = {sweeps.Deed.CANCEL: "cancelled", sweeps.Deed.REPLAY: "replayed"}
_VERBS = {sweeps.Deed.CANCEL: "Cancel", sweeps.Deed.REPLAY: "Replay"}
_WHICH = {sweeps.Deed.CANCEL: "not over", sweeps.Deed.REPLAY: "over and not handled"}


def page(request: HttpRequest, deed: sweeps.Deed, back: str) -> HttpResponse:
    now, matching = database_now(), request.POST.get("matching", "")
    looked_at = _looked_at(request, now)
    try:
        wanted = replace(_wanted(deed, matching, now), created_before=looked_at)
        number = _number(deed, wanted, now)
    except (NotSought, InvalidRun) as problem:
        messages.error(request, str(problem))
        return HttpResponseRedirect(back)
    many = f"more than {sweeps.MOST_COUNTED:,}" if number >= sweeps.MOST_COUNTED else f"{number:,}"
    asked = Deed(
        title=f"{_VERBS[deed]} all that match",
        verb=f"{_VERBS[deed]} {many} executions",
        back=back,
        do=lambda said: _sweep(request, deed, wanted, said, matching=matching, now=now),
        form=ReasonForm if deed is sweeps.Deed.CANCEL else NoteForm,
        explains=[
            f"{many} executions match and are {_WHICH[deed]}.",
            f"Up to {sweeps.MOST_IN_A_BATCH:,} are done at once, the oldest first.",
        ],
        is_destructive=deed is sweeps.Deed.CANCEL,
        crumbs=crumbs(),
        hidden=[
            ("deed", f"{deed}-matching"),
            ("back", back),
            ("matching", matching),
            ("looked_at", looked_at.isoformat()),
        ],
    )
    return deeds.page(request, asked)


def _looked_at(request: HttpRequest, now: datetime) -> datetime:
    """When the count was shown: what was stored since is none of its business."""
    try:
        said = datetime.fromisoformat(request.POST.get("looked_at", ""))
    except ValueError:
        return now
    return said if said.tzinfo is not None and said <= now else now


def _wanted(deed: sweeps.Deed, matching: str, now: datetime) -> Sought:
    form = ExecutionFilters(QueryDict(matching))
    if not form.is_valid():
        raise NotSought("The filters cannot be read; set them again.")
    if not is_asked(form.cleaned_data):
        raise NotSought(f"Say what to {deed}: without any condition it would be everything.")
    return sought(form.cleaned_data, now=now)


def _number(deed: sweeps.Deed, wanted: Sought, now: datetime) -> int:
    """What is cancelled or handled matches no more, so that the next part is found by doing it again; a replay of
    anything else leaves it as it is."""
    number = sweeps.count(deed, wanted, now=now)
    if deed is sweeps.Deed.REPLAY and wanted.states != (State.DEAD,) and number > sweeps.MOST_IN_A_BATCH:
        raise NotSought(
            f"More than {sweeps.MOST_IN_A_BATCH:,} match, which is more than is replayed at once; narrow the "
            f"filters, by time for example."
        )
    return number


def _sweep(
    request: HttpRequest, deed: sweeps.Deed, wanted: Sought, said: dict[str, Any], *, matching: str, now: datetime
) -> str:
    done = _DONE[deed]
    note = said.get("reason") or said.get("note") or ""
    limit = sweeps.MOST_IN_A_BATCH
    swept = on_executions.sweep(deed, wanted, said=matching, note=note, limit=limit, now=now, **signature(request))
    rest = f" There are more: do it again for the next {sweeps.MOST_IN_A_BATCH:,}." if swept.last else ""
    stopped = f", {swept.asked_to_stop} asked to stop" if swept.asked_to_stop else ""
    return f"{count(swept.done, 'execution')} {done}{stopped}.{rest}"
