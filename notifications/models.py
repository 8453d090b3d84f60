"""Who is told what, and what was told.

Owns the shape of the data. A Receiver is written by `notifications/receivers.py`, everything else by the lookout of
the beats (`notifications/lookout.py`), under the lock of its one row. Invariant: a fact is seen once and a notice of it
made once, whatever beats do and whatever dies.
"""

from fnmatch import fnmatchcase

from django.db import models
from django.db.models import Q

from jobs.models import Job, JobState, Secret
from notifications.kinds import DEFAULT_LATE_AFTER_SECONDS, DEFAULT_MOST_PER_HOUR, Kind, Template

NAME_CHARACTERS = 100
_KEY_CHARACTERS = 200


class Receiver(models.Model):
    """Somebody who wants to be told. It is told nothing while its job is paused."""

    name = models.CharField(max_length=NAME_CHARACTERS, unique=True)
    template = models.CharField(max_length=16, choices=[(t.value, t.value.capitalize()) for t in Template])
    job = models.OneToOneField(
        Job, on_delete=models.PROTECT, related_name="+", help_text="Whose executions are the deliveries."
    )
    origin = models.CharField(max_length=300, help_text="Scheme and host of the URL: what may be shown of it.")
    sealed_url = models.TextField(editable=False)
    sealed_key = models.TextField(editable=False, blank=True, help_text="PagerDuty's routing key.")
    secret = models.ForeignKey(
        Secret, on_delete=models.PROTECT, null=True, related_name="+", help_text="Of its signing keys."
    )
    events = models.JSONField(default=list, help_text="The kinds that it is told.")
    jobs = models.JSONField(default=list, help_text="Keys of jobs, with * for any characters; empty: all jobs.")
    late_after_seconds = models.PositiveIntegerField(default=DEFAULT_LATE_AFTER_SECONDS)
    most_per_hour = models.PositiveIntegerField(default=DEFAULT_MOST_PER_HOUR)
    passed_over = models.PositiveIntegerField(
        default=0, help_text="Troubles that were over before the limit let them be told; the next notification says so."
    )
    since = models.DateTimeField(help_text="What was before is not told.")
    created_at = models.DateTimeField()
    changed_at = models.DateTimeField()
    changed_by = models.CharField(max_length=200, blank=True)

    # What `secrets reseal` has to seal anew.
    SEALED = ("sealed_url", "sealed_key")

    class Meta:
        db_table = "onbeat_receiver"
        verbose_name = "receiver of notifications"
        verbose_name_plural = "receivers of notifications"
        constraints = [
            models.CheckConstraint(
                condition=Q(template__in=[t.value for t in Template]), name="onbeat_receiver_template_known"
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def is_active(self) -> bool:
        return self.job.state == JobState.ACTIVE

    def wants(self, kind: Kind) -> bool:
        return kind in self.events

    def covers(self, job_key: str) -> bool:
        return not self.jobs or any(fnmatchcase(job_key, pattern) for pattern in self.jobs)


class Trouble(models.Model):
    """What a job is in, for one receiver, from the first fact of a kind until it is over."""

    receiver = models.ForeignKey(Receiver, on_delete=models.CASCADE, related_name="troubles", db_index=False)
    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="+", db_index=False, db_constraint=False)
    kind = models.CharField(max_length=16, choices=[(k.value, k.in_words.capitalize()) for k in Kind])
    began_at = models.DateTimeField()
    last_at = models.DateTimeField(help_text="When the last fact of it happened.")
    untold = models.PositiveIntegerField(default=0, help_text="Facts since it was told last.")
    told_at = models.DateTimeField(null=True)
    # Of the last fact. The fire time beside the id, so that its row is found in one partition.
    execution_id = models.UUIDField(null=True)
    fire_time = models.DateTimeField(null=True)
    attempt = models.PositiveIntegerField(null=True)
    said = models.JSONField(default=dict, help_text="What a notice of it says.")

    class Meta:
        db_table = "onbeat_trouble"
        constraints = [
            models.UniqueConstraint(fields=["receiver", "job", "kind"], name="onbeat_trouble_once"),
        ]
        indexes = [models.Index(fields=["began_at"], condition=Q(untold__gt=0), name="onbeat_trouble_untold")]

    def __str__(self) -> str:
        return f"{self.kind} of job {self.job_id}"

    @property
    def in_words(self) -> str:
        return Kind(self.kind).in_words


class Sighting(models.Model):
    """An attempt whose bad end was seen. Forgotten when nobody looks back so far."""

    execution_id = models.UUIDField()
    attempt = models.PositiveIntegerField()
    at = models.DateTimeField()

    class Meta:
        db_table = "onbeat_sighting"
        constraints = [
            models.UniqueConstraint(fields=["execution_id", "attempt"], name="onbeat_sighting_once"),
        ]
        indexes = [models.Index(fields=["at"], name="onbeat_sighting_at")]

    def __str__(self) -> str:
        return f"{self.execution_id} attempt {self.attempt}"


class Notice(models.Model):
    """One thing to tell one receiver, made in the transaction that asks for the run which delivers it."""

    receiver = models.ForeignKey(Receiver, on_delete=models.CASCADE, related_name="notices", db_index=False)
    kind = models.CharField(max_length=16, choices=[(k.value, k.in_words.capitalize()) for k in Kind])
    subject = models.CharField(max_length=100, help_text="The fact that it tells: one notice of each.")
    about = models.CharField(
        max_length=_KEY_CHARACTERS + 20, help_text="What goes together: PagerDuty's dedup_key, and told in order."
    )
    job_key = models.CharField(max_length=_KEY_CHARACTERS)
    said = models.JSONField(default=dict)
    made_at = models.DateTimeField()
    execution_id = models.UUIDField(null=True, help_text="The run that delivers it.")

    class Meta:
        db_table = "onbeat_notice"
        constraints = [
            models.UniqueConstraint(fields=["receiver", "kind", "subject"], name="onbeat_notice_once"),
        ]
        indexes = [
            models.Index(fields=["receiver", "made_at"], name="onbeat_notice_made"),
            models.Index(fields=["receiver", "about", "id"], name="onbeat_notice_about"),
        ]

    def __str__(self) -> str:
        return f"{self.kind}: {self.job_key}"


class Lookout(models.Model):
    """How far the beats have looked: one row, held by whichever of them looks."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    position = models.DateTimeField(help_text="Everything that ended before was looked at, but for what commits late.")
    deep_at = models.DateTimeField(help_text="When it was last looked far back.")
    not_before = models.DateTimeField(help_text="Nobody wanted to know what was before.")
    after_trouble = models.BigIntegerField(default=0, help_text="Up to where open troubles were looked at.")

    has_turned = False

    class Meta:
        db_table = "onbeat_lookout"
        constraints = [models.CheckConstraint(condition=Q(id=1), name="onbeat_lookout_one_row")]

    def __str__(self) -> str:
        return f"at {self.position}"

    def turn(self, after_trouble: int) -> None:
        """Go on from there next time."""
        self.has_turned = after_trouble != self.after_trouble
        self.after_trouble = after_trouble
