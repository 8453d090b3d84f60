"""Dead letters: what gave up, by job and by errors that look alike; run again, or discarded with a note."""

from typing import Any

from django import forms
from django.contrib import admin
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from access.roles import Role
from api.executions import deeds as on_executions
from console import deeds
from console.deeds import Deed
from console.people import may, needs, signature
from executions.clock import database_now
from executions.dead_letter_groups import groups_of_jobs
from executions.dead_letters import DEFAULT_REPLAYS_PER_SECOND
from executions.models import DeadMessage
from executions.words import count, duration
from jobs.dead_letters import MOST_REPLAYS_PER_SECOND, Matching
from jobs.models import Job

_MOST_GROUPS = 50
_MOST_MESSAGES = 20
_MOST_AT_ONCE = 5000


@require_safe
@needs(Role.VIEWER)
def groups(request: HttpRequest) -> HttpResponse:
    now = database_now()
    found = groups_of_jobs(limit=_MOST_GROUPS + 1)
    messages = DeadMessage.objects.filter(handled_at=None).defer("body").order_by("-collected_at")
    context = {
        **admin.site.each_context(request),
        "title": "Dead letters",
        "groups": found[:_MOST_GROUPS],
        "has_more": len(found) > _MOST_GROUPS,
        "most": _MOST_GROUPS,
        "messages_waiting": list(messages[:_MOST_MESSAGES]),
        "now": now,
        "now_iso": now.isoformat(),
        "may_operate": may(request, Role.OPERATOR),
    }
    return TemplateResponse(request, "console/dead_letters.html", context)


# ── One group ────────────────────────────────────────────────────────────────────────────────────────────────────


class GroupReplayForm(forms.Form):
    per_second = forms.IntegerField(
        min_value=1,
        max_value=MOST_REPLAYS_PER_SECOND,
        initial=DEFAULT_REPLAYS_PER_SECOND,
        label="Per second",
        help_text="So many are published in a second, so that what just came back is not run over.",
    )
    note = forms.CharField(max_length=200, required=False, help_text="What was decided.")


class DiscardForm(forms.Form):
    note = forms.CharField(max_length=200, help_text="What was decided; stands on each of them.")


@needs(Role.OPERATOR)
def replay(request: HttpRequest) -> HttpResponse:
    matching, words = _meant(request)

    def do(said: dict[str, Any]) -> str:
        done = on_executions.replay_dead(
            matching,
            subject=words,
            per_second=said["per_second"],
            note=said["note"],
            most=_MOST_AT_ONCE,
            **signature(request),
        )
        last = f"; the last comes in {duration((done.count - 1) / said['per_second'])}" if done.count > 1 else ""
        again = "runs again as a new execution" if done.count == 1 else "run again as new executions"
        return f"{count(done.count, 'dead letter')} {again}{last}.{_rest(matching)}"

    return deeds.page(request, _deed("Replay", do, GroupReplayForm, matching, words))


@needs(Role.OPERATOR)
def discard(request: HttpRequest) -> HttpResponse:
    matching, words = _meant(request)

    def do(said: dict[str, Any]) -> str:
        done = on_executions.discard_dead(
            matching, subject=words, note=said["note"], most=_MOST_AT_ONCE, **signature(request)
        )
        return f"{count(done, 'dead letter')} discarded.{_rest(matching)}"

    return deeds.page(request, _deed("Discard", do, DiscardForm, matching, words, is_destructive=True))


def _meant(request: HttpRequest) -> tuple[Matching, str]:
    """The group that the address names, and its name for people."""
    said = request.POST if request.method == "POST" else request.GET
    job, fingerprint = said.get("job", ""), said.get("fingerprint", "")[:16]
    job_id = int(job) if job.isascii() and job.isdecimal() and len(job) < 19 else 0
    key = Job.objects.filter(pk=job_id).values_list("key", flat=True).first()
    return Matching(job_id=job_id, fingerprint=fingerprint), f"job:{key or job_id}"


def _deed(
    verb: str,
    do: Any,
    form: type[forms.Form],
    matching: Matching,
    words: str,
    *,
    is_destructive: bool = False,
) -> Deed:
    number = matching.executions().count()
    back = reverse("admin:dead_letters")
    limit = [f"Up to {_MOST_AT_ONCE:,} at once, the oldest first."] if number > _MOST_AT_ONCE else []
    key = words.removeprefix("job:")
    return Deed(
        title=f"{verb} {count(number, 'dead letter')} of {key}",
        verb=f"{verb} {count(min(number, _MOST_AT_ONCE), 'dead letter')}",
        back=back,
        do=do,
        form=form,
        initial={"per_second": DEFAULT_REPLAYS_PER_SECOND},
        explains=[_EXPLAINS[verb], *limit],
        is_destructive=is_destructive,
        crumbs=[("Dead letters", back)],
        hidden=[("job", str(matching.job_id)), ("fingerprint", matching.fingerprint or "")],
    )


_EXPLAINS = {
    "Replay": "Each runs again as a new execution that points to the old one, which then counts as handled.",
    "Discard": "They are marked as handled and do not run again. They stay among the executions.",
}


def _rest(matching: Matching) -> str:
    left = matching.executions().count()
    return f" {left:,} of this group are left: do it again." if left else ""


# ── Messages of nobody ───────────────────────────────────────────────────────────────────────────────────────────


@needs(Role.OPERATOR)
def messages(request: HttpRequest, deed: str) -> HttpResponse:
    """Publish foreign or broken messages again into the queue each came from, or discard them."""
    if deed not in ("replay", "discard"):
        raise Http404
    named = request.POST.getlist("selected") if request.method == "POST" else []
    ids = [int(text) for text in named[:1000] if text.isascii() and text.isdecimal() and len(text) < 19]
    is_replay = deed == "replay"

    def do(said: dict[str, Any]) -> str:
        if not is_replay:
            discarded = on_executions.discard_messages(ids, note=said["note"], **signature(request))
            return f"{count(discarded, 'message')} discarded."
        done = on_executions.replay_messages(ids, note=said["note"], **signature(request))
        left = "".join(f" Message {pk} stays: {why}." for pk, why in done.left.items())
        return f"{count(len(done.replayed), 'message')} published again.{left}"

    back = reverse("admin:dead_letters")
    page = Deed(
        title=f"{deed.capitalize()} {count(len(ids), 'message')}",
        verb=deed.capitalize(),
        back=back,
        do=do,
        form=GroupNoteForm if is_replay else DiscardForm,
        explains=["Each goes unchanged into the queue that it came from."] if is_replay else [],
        is_destructive=not is_replay,
        is_whole=not is_replay,  # what the broker has cannot be taken back
        crumbs=[("Dead letters", back)],
        hidden=[("selected", str(pk)) for pk in ids],
    )
    return deeds.page(request, page)


class GroupNoteForm(forms.Form):
    note = forms.CharField(max_length=200, required=False, help_text="What was decided.")
