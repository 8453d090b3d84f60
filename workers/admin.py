from django.contrib import admin

from executions.admin import ReadOnly
from workers.models import Worker


@admin.register(Worker)
class WorkerAdmin(ReadOnly, admin.ModelAdmin):
    list_display = ["name", "host", "pool", "concurrency", "queues", "version", "runs", "started_at", "heartbeat_at"]
    ordering = ["-heartbeat_at"]

    @admin.display(description="running now")
    def runs(self, worker: Worker) -> int:
        return len(worker.running)
