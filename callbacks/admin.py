"""Hosts in the admin: to look at."""

from datetime import datetime
from typing import Any

from django.contrib import admin
from django.db.models import Count, DateTimeField, Q, QuerySet, Value
from django.http import HttpRequest

from callbacks.hosts import state_of
from callbacks.models import Host
from executions.admin import ReadOnly
from executions.clock import database_now


@admin.register(Host)
class HostAdmin(ReadOnly, admin.ModelAdmin):
    list_display = ["origin", "state", "failures", "rests_until", "calls_under_way", "last_error", "used_at"]
    search_fields = ["origin"]
    ordering = ["-failures", "origin"]
    show_full_result_count = False

    def get_queryset(self, request: HttpRequest) -> QuerySet[Host]:
        now = Value(database_now(), output_field=DateTimeField())
        hosts: QuerySet[Host] = super().get_queryset(request)
        return hosts.annotate(under_way=Count("calls", filter=Q(calls__until__gt=now)), now=now)

    @admin.display(description="state")
    def state(self, host: Any) -> str:
        now: datetime = host.now
        return state_of(host, now)

    @admin.display(description="calls")
    def calls_under_way(self, host: Any) -> int:
        calls: int = host.under_way
        return calls
