"""Workers and beats: who is there, and how each is."""

from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from access.roles import Role
from api.schema import documented
from api.views import ApiView
from beat.models import Beat
from executions.clock import database_now
from workers.models import Worker

TAG = "Operations"


class WorkerAnswer(serializers.Serializer[Any]):
    name = serializers.CharField()
    host = serializers.CharField()
    pid = serializers.IntegerField()
    pool = serializers.CharField(allow_blank=True)
    concurrency = serializers.IntegerField()
    queues = serializers.ListField(child=serializers.CharField(), help_text="As the broker names them.")
    tasks = serializers.ListField(child=serializers.CharField(), help_text="Those it knows.")
    version = serializers.CharField(allow_blank=True)
    running = serializers.ListField(child=serializers.CharField(), help_text="Executions.")
    started_at = serializers.DateTimeField()
    heartbeat_at = serializers.DateTimeField()
    is_alive = serializers.BooleanField(help_text="Its last heartbeat is recent.")


class WorkersAnswer(serializers.Serializer[Any]):
    workers = WorkerAnswer(many=True)


class BeatAnswer(serializers.Serializer[Any]):
    name = serializers.CharField()
    host = serializers.CharField()
    pid = serializers.IntegerField()
    version = serializers.CharField(allow_blank=True)
    started_at = serializers.DateTimeField()
    ticked_at = serializers.DateTimeField(allow_null=True)
    seen_at = serializers.DateTimeField(allow_null=True)
    shards = serializers.IntegerField(help_text="Of 64.")
    lateness_seconds = serializers.FloatField(allow_null=True)
    clock_offset_seconds = serializers.FloatField(allow_null=True)
    trouble = serializers.CharField(allow_blank=True, help_text="What is amiss, as far as it says so itself.")
    is_ticking = serializers.BooleanField(help_text="Its last tick is recent.")


class BeatsAnswer(serializers.Serializer[Any]):
    beats = BeatAnswer(many=True)


class WorkersView(ApiView):
    needs = {"GET": Role.VIEWER}

    @documented("workers_list", "Workers, with what each runs now", tag=TAG, answers={200: WorkersAnswer})
    def get(self, _request: Request) -> Response:
        return Response({"workers": workers_listed(now=database_now())})


class BeatsView(ApiView):
    needs = {"GET": Role.VIEWER}

    @documented("beats_list", "Beats, with how late each is", tag=TAG, answers={200: BeatsAnswer})
    def get(self, _request: Request) -> Response:
        return Response({"beats": beats_listed(now=database_now())})


def workers_listed(*, now: datetime) -> list[dict[str, Any]]:
    """All that are known, by name."""
    alive = {worker.name for worker in alive_workers(now=now)}
    names = [name for name in map(str, WorkerAnswer().fields) if name != "is_alive"]
    rows = Worker.objects.order_by("name")
    return [{**{n: getattr(row, n) for n in names}, "is_alive": row.name in alive} for row in rows]


def beats_listed(*, now: datetime) -> list[dict[str, Any]]:
    """All that are known, by name."""
    within = timedelta(seconds=settings.ONBEAT_BEAT_SILENT_AFTER_SECONDS)
    ticking = set(Beat.objects.ticking(now, within=within).values_list("name", flat=True))
    names = [name for name in map(str, BeatAnswer().fields) if name != "is_ticking"]
    rows = Beat.objects.order_by("name")
    return [{**{n: getattr(row, n) for n in names}, "is_ticking": row.name in ticking} for row in rows]


def alive_workers(*, now: datetime) -> list[Worker]:
    patience = timedelta(seconds=settings.ONBEAT_WORKERS_LOST_AFTER_SECONDS)
    return list(Worker.objects.alive_since(now - patience).order_by("name"))
