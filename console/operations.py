"""Beats, workers, hosts of callbacks and dead messages in the admin: to look at."""

from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote as urlquote

from django.conf import settings
from django.contrib import admin
from django.db.models import Count, DateTimeField, Q, QuerySet, Value
from django.db.models.functions import Length
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django_celery_results.models import GroupResult, TaskResult
from unfold.admin import ModelAdmin
from unfold.paginator import InfinitePaginator

from beat import shards
from beat.models import Beat
from callbacks.hosts import state_of
from callbacks.models import Host
from console.columns import Now, when
from console.glance import flower_url
from console.people import ByRole
from console.templatetags.onbeat import pill
from executions.clock import database_now
from executions.models import DeadMessage
from executions.words import duration
from workers.models import Worker

admin.site.unregister(TaskResult)
admin.site.unregister(GroupResult)


def _state_of_beat(beat: Any, now: datetime) -> str:
    within = timedelta(seconds=settings.ONBEAT_BEAT_SILENT_AFTER_SECONDS)
    if beat.refusal and beat.seen_at is not None and abs(now - beat.seen_at) < within:
        return "refusing"
    return "ticking" if beat.ticked_at is not None and abs(now - beat.ticked_at) < within else "silent"


@admin.register(Beat)
class BeatAdmin(ByRole, Now, ModelAdmin):  # type: ignore[misc]
    list_display = ["name", "state", "ticked", "share", "late_by", "trouble", "version", "host", "pid", "started"]
    ordering = ["-ticked_at"]
    ticked, started = when("ticked_at", "last tick"), when("started_at", "started")
    fields = ["name", "state", "host", "pid", "version", "started", "ticked", "share", "late_by", "clock", "trouble"]

    @admin.display(description="state")
    def state(self, beat: Any) -> SafeString:
        return pill(_state_of_beat(beat, beat.looked_at))

    @admin.display(description="shards", ordering="shards")
    def share(self, beat: Beat) -> str:
        return f"{beat.shards} of {shards.COUNT}"

    @admin.display(description="late by", ordering="lateness_seconds", empty_value="nothing published yet")
    def late_by(self, beat: Beat) -> str | None:
        return beat.lateness_in_words

    @admin.display(empty_value="not known yet")
    def clock(self, beat: Beat) -> str | None:
        ahead = beat.clock_offset_seconds
        return (
            None if ahead is None else f"{duration(abs(ahead))} {'ahead of' if ahead >= 0 else 'behind'} the database's"
        )

    @admin.display(empty_value="none")
    def trouble(self, beat: Beat) -> str:
        return beat.trouble


@admin.register(Worker)
class WorkerAdmin(ByRole, Now, ModelAdmin):  # type: ignore[misc]
    list_display = ["name", "state", "heartbeat", "runs", "consumes", "size", "version", "started"]
    ordering = ["-heartbeat_at"]
    heartbeat, started = when("heartbeat_at", "last heartbeat"), when("started_at", "started")
    fields = ["name", "host", "pid", "size", "consumes", "version", "runs", "knows", "in_flower"]
    fields += ["started", "heartbeat"]

    @admin.display(description="state")
    def state(self, worker: Any) -> SafeString:
        patience = timedelta(seconds=settings.ONBEAT_WORKERS_LOST_AFTER_SECONDS)
        return pill("alive" if worker.heartbeat_at >= worker.looked_at - patience else "silent")

    @admin.display(description="pool")
    def size(self, worker: Worker) -> str:
        return f"{worker.pool}\N{NO-BREAK SPACE}×\N{NO-BREAK SPACE}{worker.concurrency}"

    @admin.display(description="queues")
    def consumes(self, worker: Worker) -> SafeString:
        tags = format_html_join(" ", '<span class="ob-tag">{}</span>', ((name,) for name in worker.queues))
        return format_html("<span>{}</span>", tags)  # one part: unfold sets the parts of a cell side by side

    @admin.display(description="running now")
    def runs(self, worker: Worker) -> SafeString | str:
        if not worker.running:
            return "nothing"
        name = "admin:onbeat_executions_execution_change"
        links = ((reverse(name, args=[pk]), str(pk)[-12:]) for pk in worker.running[:20])
        return format_html("<span>{}</span>", format_html_join(", ", '<a class="ob-mono" href="{}">{}</a>', links))

    @admin.display(description="tasks it knows")
    def knows(self, worker: Worker) -> str:
        return ", ".join(worker.tasks)

    @admin.display(description="in Flower", empty_value="ONBEAT_CONSOLE_FLOWER_URL is not set")
    def in_flower(self, worker: Worker) -> SafeString | None:
        return (
            format_html('<a href="{}/worker/{}">{}</a>', flower_url(), urlquote(worker.name, safe=""), worker.name)
            if flower_url()
            else None
        )


@admin.register(Host)
class HostAdmin(ByRole, Now, ModelAdmin):  # type: ignore[misc]
    list_display = ["origin", "state", "failures", "rests", "calls_under_way", "last_error", "used"]
    search_fields = ["origin"]
    ordering = ["-failures", "origin"]
    show_full_result_count = False
    paginator = InfinitePaginator
    rests, used = when("rests_until", "rests until"), when("used_at", "last used")
    fields = ["origin", "state", "failures", "rests", "calls_under_way", "last_error", "used"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Host]:
        hosts: QuerySet[Host] = super().get_queryset(request)
        now = Value(database_now(), output_field=DateTimeField())
        return hosts.annotate(under_way=Count("calls", filter=Q(calls__until__gt=now)))

    @admin.display(description="state")
    def state(self, host: Any) -> SafeString:
        return pill(state_of(host, host.looked_at))

    @admin.display(description="calls")
    def calls_under_way(self, host: Any) -> int:
        calls: int = host.under_way
        return calls


@admin.register(DeadMessage)
class DeadMessageAdmin(ByRole, ModelAdmin):  # type: ignore[misc]
    list_display = ["collected", "queue", "task", "error", "fingerprint", "handled"]
    list_filter = [("handled_at", admin.EmptyFieldListFilter)]
    ordering = ["-collected_at"]
    show_full_result_count = False
    paginator = InfinitePaginator
    search_fields = ["task__startswith", "fingerprint", "queue__startswith"]
    collected, handled = when("collected_at", "collected"), when("handled_at", "handled")
    # Not the body: it may be large, is often no text, and may hold secrets.
    fields = ["queue", "exchange", "routing_key", "task", "properties", "headers", "body_bytes", "error"]
    fields += ["fingerprint", "collected", "handled", "handled_note"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[DeadMessage]:
        messages: QuerySet[DeadMessage] = super().get_queryset(request)
        return messages.defer("body").annotate(size=Length("body"))

    @admin.display(description="Body, in bytes")
    def body_bytes(self, message: Any) -> int:
        size: int = message.size
        return size


@admin.register(TaskResult)
class TaskResultAdmin(ByRole, ModelAdmin):  # type: ignore[misc]
    """What plain tasks and jobs with `keep_result` left for Celery's AsyncResult."""

    list_display = ["task_id", "task_name", "status", "worker", "done"]
    search_fields = ["task_id__startswith"]
    ordering = ["-date_done"]
    show_full_result_count = False
    paginator = InfinitePaginator
    done = when("date_done", "done")
