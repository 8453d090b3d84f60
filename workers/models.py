"""The registry of workers: who takes work, from which queues, and when each last gave a sign of life."""

from datetime import datetime

from django.db import models


class WorkerQuerySet(models.QuerySet["Worker"]):
    def alive_since(self, moment: datetime) -> "WorkerQuerySet":
        return self.filter(heartbeat_at__gte=moment)


class Worker(models.Model):
    name = models.CharField(max_length=255, primary_key=True, help_text="Celery's node name.")
    host = models.CharField(max_length=255)
    pid = models.PositiveIntegerField()
    pool = models.CharField(max_length=255, blank=True)
    concurrency = models.PositiveIntegerField(default=0)
    queues = models.JSONField(default=list)
    tasks = models.JSONField(default=list, help_text="The tasks it knows, without Celery's own.")
    version = models.CharField(max_length=64, blank=True)
    running = models.JSONField(default=list, help_text="The executions it runs now.")
    started_at = models.DateTimeField()
    heartbeat_at = models.DateTimeField()

    objects = WorkerQuerySet.as_manager()

    class Meta:
        db_table = "onbeat_worker"

    def __str__(self) -> str:
        return self.name
