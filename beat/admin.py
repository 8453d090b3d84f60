from django.contrib import admin

from beat import shards
from beat.models import Beat
from executions.admin import ReadOnly


@admin.register(Beat)
class BeatAdmin(ReadOnly, admin.ModelAdmin):
    list_display = ["name", "host", "pid", "version", "started_at", "ticked_at", "share", "late_by", "trouble"]
    ordering = ["-ticked_at"]

    @admin.display(description="shards", ordering="shards")
    def share(self, beat: Beat) -> str:
        return f"{beat.shards} of {shards.COUNT}"

    @admin.display(description="late by", ordering="lateness_seconds", empty_value="nothing published yet")
    def late_by(self, beat: Beat) -> str | None:
        return beat.lateness_in_words

    @admin.display(empty_value="none")
    def trouble(self, beat: Beat) -> str:
        return beat.trouble
