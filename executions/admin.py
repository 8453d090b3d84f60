"""Executions in the admin: to look at. State changes only through `executions/lifecycle/`."""

from typing import Any

from django.contrib import admin

from executions.models import Attempt, Execution


class ReadOnly:
    """For pages that show and change nothing."""

    def has_add_permission(self, *_args: Any) -> bool:
        return False

    def has_change_permission(self, *_args: Any) -> bool:
        return False

    def has_delete_permission(self, *_args: Any) -> bool:
        return False


class AttemptInline(ReadOnly, admin.TabularInline):
    model = Attempt
    extra = 0
    fields = ["number", "outcome", "worker", "started_at", "finished_at", "error"]


@admin.register(Execution)
class ExecutionAdmin(ReadOnly, admin.ModelAdmin):
    list_display = ["fire_time", "job", "state", "attempt", "reason", "worker", "started_at", "finished_at"]
    list_filter = ["state", "trigger", "queue"]
    list_select_related = ["job"]
    ordering = ["-fire_time"]
    show_full_result_count = False
    inlines = [AttemptInline]
    search_fields = ["job__key__startswith"]
