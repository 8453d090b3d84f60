"""The admin site: who may enter, and the pages that belong to no model."""

from typing import Any

from django.http import HttpRequest
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from unfold.forms import AuthenticationForm
from unfold.sites import UnfoldAdminSite

from access.roles import role_of


class LoginForm(AuthenticationForm):  # type: ignore[misc]
    """For whoever has a role; Django's own would ask for the mark of the staff as well."""

    error_messages = {
        **AuthenticationForm.error_messages,
        "invalid_login": "Please enter the correct username and password of somebody who has a role here; "
        "both may be case-sensitive.",
    }

    def confirm_login_allowed(self, user: Any) -> None:
        if role_of(user) is None:
            super().confirm_login_allowed(user)


class Room(UnfoldAdminSite):  # type: ignore[misc]
    index_title = "Dashboard"
    login_form = LoginForm

    def has_permission(self, request: HttpRequest) -> bool:
        from console.people import role

        return super().has_permission(request) or role(request) is not None

    def each_context(self, request: HttpRequest) -> dict[str, Any]:
        from console.glance import for_every_page

        context: dict[str, Any] = super().each_context(request)
        if self.has_permission(request):
            context |= for_every_page(request)
        return context

    def extra_urls(self) -> list[URLPattern]:
        from console.addresses import PAGES

        return [path(page.address, self.admin_view(page.view), name=page.name) for page in PAGES]

    def index(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> TemplateResponse:
        from console.dashboard.page import dashboard

        return dashboard(request, extra_context)
