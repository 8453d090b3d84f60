"""What runs, and when it should: Job and its Schedule.

Owns the shape of definitions. A Schedule is a narrow hot row apart from its job, since the beat updates only that.
Definitions are changed by `jobs/definitions.py`, `next_fire_at` and `version` also by the beat's plan step.
"""

from datetime import datetime
from enum import StrEnum
from zlib import crc32

from django.core.serializers.json import DjangoJSONEncoder
from django.db import models
from django.db.models import Q

from executions.identity import new_execution_id
from executions.models import DEFAULT_PRIORITY, DEFAULT_QUEUE, MAX_PRIORITY, Execution
from executions.retry import DEFAULT_MAX_ATTEMPTS, DEFAULT_MAX_LOST
from executions.states import Trigger
from jobs.recurrence import Cron, Every, Once, Recurrence

SHARDS = 64


class JobState(StrEnum):
    ACTIVE = "ACTIVE"
    PAUSED = "PAUSED"
    COMPLETED = "COMPLETED"
    ARCHIVED = "ARCHIVED"


OPEN_STATES = (JobState.ACTIVE, JobState.PAUSED)


class Kind(StrEnum):
    CRON = "CRON"
    EVERY = "EVERY"
    ONCE = "ONCE"


class Job(models.Model):
    key = models.CharField(max_length=200)
    state = models.CharField(
        max_length=16, choices=[(s.value, s.value.capitalize()) for s in JobState], default=JobState.ACTIVE
    )
    task = models.CharField(max_length=255, help_text="The Celery task to run, by its registered name.")
    args = models.JSONField(default=list, blank=True, encoder=DjangoJSONEncoder)
    kwargs = models.JSONField(default=dict, blank=True, encoder=DjangoJSONEncoder)
    queue = models.CharField(max_length=100, default=DEFAULT_QUEUE)
    priority = models.PositiveSmallIntegerField(default=DEFAULT_PRIORITY, help_text="0 (low) to 9 (critical).")
    max_attempts = models.PositiveIntegerField(default=DEFAULT_MAX_ATTEMPTS)
    max_lost = models.PositiveIntegerField(default=DEFAULT_MAX_LOST)
    version = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField()
    changed_at = models.DateTimeField()

    class Meta:
        db_table = "onbeat_job"
        constraints = [
            models.UniqueConstraint(
                fields=["key"],
                condition=Q(state__in=[s.value for s in OPEN_STATES]),
                name="onbeat_job_key_once_while_open",
            ),
            models.CheckConstraint(condition=Q(state__in=[s.value for s in JobState]), name="onbeat_job_state_known"),
            models.CheckConstraint(condition=Q(priority__lte=MAX_PRIORITY), name="onbeat_job_priority_0_to_9"),
        ]

    def __str__(self) -> str:
        return self.key

    def new_execution(self, fire_time: datetime, *, trigger: Trigger, now: datetime) -> Execution:
        """A row for one fire or asked-for run, not stored yet, with what to run as the job says it at this time."""
        return Execution(
            id=new_execution_id(fire_time),
            job=self,
            fire_time=fire_time,
            trigger=trigger,
            task=self.task,
            args=self.args,
            kwargs=self.kwargs,
            queue=self.queue,
            priority=self.priority,
            max_attempts=self.max_attempts,
            max_lost=self.max_lost,
            available_at=fire_time,
            created_at=now,
        )


class ScheduleQuerySet(models.QuerySet["Schedule"]):
    def firing_before(self, moment: datetime) -> "ScheduleQuerySet":
        """Active schedules with a fire up to that moment, most urgent first."""
        return self.filter(is_active=True, next_fire_at__lte=moment).order_by("next_fire_at")


class Schedule(models.Model):
    job = models.OneToOneField(Job, on_delete=models.CASCADE, primary_key=True, related_name="schedule")
    kind = models.CharField(max_length=8, choices=[(k.value, k.value.capitalize()) for k in Kind])
    expression = models.CharField(max_length=200, help_text="A cron expression, a number of seconds, or an instant.")
    timezone = models.CharField(max_length=64, default="UTC")
    anchor_at = models.DateTimeField(null=True, help_text="An interval keeps phase with this instant.")
    misfire_grace_seconds = models.PositiveIntegerField(default=60)
    is_active = models.BooleanField(default=True)
    next_fire_at = models.DateTimeField(null=True)
    version = models.PositiveIntegerField(
        default=1, help_text="Raised by whoever changes next_fire_at: the plan's fence."
    )
    shard = models.PositiveSmallIntegerField()

    objects = ScheduleQuerySet.as_manager()

    class Meta:
        db_table = "onbeat_schedule"
        indexes = [
            models.Index(fields=["next_fire_at"], condition=Q(is_active=True), name="onbeat_schedule_next"),
        ]

    def __str__(self) -> str:
        return f"{self.expression} ({self.timezone})" if self.kind == Kind.CRON else self.expression

    @property
    def recurrence(self) -> Recurrence:
        match Kind(self.kind):
            case Kind.CRON:
                return Cron(self.expression, self.timezone)
            case Kind.EVERY:
                assert self.anchor_at is not None
                return Every(seconds=int(self.expression), anchor=self.anchor_at)
            case Kind.ONCE:
                return Once(datetime.fromisoformat(self.expression))


def shard_of(job_key: str) -> int:
    """The same on every machine and in every release, which Python's own hash is not."""
    return crc32(job_key.encode()) % SHARDS
