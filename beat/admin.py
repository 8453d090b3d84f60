from django.contrib import admin

from beat.models import Beat
from executions.admin import ReadOnly


@admin.register(Beat)
class BeatAdmin(ReadOnly, admin.ModelAdmin):
    list_display = [
        *("name", "host", "pid", "version", "started_at", "ticked_at", "shards", "lateness_seconds"),
        *("clock_offset_seconds", "refusal", "is_broker_away", "is_redis_away"),
    ]
    ordering = ["-ticked_at"]
