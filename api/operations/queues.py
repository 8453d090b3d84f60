"""Queues: how much waits in each, since when, and who takes it."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from access.roles import Role
from api.operations.workers import TAG, alive_workers
from api.schema import documented
from api.views import ApiView
from executions import backlog, depths, queues
from executions.backlog import Backlog
from executions.clock import database_now
from jobs.models import Job
from workers.models import Worker

_MOST_QUEUES = 200


class QueueAnswer(serializers.Serializer[Any]):
    name = serializers.CharField(help_text="As jobs name it.")
    broker_name = serializers.CharField(help_text="As the broker names it.")
    depth = serializers.IntegerField(allow_null=True, help_text="Messages on the broker; null: it does not answer.")
    due = serializers.IntegerField(help_text="Executions that are to be published.")
    queued = serializers.IntegerField(help_text="Executions that are published and taken by no worker yet.")
    running = serializers.IntegerField()
    oldest_age_seconds = serializers.FloatField(allow_null=True, help_text="For how long the oldest of them waits.")
    workers = serializers.ListField(child=serializers.CharField(), help_text="Those alive that consume it.")


class QueuesAnswer(serializers.Serializer[Any]):
    queues = QueueAnswer(many=True)


class QueuesView(ApiView):
    needs = {"GET": Role.VIEWER}

    @documented("queues_list", "Queues with their depth, oldest age and workers", tag=TAG, answers={200: QueuesAnswer})
    def get(self, _request: Request) -> Response:
        return Response({"queues": queues_listed(now=database_now())})


def queues_listed(*, now: datetime) -> list[dict[str, Any]]:
    """Those that jobs name, that something waits in, or that a worker consumes; by name."""
    waiting = backlog.by_queue(now=now)
    workers = alive_workers(now=now)
    consumed = {queues.job_queue_name(name) for worker in workers for name in worker.queues}
    of_jobs = Job.objects.open().order_by().values_list("queue", flat=True).distinct()
    names = sorted({*waiting, *of_jobs, *filter(None, consumed)})[:_MOST_QUEUES]
    ready = depths.ready(names)
    return [_answer(n, waiting.get(n, Backlog()), ready.get(n), workers, now) for n in names]


def _answer(name: str, waiting: Backlog, depth: int | None, workers: Sequence[Worker], now: datetime) -> dict[str, Any]:
    broker_name = queues.work_queue(name).name
    return {
        "name": name,
        "broker_name": broker_name,
        "depth": depth,
        "due": waiting.due,
        "queued": waiting.queued,
        "running": waiting.running,
        "oldest_age_seconds": waiting.oldest_seconds(now),
        "workers": [worker.name for worker in workers if broker_name in worker.queues],
    }
