"""The dashboard: the whole page, and its living part alone for the script that refreshes it."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.response import TemplateResponse
from django.views.decorators.http import require_safe

from access.roles import Role
from console.dashboard.charts import STACK
from console.dashboard.figures import figures
from console.people import may, needs
from executions.clock import database_now

_EVERY_SECONDS = 10


def dashboard(request: HttpRequest, extra_context: dict[str, Any] | None = None) -> TemplateResponse:
    """Also for those without a role, who are told so."""
    context = {**admin.site.each_context(request), "title": "Dashboard", **(extra_context or {})}
    if may(request, Role.VIEWER):
        context |= _living() | {"every": _EVERY_SECONDS}
    return TemplateResponse(request, "console/dashboard/page.html", context)


@require_safe
@needs(Role.VIEWER)
def living(request: HttpRequest) -> HttpResponse:
    return render(request, "console/dashboard/living.html", _living())


def _living() -> dict[str, Any]:
    now = database_now()
    return {"seen": figures(now), "now": now, "now_iso": now.isoformat(), "stack": STACK}
