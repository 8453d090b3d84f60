"""The rows of one run: Execution, its Attempts, the key it may be called by; how many there were, and how many wait.

Owns the shape of the data and the questions asked of it. Invariant, held by the database: one execution per
scheduled (job, fire_time), however many beats run. State is written by `executions/lifecycle/` alone.

On PostgreSQL executions and attempts are partitioned by fire time (`executions/partitions.py`): there the primary key
is (id, fire_time), and no foreign key leads to them.
"""

import uuid
from collections.abc import Collection
from datetime import datetime

from django.db import models
from django.db.models import Q

from executions import value_lists  # noqa: F401 - brings the lookup `among`
from executions.events import REQUEST_ID_CHARACTERS
from executions.identity import MILLISECOND, earliest_id, fire_time_of, is_ours
from executions.retry import DEFAULT_MAX_ATTEMPTS, DEFAULT_MAX_LOST
from executions.states import BAD_OUTCOMES, FIRE_TRIGGERS, OPEN, Outcome, State, Trigger

DEFAULT_QUEUE = "default"
DEFAULT_PRIORITY = 5
MAX_PRIORITY = 9
REASON_CHARACTERS = 200
# What an execution takes over from its job, as it is when the row is made.
FROM_JOB = ("task", "args", "kwargs", "queue", "priority", "max_attempts", "max_lost")


def choices(names: type[State] | type[Outcome] | type[Trigger]) -> list[tuple[str, str]]:
    return [(name.value, name.value.replace("_", " ").capitalize()) for name in names]


# Ends that people look for; each of these states has indexes in the order of a list.
UNUSUAL_ENDS = (State.DEAD, State.CANCELLED, State.SKIPPED)
_UNUSUAL = Q(state__in=[state.value for state in UNUSUAL_ENDS])


class ExecutionQuerySet(models.QuerySet["Execution"]):
    def with_ids(self, ids: Collection[uuid.UUID]) -> "ExecutionQuerySet":
        """Those rows. Only the partitions of their fire times are looked at."""
        ids = [execution_id for execution_id in ids if is_ours(execution_id)]
        return self.filter(pk__among=ids).between_fires_of(ids) if ids else self.none()

    def between_fires_of(self, ids: Collection[uuid.UUID]) -> "ExecutionQuerySet":
        """From the first to the last fire time that these ids carry; they sort by it."""
        first, last = fire_time_of(min(ids)), fire_time_of(max(ids)) + MILLISECOND
        return self.filter(fire_time__gte=first, fire_time__lt=last)

    def with_id(self, execution_id: uuid.UUID) -> "ExecutionQuerySet":
        return self.with_ids([execution_id])

    def between_ids(self, first: uuid.UUID, last: uuid.UUID) -> "ExecutionQuerySet":
        """From one id to another, both included; only the partitions of their fire times are looked at."""
        if not is_ours(first):
            return self.none()
        rows = self.filter(pk__gte=first, pk__lte=last, fire_time__gte=fire_time_of(first))
        return rows.filter(fire_time__lt=fire_time_of(last) + MILLISECOND) if is_ours(last) else rows

    def firing_between(self, start: datetime, end: datetime) -> "ExecutionQuerySet":
        """From a moment up to another, which is not included. Ids sort by fire time, so their own index is enough."""
        ids = {"pk__gte": earliest_id(start), "pk__lt": earliest_id(end + MILLISECOND)}
        return self.filter(**ids, fire_time__gte=start, fire_time__lt=end)

    def open(self) -> "ExecutionQuerySet":
        """Not over: something will still happen to them."""
        return self.filter(state__in=OPEN)

    def scheduled(self) -> "ExecutionQuerySet":
        return self.filter(state=State.SCHEDULED)

    def due(self, now: datetime) -> "ExecutionQuerySet":
        """What still has to be published: this table is the outbox."""
        return self.scheduled().filter(available_at__lte=now)

    def coming(self, now: datetime, *, before: datetime) -> "ExecutionQuerySet":
        """Delayed runs, retries and fires whose time is yet to come. Who is held back looks again in seconds."""
        return self.scheduled().filter(available_at__gt=now, available_at__lt=before, is_waiting=False)

    def queued_before(self, moment: datetime) -> "ExecutionQuerySet":
        return self.filter(state=State.QUEUED, queued_at__lt=moment)

    def waiting(self) -> "ExecutionQuerySet":
        """Held back because their job has as many running as it may."""
        return self.filter(is_waiting=True)

    def planned(self) -> "ExecutionQuerySet":
        """Fires with a row and nothing more: neither tried, nor held back, nor asked for by anybody."""
        return self.scheduled().filter(trigger=Trigger.SCHEDULE, attempt=1, is_waiting=False, reason="")

    def running(self) -> "ExecutionQuerySet":
        return self.filter(state=State.RUNNING)

    def silent_since(self, moment: datetime) -> "ExecutionQuerySet":
        return self.running().filter(heartbeat_at__lt=moment, awaited_until=None)

    def awaited(self) -> "ExecutionQuerySet":
        """Begun by a worker that is done with them; whoever works on them tells their end."""
        return self.running().filter(awaited_until__isnull=False)


class Execution(models.Model):
    """One fire, or one asked-for run. Its id is also the Celery task id and the idempotency key of its handler."""

    id = models.UUIDField(primary_key=True, editable=False)
    # Without a constraint: making a partition would lock the table of jobs, and each insert would look a job up.
    job = models.ForeignKey(
        "onbeat_jobs.Job", on_delete=models.PROTECT, related_name="executions", db_index=False, db_constraint=False
    )
    fire_time = models.DateTimeField(help_text="The instant the schedule named, or that was asked for.")
    trigger = models.CharField(max_length=16, choices=choices(Trigger))
    state = models.CharField(max_length=16, choices=choices(State), default=State.SCHEDULED)
    reason = models.CharField(
        max_length=REASON_CHARACTERS, blank=True, help_text="Why it did not run, or why it waits."
    )

    # What to run, as the job said at that time.
    task = models.CharField(max_length=255)
    args = models.JSONField(default=list)
    kwargs = models.JSONField(default=dict)
    queue = models.CharField(max_length=100, default=DEFAULT_QUEUE)
    priority = models.PositiveSmallIntegerField(default=DEFAULT_PRIORITY)
    max_attempts = models.PositiveIntegerField(default=DEFAULT_MAX_ATTEMPTS)
    max_lost = models.PositiveIntegerField(default=DEFAULT_MAX_LOST)

    run_key = models.CharField(max_length=200, blank=True, help_text="The name its asker gave it.")
    replay_of = models.UUIDField(null=True, help_text="The execution that this one repeats.")
    request_id = models.CharField(max_length=REQUEST_ID_CHARACTERS, blank=True, default="", db_default="")

    available_at = models.DateTimeField(help_text="Published no earlier than this.")
    attempt = models.PositiveIntegerField(default=1, help_text="The attempt that waits, runs or ran last: the fence.")
    lost = models.PositiveIntegerField(default=0, help_text="Attempts whose worker vanished.")
    is_waiting = models.BooleanField(default=False, help_text="Held back: its job has as many running as it may.")
    worker = models.CharField(max_length=255, blank=True)
    created_at = models.DateTimeField()
    queued_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)
    heartbeat_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    result = models.JSONField(null=True)
    error = models.TextField(blank=True)
    # With a default in the database, here and below: a process of the release before does not name the column.
    fingerprint = models.CharField(
        max_length=16, blank=True, default="", db_default="", help_text="The same for errors that look alike."
    )
    checkpoint = models.JSONField(null=True, help_text="What its handler noted, for the next attempt.")
    progress = models.JSONField(null=True, help_text="How far its handler said it is: done, total, note.")
    # Its worker is done and its end is told from elsewhere, by this moment.
    awaited_until = models.DateTimeField(null=True)
    response = models.JSONField(null=True, help_text="What was answered meanwhile, for its attempt.")
    cancel_requested_at = models.DateTimeField(null=True)
    handled_at = models.DateTimeField(null=True, help_text="When a person dealt with this dead letter.")
    handled_note = models.CharField(max_length=REASON_CHARACTERS, blank=True)

    # A stretch of fires that were skipped together is one row; its fire_time is that of the first.
    skipped_count = models.PositiveIntegerField(null=True)
    skipped_until = models.DateTimeField(null=True, help_text="The last fire time of a skipped stretch.")

    objects = ExecutionQuerySet.as_manager()

    class Meta:
        db_table = "onbeat_execution"
        constraints = [
            models.UniqueConstraint(
                fields=["job", "fire_time"],
                condition=Q(trigger__in=[t.value for t in FIRE_TRIGGERS]),
                name="onbeat_execution_once_per_fire",
            ),
            models.CheckConstraint(
                condition=Q(state__in=[s.value for s in State]), name="onbeat_execution_state_known"
            ),
            models.CheckConstraint(condition=Q(attempt__gte=1), name="onbeat_execution_attempt_from_one"),
            models.CheckConstraint(condition=Q(priority__lte=MAX_PRIORITY), name="onbeat_execution_priority_0_to_9"),
        ]
        indexes = [
            # One per hot question. None contains the heartbeat: it changes every few seconds.
            models.Index(fields=["available_at"], condition=Q(state="SCHEDULED"), name="onbeat_execution_due"),
            models.Index(
                fields=["priority", "available_at"], condition=Q(state="SCHEDULED"), name="onbeat_execution_urgent"
            ),
            models.Index(fields=["queued_at"], condition=Q(state="QUEUED"), name="onbeat_execution_queued"),
            models.Index(fields=["job"], condition=Q(state="RUNNING"), name="onbeat_execution_running"),
            models.Index(
                fields=["finished_at"], condition=Q(state="DEAD", handled_at=None), name="onbeat_execution_dead"
            ),
            # Alone enough to group the dead letters that wait: the rows themselves are not read.
            models.Index(
                fields=["job", "fingerprint", "finished_at", "id"],
                condition=Q(state="DEAD", handled_at=None),
                name="onbeat_execution_dead_groups",
            ),
            models.Index(fields=["job"], condition=Q(is_waiting=True), name="onbeat_execution_waiting"),
            models.Index(fields=["replay_of"], condition=Q(replay_of__isnull=False), name="onbeat_execution_replays"),
            models.Index(
                fields=["awaited_until"],
                condition=Q(state="RUNNING", awaited_until__isnull=False),
                name="onbeat_execution_awaited",
            ),
            models.Index(fields=["job", "-fire_time"], name="onbeat_execution_of_job"),
            # Lists of what went wrong or did not run. What goes as it should is in none of them.
            models.Index(fields=["state", "id"], condition=_UNUSUAL, name="onbeat_execution_unusual"),
            models.Index(fields=["job", "state", "id"], condition=_UNUSUAL, name="onbeat_execution_unusual_job"),
            models.Index(
                fields=["fingerprint", "id"], condition=~Q(fingerprint=""), name="onbeat_execution_fingerprint"
            ),
        ]

    def __str__(self) -> str:
        return str(self.pk)


class Attempt(models.Model):
    """One try that has ended. Written once, in the transaction that ends it; a late word of its holder is added."""

    execution = models.ForeignKey(
        Execution, on_delete=models.CASCADE, related_name="attempts", db_constraint=False, db_index=False
    )
    fire_time = models.DateTimeField(help_text="Its execution's, to the millisecond: both lie in one partition.")
    number = models.PositiveIntegerField()
    outcome = models.CharField(max_length=16, choices=choices(Outcome))
    worker = models.CharField(max_length=255)
    started_at = models.DateTimeField()
    finished_at = models.DateTimeField()
    error = models.TextField(blank=True)
    response = models.JSONField(
        null=True, help_text="What a receiver answered: status, headers, beginning of the body."
    )
    # Its holder came back when the attempt was over: what it had to say was refused, and is told here.
    refused_at = models.DateTimeField(null=True)
    refused_outcome = models.CharField(max_length=16, choices=choices(Outcome), blank=True, default="", db_default="")

    class Meta:
        db_table = "onbeat_attempt"
        ordering = ["number"]
        constraints = [
            models.UniqueConstraint(fields=["execution", "number", "fire_time"], name="onbeat_attempt_once_per_number"),
        ]
        indexes = [
            # What went wrong lately. What goes as it should is not in it.
            models.Index(fields=["finished_at"], condition=Q(outcome__in=BAD_OUTCOMES), name="onbeat_attempt_bad"),
        ]

    def __str__(self) -> str:
        return f"attempt {self.number}: {self.outcome}"

    @classmethod
    def ended(
        cls,
        execution_id: uuid.UUID,
        number: int,
        outcome: Outcome,
        worker: str,
        start: datetime,
        end: datetime,
        error: str,
        response: object = None,
    ) -> "Attempt":
        """The record of one that has ended, not stored yet."""
        return cls(
            execution_id=execution_id,
            fire_time=fire_time_of(execution_id),
            number=number,
            outcome=outcome,
            worker=worker,
            started_at=start,
            finished_at=end,
            error=error,
            response=response,
        )


class RunKey(models.Model):
    """The name of one run of a job, so that it can be moved or cancelled by it.

    A table of its own, since the partitioned one cannot hold it unique (`executions/run_keys.py`).
    """

    job = models.ForeignKey(
        "onbeat_jobs.Job", on_delete=models.CASCADE, related_name="run_keys", db_index=False, db_constraint=False
    )
    key = models.CharField(max_length=200)
    execution_id = models.UUIDField()
    look_at = models.DateTimeField(help_text="When upkeep looks whether the run is over.")

    class Meta:
        db_table = "onbeat_run_key"
        constraints = [models.UniqueConstraint(fields=["job", "key"], name="onbeat_run_key_once_per_job")]
        indexes = [models.Index(fields=["look_at"], name="onbeat_run_key_look")]

    def __str__(self) -> str:
        return self.key


class HourlySums(models.Model):
    """What is known of executions that fired in one hour and are in a state; `executions/counted.py` says of which.

    Kept longer than the executions.
    """

    hour = models.DateTimeField(help_text="The start of the hour in which the fire times lie.")
    queue = models.CharField(max_length=100)
    state = models.CharField(max_length=16, choices=choices(State))
    count = models.PositiveIntegerField(help_text="Each fire of a skipped stretch counts, in the hour of the first.")
    started = models.PositiveIntegerField(help_text="How many of them the delays are of.")
    run_seconds = models.FloatField(help_text="How long their last attempts ran, in sum.")
    delay_seconds = models.FloatField(help_text="How long after they were due their last attempts began, in sum.")
    longest_delay_seconds = models.FloatField()
    # How the durations of both sums are spread (`executions/histogram.py`). Empty if the release before wrote the row.
    delay_histogram = models.JSONField(default=dict, db_default={})
    run_histogram = models.JSONField(default=dict, db_default={})

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return f"{self.count} {self.state}"


class HourlyCount(HourlySums):
    """The executions of one job: what its charts are drawn from. Written by `executions/stored_hours.py` alone."""

    job = models.ForeignKey(
        "onbeat_jobs.Job", on_delete=models.CASCADE, related_name="hourly_counts", db_index=False, db_constraint=False
    )

    class Meta:
        db_table = "onbeat_hourly_count"
        constraints = [
            models.UniqueConstraint(fields=["hour", "job", "queue", "state"], name="onbeat_hourly_count_once"),
        ]


class HourlyTotal(HourlySums):
    """The executions of all jobs: the sum of the hour's counts, in the transaction that writes these."""

    class Meta:
        db_table = "onbeat_hourly_total"
        constraints = [models.UniqueConstraint(fields=["hour", "queue", "state"], name="onbeat_hourly_total_once")]


class QueueSample(models.Model):
    """How many executions waited in a queue. Written by `executions/queue_samples.py` alone, and kept for a day."""

    at = models.DateTimeField(help_text="The minute in which it was looked at.")
    queue = models.CharField(max_length=100)
    waiting = models.PositiveIntegerField(help_text="Due, or published and taken by no worker yet.")
    oldest_seconds = models.FloatField(null=True, help_text="How long the oldest of them waited; empty: there is none.")

    class Meta:
        db_table = "onbeat_queue_sample"
        constraints = [models.UniqueConstraint(fields=["at", "queue"], name="onbeat_queue_sample_once")]

    def __str__(self) -> str:
        return f"{self.waiting} in {self.queue}"


class Snapshot(models.Model):
    """Figures that a beat took for all who ask. Written by `executions/snapshots.py` alone."""

    name = models.CharField(max_length=32, primary_key=True)
    at = models.DateTimeField(help_text="When they were taken.")
    figures = models.JSONField()

    class Meta:
        db_table = "onbeat_snapshot"

    def __str__(self) -> str:
        return self.name


class DeadMessage(models.Model):
    """A message that no worker could take and that names no execution of ours: foreign, broken or unreadable.

    Written by `executions/dead_letters.py` alone. It waits for a person as a DEAD execution does.
    """

    digest = models.CharField(max_length=64, unique=True, help_text="A message that is collected twice is kept once.")
    queue = models.CharField(max_length=255, help_text="The broker's queue it came from.")
    exchange = models.CharField(max_length=255, blank=True)
    routing_key = models.CharField(max_length=255, blank=True)
    task = models.CharField(max_length=255, blank=True)
    properties = models.JSONField(default=dict)
    headers = models.JSONField(default=dict)
    body = models.BinaryField()
    error = models.TextField()
    fingerprint = models.CharField(max_length=16)
    collected_at = models.DateTimeField()
    handled_at = models.DateTimeField(null=True)
    handled_note = models.CharField(max_length=REASON_CHARACTERS, blank=True)

    class Meta:
        db_table = "onbeat_dead_message"
        indexes = [
            models.Index(fields=["collected_at"], condition=Q(handled_at=None), name="onbeat_dead_message_waiting")
        ]

    def __str__(self) -> str:
        return f"{self.task or 'a message'} from {self.queue}"
