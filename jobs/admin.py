"""Jobs in the admin: to look at. Definitions change through `jobs/definitions.py`."""

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from executions.admin import ReadOnly
from jobs.http_target import HttpTarget
from jobs.models import Job, JobVersion, Schedule


class ScheduleInline(ReadOnly, admin.StackedInline):
    model = Schedule
    extra = 0  # of a job without one there is nothing to show


class VersionInline(ReadOnly, admin.TabularInline):
    model = JobVersion
    verbose_name_plural = "History"
    fields = ["version", "change", "changed_at", "changed_by", "through", "note"]


@admin.register(Job)
class JobAdmin(ReadOnly, admin.ModelAdmin):
    list_display = ["key", "state", "target", "when", "next_fire_at", "queue", "priority"]
    list_filter = ["state", "queue"]
    search_fields = ["key"]
    ordering = ["key"]
    inlines = [ScheduleInline, VersionInline]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Job]:
        return super().get_queryset(request).select_related("schedule")

    @admin.display(ordering="task")
    def target(self, job: Job) -> str:
        return job.task if not job.http else HttpTarget.stored(job.http).shown

    @admin.display(description="schedule")
    def when(self, job: Job) -> str:
        return job.schedule.in_words if hasattr(job, "schedule") else "only when asked"

    @admin.display(ordering="schedule__next_fire_at")
    def next_fire_at(self, job: Job) -> object:
        return job.schedule.next_fire_at if hasattr(job, "schedule") else None
