"""The admin site: who may enter, and the pages that belong to no model."""

import math
from http import HTTPStatus
from typing import Any

from django.conf import settings
from django.core.exceptions import NON_FIELD_ERRORS, ValidationError
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from rest_framework.throttling import BaseThrottle
from unfold.forms import AuthenticationForm
from unfold.sites import UnfoldAdminSite

from access import logins
from access.roles import role_of
from executions.clock import database_now

_KNOWN = "onbeat_known"  # the cookie by which a browser is recognised, and not let in
_TOO_MANY = "too_many"


class LoginForm(AuthenticationForm):  # type: ignore[misc]
    """For whoever has a role; Django's own would ask for the mark of the staff as well."""

    error_messages = {
        **AuthenticationForm.error_messages,
        "invalid_login": "Please enter the correct username and password of somebody who has a role here; "
        "both may be case-sensitive.",
    }

    wait_seconds = 0

    def clean(self) -> dict[str, Any]:
        user, password = (self.cleaned_data.get(name) for name in ("username", "password"))
        if not (user and password):
            return dict(super().clean())
        known = self.request.COOKIES.get(_KNOWN, "")
        # The same caller as for the API: behind as many proxies as ONBEAT_API_PROXIES says.
        address = BaseThrottle().get_ident(self.request) or ""
        one = logins.begin(user, address, known=known, now=database_now())
        if isinstance(one, logins.Refused):
            self.wait_seconds = max(1, math.ceil(one.wait_seconds))
            raise ValidationError(
                f"Too many tries to log in. The next one is taken in {self.wait_seconds} s; until then none is looked "
                "at, be the password right or wrong.",
                code=_TOO_MANY,
            )
        cleaned = dict(super().clean())
        logins.succeeded(one)
        return cleaned

    def confirm_login_allowed(self, user: Any) -> None:
        if role_of(user) is None:
            super().confirm_login_allowed(user)


class Room(UnfoldAdminSite):  # type: ignore[misc]
    index_title = "Dashboard"
    login_form = LoginForm

    def has_permission(self, request: HttpRequest) -> bool:
        from console.people import role

        return super().has_permission(request) or role(request) is not None

    def login(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        response: HttpResponse = super().login(request, extra_context)
        if request.method != "POST":
            return response
        form = (getattr(response, "context_data", None) or {}).get("form")
        if form is None:
            _remember(response, request.user.get_username())
        elif form.has_error(NON_FIELD_ERRORS, _TOO_MANY):
            response.status_code = HTTPStatus.TOO_MANY_REQUESTS
            response.headers["Retry-After"] = str(form.wait_seconds)
        return response

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


def _remember(response: HttpResponse, user: str) -> None:
    """That this person logged in with this browser."""
    response.set_cookie(
        _KNOWN,
        logins.recognition(user),
        max_age=logins.KNOWN_FOR,
        path=reverse("admin:login"),
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Strict",
    )
