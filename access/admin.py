"""API keys and the audit trail in the admin, for people whose role is admin.

Keys are made and revoked through `access/api_keys.py`. Invariant: a secret is shown in the message that follows its
making, and stands on no page, in no row and in no entry of the admin's own log.
"""

from datetime import datetime
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import DateTimeField, QuerySet, Value
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html

from access import api_keys
from access.models import ApiKey, AuditEntry
from access.roles import Role, role_of
from executions.admin import ReadOnly
from executions.clock import database_now

_LATEST_ENTRIES = 10_000


class ForAdmins:
    """For pages that only the role admin may see."""

    def has_module_permission(self, request: HttpRequest) -> bool:
        return role_of(request.user) is Role.ADMIN

    def has_view_permission(self, request: HttpRequest, _obj: Any = None) -> bool:
        return role_of(request.user) is Role.ADMIN


class NewKeyForm(forms.ModelForm):
    class Meta:
        model = ApiKey
        fields = ["name", "role", "expires_at"]

    now: datetime

    def clean(self) -> dict[str, Any]:
        said = super().clean() or {}
        self.now = database_now()
        if not self.errors:
            try:
                api_keys.check(**said, now=self.now)
            except api_keys.InvalidKey as refused:
                self.add_error(refused.field, str(refused))
        return said


@admin.register(ApiKey)
class ApiKeyAdmin(ForAdmins, ReadOnly, admin.ModelAdmin):
    list_display = ["name", "prefix", "role", "state", "created_at", "expires_at", "last_used_at"]
    list_filter = ["role", ("revoked_at", admin.EmptyFieldListFilter)]
    search_fields = ["name", "prefix__startswith"]
    ordering = ["-created_at"]
    actions = ["revoke"]
    form = NewKeyForm
    # Not the digest: nobody has a use for it.
    fields = ["name", "prefix", "role", "state", "created_at", "created_by", "expires_at"]
    fields += ["revoked_at", "revoked_by", "last_used_at"]

    def has_add_permission(self, request: HttpRequest) -> bool:
        return role_of(request.user) is Role.ADMIN

    def has_revoke_permission(self, request: HttpRequest) -> bool:
        return role_of(request.user) is Role.ADMIN

    def get_queryset(self, request: HttpRequest) -> QuerySet[ApiKey]:
        keys: QuerySet[ApiKey] = super().get_queryset(request)
        return keys.annotate(seen_at=Value(database_now(), output_field=DateTimeField()))

    @admin.display
    def state(self, key: Any) -> str:
        return str(key.state(key.seen_at))

    # ── Make ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def get_fields(self, request: HttpRequest, obj: ApiKey | None = None) -> Any:
        return super().get_fields(request, obj) if obj else NewKeyForm.Meta.fields

    def add_view(self, request: HttpRequest, form_url: str = "", extra_context: Any = None) -> HttpResponse:
        one_at_a_time = {"show_save_and_add_another": False, "show_save_and_continue": False}
        return super().add_view(request, form_url, {**(extra_context or {}), **one_at_a_time})

    def save_model(self, request: HttpRequest, obj: ApiKey, form: Any, _change: bool) -> None:
        made = api_keys.make(**form.cleaned_data, by=_name_of(request), through="admin", now=form.now)
        obj.pk, obj.prefix = made.key.pk, made.key.prefix
        told = "The API key {} is made. Its secret is {} – it is shown only this once, so copy it now."
        self.message_user(request, format_html(told, obj.name, made.secret), messages.SUCCESS)

    def response_add(self, request: HttpRequest, obj: ApiKey, _post_url_continue: str | None = None) -> HttpResponse:
        return self.response_post_save_add(request, obj)  # the message is there already

    # ── Revoke ───────────────────────────────────────────────────────────────────────────────────────────────────

    @admin.action(description="Revoke selected keys", permissions=["revoke"])
    def revoke(self, request: HttpRequest, keys: QuerySet[ApiKey]) -> None:
        now = database_now()
        named = [api_keys.revoke(key.prefix, by=_name_of(request), through="admin", now=now) for key in keys]
        self.message_user(request, f"Revoked: {', '.join(map(str, named))}.", messages.SUCCESS)


def _name_of(request: HttpRequest) -> str:
    return request.user.get_username()


class ActionFilter(admin.SimpleListFilter):
    """By what was done. The choice is what was done lately: looking for all there ever was would read every row."""

    title = "action"
    parameter_name = "action"

    def lookups(self, _request: HttpRequest, _model_admin: Any) -> list[tuple[str, str]]:
        latest = AuditEntry.objects.order_by("-pk").values("pk")[:_LATEST_ENTRIES]
        actions = AuditEntry.objects.filter(pk__in=latest).values_list("action", flat=True).distinct()
        return [(action, action) for action in sorted(actions)]

    def queryset(self, _request: HttpRequest, entries: QuerySet[AuditEntry]) -> QuerySet[AuditEntry]:
        return entries.filter(action=self.value()) if self.value() else entries


@admin.register(AuditEntry)
class AuditEntryAdmin(ForAdmins, ReadOnly, admin.ModelAdmin):
    list_display = ["at", "who", "through", "action", "subject", "note"]
    list_filter = ["through", ActionFilter, "at"]
    search_fields = ["subject__startswith"]
    search_help_text = "The beginning of a subject, such as job:daily."
    ordering = ["-at", "-pk"]
    sortable_by = ["at"]
    show_full_result_count = False
