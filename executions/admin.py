"""Executions in the admin: to look at. State changes only through `executions/lifecycle/`."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.db.models.functions import Length
from django.http import HttpRequest

from executions.models import Attempt, DeadMessage, Execution


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
    fields = ["number", "outcome", "worker", "started_at", "finished_at", "error", "response"]


@admin.register(Execution)
class ExecutionAdmin(ReadOnly, admin.ModelAdmin):
    list_display = ["fire_time", "job", "state", "attempt", "reason", "worker", "started_at", "finished_at"]
    list_filter = ["state", "trigger", "queue"]
    list_select_related = ["job"]
    ordering = ["-fire_time"]
    show_full_result_count = False
    inlines = [AttemptInline]
    search_fields = ["job__key__startswith"]


@admin.register(DeadMessage)
class DeadMessageAdmin(ReadOnly, admin.ModelAdmin):
    list_display = ["collected_at", "queue", "task", "error", "fingerprint", "handled_at"]
    list_filter = ["queue", ("handled_at", admin.EmptyFieldListFilter)]
    ordering = ["-collected_at"]
    show_full_result_count = False
    search_fields = ["task__startswith", "fingerprint"]
    # Not the body: it may be large, is often no text, and may hold secrets.
    fields = ["queue", "exchange", "routing_key", "task", "properties", "headers", "body_bytes", "error"]
    fields += ["fingerprint", "collected_at", "handled_at", "handled_note"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[DeadMessage]:
        messages: QuerySet[DeadMessage] = super().get_queryset(request)
        return messages.defer("body").annotate(size=Length("body"))

    @admin.display(description="Body, in bytes")
    def body_bytes(self, message: Any) -> int:
        size: int = message.size
        return size
