"""Jobs, as the admin's site knows them: each address leads to a view of this package."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.urls import URLPattern, path
from unfold.admin import ModelAdmin

from access.roles import Role
from console.jobs import actions, editing, listing, page
from console.people import ByRole, may
from jobs.models import Job


@admin.register(Job)
class JobAdmin(ByRole, ModelAdmin):  # type: ignore[misc]
    def has_add_permission(self, request: HttpRequest, _obj: Any = None) -> bool:
        return may(request, Role.EDITOR)

    def get_urls(self) -> list[URLPattern]:
        views = {
            "run-now": ("run_now", actions.run_now),
            "run": ("run", actions.run),
            "pause": ("pause", actions.pause),
            "resume": ("resume", actions.resume),
            "archive": ("archive", actions.archive),
            "backfill": ("backfill", actions.backfill),
            "edit": ("edit", editing.change),
            "versions": ("versions", page.versions),
        }
        ours = [
            path(f"<object_id>/{address}/", self.admin_site.admin_view(view), name=f"onbeat_jobs_job_{name}")
            for address, (name, view) in views.items()
        ]
        return ours + super().get_urls()  # type: ignore[no-any-return]

    def changelist_view(self, request: HttpRequest, **_more: Any) -> HttpResponseBase:
        return listing.jobs(request)

    def add_view(self, request: HttpRequest, **_more: Any) -> HttpResponseBase:
        return editing.add(request)

    def change_view(self, request: HttpRequest, object_id: str, **_more: Any) -> HttpResponseBase:
        return page.job(request, object_id)

    def history_view(self, _request: HttpRequest, object_id: str, **_more: Any) -> HttpResponseBase:
        return HttpResponseRedirect(page.address_of(page.found(object_id)))
