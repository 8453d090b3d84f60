"""What runs, and when it should: Job, its Schedule, its history, what is to come, and the secrets that jobs name.

Owns the shape of definitions. A Schedule is a narrow hot row apart from its job, since the beat updates only that.
Definitions are changed by `jobs/definitions.py`, `next_fire_at` and `version` also by the beat's plan step.
"""

from datetime import datetime
from enum import StrEnum

from django.core.serializers.json import DjangoJSONEncoder
from django.db import models
from django.db.models import Q

from executions.identity import new_execution_id
from executions.models import DEFAULT_PRIORITY, DEFAULT_QUEUE, FROM_JOB, MAX_PRIORITY, Execution
from executions.retry import DEFAULT_MAX_ATTEMPTS, DEFAULT_MAX_LOST
from executions.states import Overlap, Trigger
from jobs import wording
from jobs.misfires import DEFAULT_MISFIRE_LIMIT, Misfire
from jobs.recurrence import Cron, Every, Once, Within, shared_cron

DEFAULT_GRACE_SECONDS = 60
DEFAULT_STOP_GRACE_SECONDS = 30
THROUGH_CHARACTERS = 32


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


class Change(StrEnum):
    """What made a version of a job."""

    CREATED = "CREATED"
    CHANGED = "CHANGED"
    PAUSED = "PAUSED"
    RESUMED = "RESUMED"
    COMPLETED = "COMPLETED"
    ARCHIVED = "ARCHIVED"


class JobQuerySet(models.QuerySet["Job"]):
    def open(self) -> "JobQuerySet":
        """Not over: these hold their key."""
        return self.filter(state__in=OPEN_STATES)

    def managed_by(self, manager: str) -> "JobQuerySet":
        return self.filter(managed_by=manager)

    def pause_over(self, now: datetime) -> "JobQuerySet":
        return self.filter(state=JobState.PAUSED, paused_until__lte=now)

    def out_of_fires(self) -> "JobQuerySet":
        """Active, with a schedule that has no fire left."""
        return self.filter(state=JobState.ACTIVE, schedule__is_active=True, schedule__next_fire_at=None)


class Job(models.Model):
    key = models.CharField(max_length=200)
    state = models.CharField(
        max_length=16, choices=[(s.value, s.value.capitalize()) for s in JobState], default=JobState.ACTIVE
    )
    task = models.CharField(max_length=255, help_text="The Celery task to run, by its registered name.")
    http = models.JSONField(
        null=True, blank=True, help_text="The request that it sends instead, with names of secrets."
    )
    args = models.JSONField(default=list, blank=True, encoder=DjangoJSONEncoder)
    kwargs = models.JSONField(default=dict, blank=True, encoder=DjangoJSONEncoder)
    queue = models.CharField(max_length=100, default=DEFAULT_QUEUE)
    priority = models.PositiveSmallIntegerField(default=DEFAULT_PRIORITY, help_text="0 (low) to 9 (critical).")
    max_attempts = models.PositiveIntegerField(default=DEFAULT_MAX_ATTEMPTS)
    max_lost = models.PositiveIntegerField(default=DEFAULT_MAX_LOST)
    retry = models.JSONField(default=dict, blank=True, help_text="What differs from the default retry policy.")
    timeout_seconds = models.PositiveIntegerField(
        null=True, help_text="How long an attempt may take; empty: as its task says, or else the default."
    )
    stop_grace_seconds = models.PositiveIntegerField(
        default=DEFAULT_STOP_GRACE_SECONDS,
        db_default=DEFAULT_STOP_GRACE_SECONDS,
        help_text="How long after being asked to stop an attempt is killed.",
    )
    keep_result = models.BooleanField(default=False, db_default=False, help_text="Also for Celery's AsyncResult.")
    overlap = models.CharField(
        max_length=16,
        choices=[(o.value, o.value.replace("_", " ").capitalize()) for o in Overlap],
        default=Overlap.ALLOW,
    )
    max_concurrency = models.PositiveIntegerField(null=True, help_text="How many may run at once; empty: any number.")
    owner = models.CharField(max_length=200, blank=True)
    tags = models.JSONField(default=list, blank=True)
    paused_reason = models.CharField(max_length=200, blank=True)
    paused_by = models.CharField(max_length=200, blank=True)
    paused_until = models.DateTimeField(null=True)
    managed_by = models.CharField(
        max_length=100,
        blank=True,
        default="",
        db_default="",
        help_text="The file or code that says what it is, by its name; empty: nobody but people and programs.",
    )
    version = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField()
    changed_at = models.DateTimeField()

    objects = JobQuerySet.as_manager()

    class Meta:
        db_table = "onbeat_job"
        indexes = [
            # By which the beginning of a key is found, whatever the language of the database sorts like.
            models.Index(fields=["key"], opclasses=["varchar_pattern_ops"], name="onbeat_job_key_begins"),
            models.Index(fields=["-changed_at", "-id"], name="onbeat_job_changed"),
            models.Index(fields=["paused_until"], condition=Q(state="PAUSED"), name="onbeat_job_paused_until"),
            models.Index(fields=["managed_by"], condition=~Q(managed_by=""), name="onbeat_job_managed_by"),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["key"],
                condition=Q(state__in=[s.value for s in OPEN_STATES]),
                name="onbeat_job_key_once_while_open",
            ),
            models.CheckConstraint(condition=Q(state__in=[s.value for s in JobState]), name="onbeat_job_state_known"),
            models.CheckConstraint(condition=Q(priority__lte=MAX_PRIORITY), name="onbeat_job_priority_0_to_9"),
            models.CheckConstraint(
                condition=Q(overlap=Overlap.ALLOW.value, max_concurrency__isnull=True) | Q(max_concurrency__gte=1),
                name="onbeat_job_overlap_has_a_limit",
            ),
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
            available_at=fire_time,
            created_at=now,
            **{name: getattr(self, name) for name in FROM_JOB},
        )

    def new_skipped_row(
        self, first: datetime, last: datetime, count: int | None, *, reason: str, now: datetime
    ) -> Execution:
        """One row for a stretch of fires that will not run, not stored yet."""
        row = self.new_execution(first, trigger=Trigger.SCHEDULE, now=now)
        row.skipped_count, row.skipped_until, row.reason = count, last, reason
        return row


class ScheduleQuerySet(models.QuerySet["Schedule"]):
    def firing_before(self, moment: datetime) -> "ScheduleQuerySet":
        """Active schedules with a fire up to that moment, most urgent first."""
        return self.filter(is_active=True, next_fire_at__lte=moment).order_by("next_fire_at")


def pattern_of(
    kind: str, expression: str, timezone: str, anchor_at: datetime | None, *, key: str
) -> Cron | Every | Once:
    """What the columns of a schedule say; whatever it raises, nobody can read them."""
    match Kind(kind):
        case Kind.CRON:
            return shared_cron(expression, timezone, key)
        case Kind.EVERY:
            assert anchor_at is not None
            return Every(seconds=int(expression), anchor=anchor_at)
        case Kind.ONCE:
            return Once(datetime.fromisoformat(expression))


def recurrence_of(
    kind: str,
    expression: str,
    timezone: str,
    anchor_at: datetime | None,
    start_at: datetime | None,
    end_at: datetime | None,
    *,
    key: str,
) -> Cron | Every | Once | Within:
    """The same with its bounds."""
    pattern = pattern_of(kind, expression, timezone, anchor_at, key=key)
    return pattern if start_at is None and end_at is None else Within(pattern, start_at, end_at)


class Schedule(models.Model):
    job = models.OneToOneField(Job, on_delete=models.CASCADE, primary_key=True, related_name="schedule")
    kind = models.CharField(max_length=8, choices=[(k.value, k.value.capitalize()) for k in Kind])
    expression = models.CharField(max_length=200, help_text="A cron expression, a number of seconds, or an instant.")
    timezone = models.CharField(max_length=64, default="UTC")
    anchor_at = models.DateTimeField(null=True, help_text="An interval keeps phase with this instant.")
    start_at = models.DateTimeField(null=True, help_text="No fire before this.")
    end_at = models.DateTimeField(null=True, help_text="No fire after this.")
    max_fires = models.PositiveIntegerField(null=True, help_text="How often it fires in all; empty: without end.")
    fires_left = models.PositiveIntegerField(null=True)
    misfire_grace_seconds = models.PositiveIntegerField(default=DEFAULT_GRACE_SECONDS)
    misfire = models.CharField(
        max_length=16,
        choices=[(m.value, m.value.replace("_", " ").capitalize()) for m in Misfire],
        default=Misfire.FIRE_ONCE,
        help_text="Which fires older than the grace still run.",
    )
    misfire_limit = models.PositiveIntegerField(
        default=DEFAULT_MISFIRE_LIMIT, help_text="With FIRE_ALL: how many of them."
    )
    jitter_seconds = models.PositiveIntegerField(default=0, help_text="A fire comes up to this much later.")
    is_active = models.BooleanField(default=True)
    next_fire_at = models.DateTimeField(null=True)
    version = models.PositiveIntegerField(
        default=1, help_text="Raised by whoever changes next_fire_at: the plan's fence."
    )

    objects = ScheduleQuerySet.as_manager()

    class Meta:
        db_table = "onbeat_schedule"
        indexes = [
            models.Index(fields=["next_fire_at"], condition=Q(is_active=True), name="onbeat_schedule_next"),
            models.Index(
                fields=["job"],
                condition=Q(is_active=True, next_fire_at__isnull=True),
                name="onbeat_schedule_out_of_fires",
            ),
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(misfire__in=[m.value for m in Misfire]), name="onbeat_schedule_misfire_known"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.expression} ({self.timezone})" if self.kind == Kind.CRON else self.expression

    @property
    def pattern(self) -> Cron | Every | Once:
        """When it fires, without its bounds."""
        return pattern_of(self.kind, self.expression, self.timezone, self.anchor_at, key=self.job.key)

    @property
    def recurrence(self) -> Cron | Every | Once | Within:
        pattern = (self.kind, self.expression, self.timezone, self.anchor_at)
        return recurrence_of(*pattern, self.start_at, self.end_at, key=self.job.key)

    @property
    def is_readable(self) -> bool:
        """Not if it was broken behind our back, by SQL or by a zone that is gone."""
        try:
            _ = self.recurrence
        except Exception:  # whatever stands in the row
            return False
        return True

    @property
    def in_words(self) -> str:
        """A sentence for people, also when somebody broke the row behind our back."""
        try:
            words = wording.in_words(self.recurrence)
        except ValueError as refused:
            return f"cannot be read: {refused}"
        times = "" if self.max_fires is None else f", {self.max_fires} times" if self.max_fires > 1 else ", one time"
        later = f", {wording.later_in_words(self.jitter_seconds)}" if self.jitter_seconds else ""
        return words + later + times


class StoredForecast(models.Model):
    """How many fires the next day brings, as it was made last: one row. Written by `jobs/forecasting.py` alone."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    start_at = models.DateTimeField()
    counts = models.JSONField(help_text="Fires in each ten minutes from the start.")
    is_estimate = models.BooleanField(help_text="Schedules were too many, and some stand for others.")
    made_at = models.DateTimeField()
    took_seconds = models.FloatField(help_text="How long it took to make: the longer, the rarer it is made.")

    class Meta:
        db_table = "onbeat_forecast"
        constraints = [models.CheckConstraint(condition=Q(id=1), name="onbeat_forecast_one_row")]

    def __str__(self) -> str:
        return f"from {self.start_at}"


class JobVersion(models.Model):
    """A job as it was from one change to the next. Append-only."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="versions", db_index=False)
    version = models.PositiveIntegerField()
    change = models.CharField(max_length=16, choices=[(c.value, c.value.capitalize()) for c in Change])
    definition = models.JSONField(encoder=DjangoJSONEncoder)
    changed_at = models.DateTimeField()
    changed_by = models.CharField(max_length=200, blank=True, help_text="Who.")
    through = models.CharField(
        max_length=THROUGH_CHARACTERS, help_text="Through what: python, rest, admin, command, beat."
    )
    note = models.CharField(max_length=200, blank=True)

    class Meta:
        db_table = "onbeat_job_version"
        ordering = ["-version"]
        constraints = [models.UniqueConstraint(fields=["job", "version"], name="onbeat_job_version_once")]

    def __str__(self) -> str:
        return f"version {self.version}: {self.change}"


class SecretUse(StrEnum):
    SIGNING = "SIGNING"  # its parts are keys; a request is signed with each of them
    HEADER = "HEADER"  # its newest part is the value of a header


class Secret(models.Model):
    """What jobs name and nobody sees. Written by `jobs/kept_secrets.py` alone."""

    name = models.CharField(max_length=100, unique=True)
    use = models.CharField(max_length=8, choices=[(u.value, u.value.capitalize()) for u in SecretUse])
    hosts = models.JSONField(default=list, help_text="The hosts that it may be sent to, or sign for; empty: any.")
    created_at = models.DateTimeField()
    changed_at = models.DateTimeField()
    changed_by = models.CharField(max_length=200, blank=True)

    class Meta:
        db_table = "onbeat_secret"
        constraints = [
            models.CheckConstraint(condition=Q(use__in=[u.value for u in SecretUse]), name="onbeat_secret_use_known"),
        ]

    def __str__(self) -> str:
        return self.name

    def is_for(self, host: str) -> bool:
        return not self.hosts or host in self.hosts


class SecretPart(models.Model):
    """One key or value of a secret, sealed (`jobs/vault.py`)."""

    secret = models.ForeignKey(Secret, on_delete=models.CASCADE, related_name="parts")
    sealed = models.TextField(editable=False)
    created_at = models.DateTimeField()
    ends_at = models.DateTimeField(null=True, help_text="Not used from this moment on; empty: no end.")

    class Meta:
        db_table = "onbeat_secret_part"

    def __str__(self) -> str:
        return f"a part of {self.secret_id}"
