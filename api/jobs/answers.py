"""Jobs as the API answers them.

Owns the form of the answer. Invariant: many jobs are read in as many statements as one.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.db.models import OuterRef, Subquery
from rest_framework import serializers
from rest_framework.response import Response

from api.jobs import warnings
from api.jobs.bodies import JobBody, written
from executions.clock import database_now
from executions.models import Execution
from jobs.models import Job, JobState


def answered(jobs: Sequence[Job], *, now: datetime | None = None) -> list[dict[str, Any]]:
    """With their schedules loaded (`select_related`) or none."""
    last = _last_executions(jobs, now=now or database_now())
    return [_answer(job, last.get(job.pk), said) for job, said in zip(jobs, warnings.of_jobs(jobs), strict=True)]


def job_answer(job: Job, *, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """One job as it is now, with its version to name in If-Match."""
    body = answered([Job.objects.select_related("schedule").get(pk=job.pk)])[0]
    return Response(body, status=status, headers={"ETag": f'"{body["version"]}"', **(headers or {})})


def _answer(job: Job, last: Execution | None, said: list[str]) -> dict[str, Any]:
    schedule = getattr(job, "schedule", None)
    return {
        "id": job.pk,
        **written(job, schedule),
        "state": job.state,
        "managed_by": job.managed_by or None,
        "version": job.version,
        "schedule_in_words": "only when asked" if schedule is None else schedule.in_words,
        "next_fire_at": schedule.next_fire_at if schedule is not None and schedule.is_active else None,
        "pause": _pause(job),
        "last_execution": None if last is None else _brief(last),
        "warnings": said,
        "created_at": job.created_at,
        "changed_at": job.changed_at,
    }


def _pause(job: Job) -> dict[str, Any] | None:
    if job.state != JobState.PAUSED:
        return None
    return {"reason": job.paused_reason, "by": job.paused_by, "until": job.paused_until}


def _brief(execution: Execution) -> dict[str, Any]:
    names = ("id", "state", "trigger", "fire_time", "reason", "started_at", "finished_at")
    return {name: getattr(execution, name) for name in names}


def _last_executions(jobs: Sequence[Job], *, now: datetime) -> dict[int, Execution]:
    """Of each job the latest whose time has come."""
    latest = Execution.objects.filter(job_id=OuterRef("pk"), fire_time__lte=now).order_by("-fire_time").values("pk")[:1]
    ids = Job.objects.filter(pk__in=[job.pk for job in jobs]).values_list(Subquery(latest), flat=True)
    found = Execution.objects.with_ids([pk for pk in ids if pk is not None]).defer(
        "args", "kwargs", "result", "error", "checkpoint", "progress"
    )
    return {execution.job_id: execution for execution in found}


# ── For the documentation ────────────────────────────────────────────────────────────────────────────────────────


class PauseAnswer(serializers.Serializer[Any]):
    reason = serializers.CharField(allow_blank=True)
    by = serializers.CharField(allow_blank=True)
    until = serializers.DateTimeField(allow_null=True)


class BriefExecution(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    state = serializers.CharField()
    trigger = serializers.CharField()
    fire_time = serializers.DateTimeField()
    reason = serializers.CharField(allow_blank=True)
    started_at = serializers.DateTimeField(allow_null=True)
    finished_at = serializers.DateTimeField(allow_null=True)


class JobAnswer(JobBody):
    id = serializers.IntegerField()
    state = serializers.ChoiceField(choices=[state.value for state in JobState])
    managed_by = serializers.CharField(
        allow_null=True, help_text="The file or code that says what it is; whoever changes it elsewhere is overruled."
    )
    version = serializers.IntegerField()
    schedule_in_words = serializers.CharField()
    next_fire_at = serializers.DateTimeField(allow_null=True)
    pause = PauseAnswer(allow_null=True)
    last_execution = BriefExecution(allow_null=True, help_text="The latest whose time has come.")
    warnings = serializers.ListField(child=serializers.CharField(), help_text="Allowed, and probably not meant.")
    created_at = serializers.DateTimeField()
    changed_at = serializers.DateTimeField()


class JobPage(serializers.Serializer[Any]):
    items = JobAnswer(many=True)
    next = serializers.CharField(allow_null=True, help_text="The address of the next page; null: this is the last.")
