"""Executions, as the admin's site knows them: each address leads to a view of this package."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.urls import URLPattern, path
from unfold.admin import ModelAdmin

from console.executions import actions, listing, page
from console.people import ByRole
from executions.models import Execution


@admin.register(Execution)
class ExecutionAdmin(ByRole, ModelAdmin):  # type: ignore[misc]
    def get_urls(self) -> list[URLPattern]:
        views = {"cancel": actions.cancel, "retry": actions.retry, "replay": actions.replay}
        name = "onbeat_executions_execution"
        ours = [path("act/", self.admin_site.admin_view(actions.act), name=f"{name}_act")]
        ours += [
            path(f"<object_id>/{address}/", self.admin_site.admin_view(view), name=f"{name}_{address}")
            for address, view in views.items()
        ]
        return ours + super().get_urls()  # type: ignore[no-any-return]

    def changelist_view(self, request: HttpRequest, **_more: Any) -> HttpResponseBase:
        return listing.executions(request)

    def change_view(self, request: HttpRequest, object_id: str, **_more: Any) -> HttpResponseBase:
        return page.execution(request, object_id)

    def history_view(self, _request: HttpRequest, object_id: str, **_more: Any) -> HttpResponseBase:
        return HttpResponseRedirect(page.address_of(page.found(object_id).pk))
