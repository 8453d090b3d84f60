from django.contrib import admin

from executions.admin import ReadOnly
from workers.models import Worker


@admin.register(Worker)
class WorkerAdmin(ReadOnly, admin.ModelAdmin):
    list_display = ["name", "host", "pid", "queues", "started_at", "heartbeat_at"]
    ordering = ["-heartbeat_at"]
