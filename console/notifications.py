"""Receivers of notifications in the admin: who is told what, how it went, and a button to try it.

Receivers are changed through `api/notifications/deeds.py`. Invariant: a URL or routing key that was typed is on no page
again; what a page previews is made up.
"""

from datetime import datetime
from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import Max, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST, require_safe
from unfold.admin import ModelAdmin

from access.roles import Role
from api.notifications import deeds as receiver_deeds
from console import deeds
from console.columns import when
from console.deeds import Deed
from console.fields import WordsField
from console.people import ByRole, may, needs, signature
from console.templatetags.onbeat import pill
from executions.clock import database_now
from jobs.models import Secret, SecretUse
from notifications import deliveries, letters
from notifications.bodies import Body
from notifications.kinds import (
    DEFAULT_EVENTS,
    DEFAULT_LATE_AFTER_SECONDS,
    DEFAULT_MOST_PER_HOUR,
    EVENTS,
    Kind,
    Template,
)
from notifications.models import Receiver
from notifications.receivers import MOST_LATE_SECONDS, MOST_PER_HOUR

_TEMPLATES = {
    Template.STANDARD: "Standard: our own JSON, signed",
    Template.SLACK: "Slack, and those that take its messages",
    Template.PAGERDUTY: "PagerDuty, Events API v2",
}
_EVENTS = {
    Kind.FAILURE: "Each attempt that failed, ran out of time or lost its worker, whether it is tried again or not.",
    Kind.DEAD_LETTER: "An execution that was given up and waits for a person.",
    Kind.RECOVERY: "The first success after something that was told, or that what was late has begun.",
    Kind.LATENESS: "What is due and has not begun: not planned, not published, or taken by no worker.",
}


# ── Pages ────────────────────────────────────────────────────────────────────────────────────────────────────────


@admin.register(Receiver)
class ReceiverAdmin(ByRole, ModelAdmin):  # type: ignore[misc]
    list_display = ["name", "template", "origin", "told_of", "state", "last_told"]
    search_fields = ["name"]
    ordering = ["name"]
    list_select_related = ["job"]
    last_told = when("told_at", "last told")

    def has_add_permission(self, request: HttpRequest, _obj: Any = None) -> bool:
        return may(request, Role.ADMIN)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Receiver]:
        receivers: QuerySet[Receiver] = super().get_queryset(request)
        return receivers.annotate(told_at=Max("notices__made_at"))

    @admin.display(description="told of")
    def told_of(self, receiver: Receiver) -> str:
        events = ", ".join(receiver.events).replace("_", " ")
        return f"{events}; {', '.join(receiver.jobs) or 'all jobs'}"

    @admin.display(description="state")
    def state(self, receiver: Receiver) -> SafeString:
        return pill(receiver.job.state)

    def get_urls(self) -> list[URLPattern]:
        views = {"edit": edit, "remove": remove, "test": test}
        ours = [
            path(f"<object_id>/{name}/", self.admin_site.admin_view(view), name=f"onbeat_notifications_receiver_{name}")
            for name, view in views.items()
        ]
        return ours + super().get_urls()  # type: ignore[no-any-return]

    def add_view(self, request: HttpRequest, **_more: Any) -> HttpResponseBase:
        return add(request)

    def change_view(self, request: HttpRequest, object_id: str, **_more: Any) -> HttpResponseBase:
        return page(request, object_id)

    def history_view(self, _request: HttpRequest, object_id: str, **_more: Any) -> HttpResponseBase:
        return HttpResponseRedirect(address_of(found(object_id)))


def found(pk: str) -> Receiver:
    rows = Receiver.objects.select_related("job", "secret")
    receiver = rows.filter(pk=pk).first() if pk.isdecimal() and len(pk) < 19 else None
    if receiver is None:
        raise Http404
    return receiver


def address_of(receiver: Receiver) -> str:
    return reverse("admin:onbeat_notifications_receiver_change", args=[receiver.pk])


def crumbs(receiver: Receiver | None = None) -> list[tuple[str, str]]:
    above = [("Notifications", reverse("admin:onbeat_notifications_receiver_changelist"))]
    return above if receiver is None else [*above, (receiver.name, address_of(receiver))]


@require_safe
@needs(Role.VIEWER)
def page(request: HttpRequest, object_id: str) -> HttpResponse:
    """What it wants, what it was told, and how that went."""
    receiver, now = found(object_id), database_now()
    context = {
        **admin.site.each_context(request),
        "title": receiver.name,
        "crumbs": crumbs(),
        "receiver": receiver,
        "events": [event.replace("_", " ") for event in receiver.events],
        "deliveries": deliveries.latest(receiver),
        "in_trouble": deliveries.troubles_of(receiver),
        "preview": letters.example(Template(receiver.template), receiver=receiver.name, now=now),
        "now": now,
        "may_operate": may(request, Role.OPERATOR),
        "may_admin": may(request, Role.ADMIN),
    }
    return TemplateResponse(request, "console/notifications/page.html", context)


# ── Deeds ────────────────────────────────────────────────────────────────────────────────────────────────────────


@require_POST
@needs(Role.OPERATOR)
def test(request: HttpRequest, object_id: str) -> HttpResponseBase:
    """At one press; how it went stands on the page of its execution."""
    receiver = found(object_id)

    def do() -> str:
        notice = receiver_deeds.send_test(receiver.name, **signature(request))
        address = reverse("admin:onbeat_executions_execution_change", args=[notice.execution_id])
        told = 'A test is on its way to {}. <a href="{}" class="underline">See how it goes</a>'
        return format_html(told, receiver.name, address)

    return deeds.at_once(request, address_of(receiver), do)


class ReceiverForm(forms.Form):
    name = forms.CharField(max_length=100, help_text="By which it is called; it cannot be changed later.")
    template = forms.ChoiceField(choices=list(_TEMPLATES.items()))
    url = forms.CharField(
        required=False,
        label="URL",
        widget=forms.PasswordInput(attrs={"autocomplete": "off"}),
        help_text="Kept sealed and shown to nobody. PagerDuty's own, if it is empty there.",
    )
    routing_key = forms.CharField(
        required=False,
        label="Routing key",
        widget=forms.PasswordInput(attrs={"autocomplete": "off"}),
        help_text="Of an Events API v2 integration in PagerDuty. Kept sealed and shown to nobody.",
    )
    secret = forms.ChoiceField(required=False, label="Signed with")
    jobs = WordsField(
        label="Jobs", help_text="Keys with commas between them; billing.* means all that begin so. Empty: all jobs."
    )
    late_after_seconds = forms.IntegerField(
        min_value=1,
        max_value=MOST_LATE_SECONDS,
        label="Late after, in seconds",
        help_text="What has not begun so long after its time is late.",
    )
    most_per_hour = forms.IntegerField(
        min_value=1,
        max_value=MOST_PER_HOUR,
        label="Most in an hour",
        help_text="What is above is counted, and told in the next one.",
    )

    def __init__(self, *args: Any, is_new: bool, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        names = Secret.objects.filter(use=SecretUse.SIGNING).order_by("name").values_list("name", flat=True)
        nothing = "a new key, shown once (Standard), or nothing" if is_new else "nothing"
        field = self.fields["secret"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [("", nothing), *((name, name) for name in names)]
        if not is_new:
            self.fields["name"].disabled = True
            for secret in ("url", "routing_key"):
                self.fields[secret].help_text = "Empty: as it is. Kept sealed and shown to nobody."
        for event in EVENTS:
            self.fields[str(event)] = forms.BooleanField(
                required=False, label=event.in_words.capitalize(), help_text=_EVENTS[event]
            )

    @property
    def of_events(self) -> list[Any]:
        return [self[str(event)] for event in EVENTS]

    def clean(self) -> dict[str, Any]:
        said = super().clean() or self.cleaned_data
        said["events"] = [event for event in map(str, EVENTS) if said.pop(event, False)]
        said["secret"] = said.get("secret") or None
        return said


@sensitive_post_parameters("url", "routing_key")
@needs(Role.ADMIN)
def add(request: HttpRequest) -> HttpResponse:
    def do(said: dict[str, Any]) -> str:
        made = receiver_deeds.create(**said, **signature(request))
        told = "The receiver {} is made. Send it a test to see that it arrives."
        if made.key:
            told += " Its signing key is {} – it is shown only this once, so copy it now."
        return format_html(told, made.receiver.name, made.key)

    deed = Deed(
        title="New receiver of notifications",
        verb="Make the receiver",
        back=crumbs()[0][1],
        do=do,
        form=ReceiverForm,
        form_options={"is_new": True},
        initial={
            "template": Template.STANDARD,
            "late_after_seconds": DEFAULT_LATE_AFTER_SECONDS,
            "most_per_hour": DEFAULT_MOST_PER_HOUR,
            **{str(event): True for event in DEFAULT_EVENTS},
        },
        explains=["It is told what happens from now on, and nothing of what was before."],
        crumbs=crumbs(),
        template="console/notifications/form.html",
        context={"previews": _previews(database_now()), "choices": True},
    )
    return deeds.page(request, deed)


@sensitive_post_parameters("url", "routing_key")
@needs(Role.ADMIN)
def edit(request: HttpRequest, object_id: str) -> HttpResponse:
    receiver = found(object_id)

    def do(said: dict[str, Any]) -> str:
        said.pop("name")
        receiver_deeds.change(receiver.name, **said, **signature(request))
        return f"{receiver} is changed."

    deed = Deed(
        title=f"Change {receiver}",
        verb="Save the changes",
        back=address_of(receiver),
        do=do,
        form=ReceiverForm,
        form_options={"is_new": False},
        initial={
            "name": receiver.name,
            "template": receiver.template,
            "secret": receiver.secret.name if receiver.secret else "",
            "jobs": receiver.jobs,
            "late_after_seconds": receiver.late_after_seconds,
            "most_per_hour": receiver.most_per_hour,
            **dict.fromkeys(receiver.events, True),
        },
        crumbs=crumbs(receiver),
        template="console/notifications/form.html",
        context={"previews": _previews(database_now()), "choices": True},
    )
    return deeds.page(request, deed)


@needs(Role.ADMIN)
def remove(request: HttpRequest, object_id: str) -> HttpResponse:
    receiver = found(object_id)

    def do(_said: dict[str, Any]) -> str:
        receiver_deeds.remove(receiver.name, **signature(request))
        return f"{receiver} is removed."

    deed = Deed(
        title=f"Remove {receiver}",
        verb="Remove for good",
        back=crumbs()[0][1],
        do=do,
        explains=[
            f"{receiver} is told nothing more. What is on its way to it is cancelled; what was told is forgotten."
        ],
        is_destructive=True,
        crumbs=crumbs(receiver),
    )
    return deeds.page(request, deed)


def _previews(now: datetime) -> list[tuple[str, str, Body]]:
    return [(t, said, letters.example(t, receiver="ops", now=now)) for t, said in _TEMPLATES.items()]
