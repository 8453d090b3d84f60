"""The hosts that callbacks go to, and the calls that are under way. Written by `callbacks/hosts.py` alone."""

from django.db import models

ORIGIN_CHARACTERS = 300
ERROR_CHARACTERS = 300


class Host(models.Model):
    origin = models.CharField(max_length=ORIGIN_CHARACTERS, unique=True, help_text="Scheme, name and port.")
    failures = models.PositiveIntegerField(default=0, help_text="In a row.")
    rests = models.PositiveIntegerField(default=0, help_text="In a row; each is longer than the one before.")
    rests_until = models.DateTimeField(null=True, help_text="Nothing is sent before this.")
    last_error = models.CharField(max_length=ERROR_CHARACTERS, blank=True)
    line_until = models.DateTimeField(null=True, help_text="When the next one in the line of those that wait may come.")
    usual_seconds = models.FloatField(default=1.0, help_text="That a call takes, as of late.")
    used_at = models.DateTimeField()

    class Meta:
        db_table = "onbeat_host"

    def __str__(self) -> str:
        return self.origin


class HostCall(models.Model):
    """One of the places that a host has, taken until the call ends or can no longer be under way."""

    host = models.ForeignKey(Host, on_delete=models.CASCADE, related_name="calls")
    execution_id = models.UUIDField()
    attempt = models.PositiveIntegerField()
    taken_at = models.DateTimeField()
    until = models.DateTimeField()

    class Meta:
        db_table = "onbeat_host_call"
        constraints = [
            models.UniqueConstraint(fields=["host", "execution_id", "attempt"], name="onbeat_host_call_once"),
        ]

    def __str__(self) -> str:
        return f"{self.execution_id} attempt {self.attempt}"
