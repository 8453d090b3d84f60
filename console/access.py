"""API keys, the audit trail, users and groups in the admin.

Keys are made and revoked through `access/api_keys.py`. Invariant: a secret is shown in the message that follows its
making, and stands on no page, in no row and in no entry of the admin's own log.
"""

from typing import Any

from django import forms
from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin as DjangoGroupAdmin
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.models import Group, User
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.admin import ModelAdmin
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm
from unfold.paginator import InfinitePaginator

from access import api_keys
from access.models import ApiKey, AuditEntry
from access.roles import Role, highest
from console import deeds
from console.columns import Now, when
from console.deeds import Deed
from console.fields import MomentField, ZonedForm
from console.people import ByRole, may, signature
from console.templatetags.onbeat import as_json, pill
from executions.clock import database_now
from executions.words import count

_LATEST_ENTRIES = 10_000


class NewKeyForm(ZonedForm):
    name = forms.CharField(max_length=100, help_text="What the key is for, for people.")
    role = forms.ChoiceField(choices=[(role.value, f"{role.value.capitalize()}: {role.may}") for role in Role])
    expires_at = MomentField(
        required=False, label="Expires at", help_text="Not valid from this moment on; empty: no end."
    )


@admin.register(ApiKey)
class ApiKeyAdmin(ByRole, Now, ModelAdmin):  # type: ignore[misc]
    seen_by = Role.ADMIN
    list_display = ["name", "prefix", "role", "state", "created", "expires", "last_used"]
    list_filter = ["role", ("revoked_at", admin.EmptyFieldListFilter)]
    search_fields = ["name", "prefix__startswith"]
    ordering = ["-created_at"]
    actions = ["revoke"]
    created, expires = when("created_at", "made"), when("expires_at", "expires")
    last_used, revoked = when("last_used_at", "last used"), when("revoked_at", "revoked")
    # Not the digest: nobody has a use for it.
    fields = ["name", "prefix", "role", "state", "created", "created_by", "expires"]
    fields += ["revoked", "revoked_by", "last_used"]

    def has_add_permission(self, request: HttpRequest, _obj: Any = None) -> bool:
        return may(request, Role.ADMIN)

    def has_revoke_permission(self, request: HttpRequest) -> bool:
        return may(request, Role.ADMIN)

    @admin.display
    def state(self, key: Any) -> SafeString:
        return pill(key.state(key.looked_at))

    def add_view(self, request: HttpRequest, **_more: Any) -> HttpResponse:
        if not self.has_add_permission(request):
            raise deeds.NotAllowed

        def do(said: dict[str, Any]) -> str:
            made = api_keys.make(**said, **signature(request), now=database_now())
            told = "The API key {} is made. Its secret is {} – it is shown only this once, so copy it now."
            return format_html(told, made.key.name, made.secret)

        back = reverse("admin:onbeat_access_apikey_changelist")
        deed = Deed(
            title="New API key",
            verb="Make the key",
            back=back,
            do=do,
            form=NewKeyForm,
            explains=["An app that sends the key may do what its role may. The secret is shown once, after this."],
            crumbs=[("API keys", back)],
        )
        return deeds.page(request, deed)

    @admin.action(description="Revoke selected keys", permissions=["revoke"])
    def revoke(self, request: HttpRequest, keys: QuerySet[ApiKey]) -> HttpResponse:
        chosen = list(keys)

        def do(_said: dict[str, Any]) -> str:
            now = database_now()
            named = [api_keys.revoke(key.prefix, **signature(request), now=now) for key in chosen]
            return f"Revoked: {', '.join(map(str, named))}."

        back = reverse("admin:onbeat_access_apikey_changelist")
        deed = Deed(
            title=f"Revoke {count(len(chosen), 'API key')}",
            verb="Revoke for good",
            back=back,
            do=do,
            explains=[f"{key} is refused from now on, wherever it is used." for key in chosen],
            is_destructive=True,
            crumbs=[("API keys", back)],
            hidden=[("action", "revoke"), *(("_selected_action", str(key.pk)) for key in chosen)],
        )
        return deeds.page(request, deed)


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
class AuditEntryAdmin(ByRole, ModelAdmin):  # type: ignore[misc]
    seen_by = Role.ADMIN
    list_display = ["moment", "who", "through", "action", "subject", "note"]
    list_filter = ["through", ActionFilter, "at"]
    search_fields = ["subject__startswith"]
    search_help_text = "The beginning of a subject, such as job:daily."
    ordering = ["-at", "-pk"]
    sortable_by = ["moment"]
    show_full_result_count = False
    paginator = InfinitePaginator
    moment = when("at", "at")
    fields = ["moment", "who", "through", "action", "subject", "note", "as_it_was", "as_it_is"]

    @admin.display(description="before")
    def as_it_was(self, entry: AuditEntry) -> SafeString:
        return format_html('<pre class="ob-code">{}</pre>', as_json(entry.before))

    @admin.display(description="after")
    def as_it_is(self, entry: AuditEntry) -> SafeString:
        return format_html('<pre class="ob-code">{}</pre>', as_json(entry.after))


# ── Users and groups: for those whom Django's own permissions let ────────────────────────────────────────────────

admin.site.unregister(User)
admin.site.unregister(Group)


@admin.register(User)
class UserAdmin(DjangoUserAdmin, ModelAdmin):  # type: ignore[misc]
    form = UserChangeForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm
    # Not the mark of the staff: a role is enough to enter.
    list_display = ["username", "email", "role", "is_active", "signed_in"]
    list_filter = ["groups", "is_active", "is_superuser"]
    signed_in = when("last_login", "signed in")

    def get_queryset(self, request: HttpRequest) -> QuerySet[User]:
        users: QuerySet[User] = super().get_queryset(request)
        return users.prefetch_related("groups")

    @admin.display(empty_value="none")
    def role(self, user: User) -> str | None:
        return Role.ADMIN if user.is_superuser else highest(group.name for group in user.groups.all())


@admin.register(Group)
class GroupAdmin(DjangoGroupAdmin, ModelAdmin):  # type: ignore[misc]
    """A person has the role whose group they are in, so these groups keep their names and stay."""

    def has_delete_permission(self, request: HttpRequest, obj: Group | None = None) -> bool:
        return bool(super().has_delete_permission(request, obj)) and not _gives_a_role(obj)

    def get_readonly_fields(self, request: HttpRequest, obj: Group | None = None) -> Any:
        return ["name"] if _gives_a_role(obj) else super().get_readonly_fields(request, obj)


def _gives_a_role(group: Group | None) -> bool:
    return group is not None and group.name in {role.group for role in Role}
