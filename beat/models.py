"""The registry of beats: who ticks, and when each last did."""

from datetime import datetime

from django.db import models


class BeatQuerySet(models.QuerySet["Beat"]):
    def ticked_since(self, moment: datetime) -> "BeatQuerySet":
        return self.filter(ticked_at__gte=moment)


class Beat(models.Model):
    name = models.CharField(max_length=255, primary_key=True)
    host = models.CharField(max_length=255)
    pid = models.PositiveIntegerField()
    started_at = models.DateTimeField()
    ticked_at = models.DateTimeField(
        help_text="When it last ended a tick: a beat that hangs does not say that it is well."
    )

    is_broker_away = models.BooleanField(default=False, help_text="Its last publish did not reach the broker.")
    is_redis_away = models.BooleanField(default=False, help_text="It works without leases.")

    objects = BeatQuerySet.as_manager()

    class Meta:
        db_table = "onbeat_beat"

    def __str__(self) -> str:
        return self.name
