"""The registry of beats: who ticks, and when each last did."""

from datetime import datetime, timedelta

from django.db import models
from django.db.models.functions import Coalesce

REFUSAL_CHARACTERS = 200


class BeatQuerySet(models.QuerySet["Beat"]):
    def ticking(self, now: datetime, *, within: timedelta) -> "BeatQuerySet":
        """Not what lies in the future: a clock was set back since."""
        return self.filter(ticked_at__gt=now - within, ticked_at__lt=now + within, refusal="")

    def silent_since(self, moment: datetime) -> "BeatQuerySet":
        return self.annotate(heard_at=Coalesce("seen_at", "ticked_at")).filter(heard_at__lt=moment)

    def refusing_since(self, moment: datetime) -> "BeatQuerySet":
        return self.filter(seen_at__gte=moment).exclude(refusal="")


class Beat(models.Model):
    name = models.CharField(max_length=255, primary_key=True)
    host = models.CharField(max_length=255)
    pid = models.PositiveIntegerField()
    version = models.CharField(max_length=32, blank=True)
    started_at = models.DateTimeField()
    ticked_at = models.DateTimeField(
        null=True, help_text="When it last ended a tick: a beat that hangs does not say that it is well."
    )
    seen_at = models.DateTimeField(null=True, help_text="When it last said anything here, also a refusal.")
    renewed_at = models.DateTimeField(null=True, help_text="When it last said that it lives, while there is no Redis.")
    shards = models.PositiveSmallIntegerField(default=0, help_text="How many of the 64 shards it looks after.")
    lateness_seconds = models.FloatField(
        null=True, help_text="How long the last ones it published had been due, at most."
    )
    clock_offset_seconds = models.FloatField(
        null=True, help_text="How far its machine's clock is ahead of the database's."
    )
    refusal = models.CharField(max_length=REFUSAL_CHARACTERS, blank=True, help_text="Why it does not fire.")

    is_broker_away = models.BooleanField(default=False, help_text="Its last publish did not reach the broker.")
    is_redis_away = models.BooleanField(default=False, help_text="It works without leases.")
    # With a default in the database: a beat of the release before does not name them.
    leases_asked = models.PositiveBigIntegerField(
        default=0, db_default=0, help_text="How many leases it asked for since it began."
    )
    leases_refused = models.PositiveBigIntegerField(
        default=0, db_default=0, help_text="How many of them another beat had: what it read for nothing."
    )

    objects = BeatQuerySet.as_manager()

    class Meta:
        db_table = "onbeat_beat"

    def __str__(self) -> str:
        return self.name

    @property
    def trouble(self) -> str:
        """What is amiss with it, as far as it says so itself."""
        amiss = {
            self.refusal: bool(self.refusal),
            "cannot reach the broker": self.is_broker_away,
            "cannot reach Redis": self.is_redis_away,
        }
        return "; ".join(what for what, is_so in amiss.items() if is_so)

    @property
    def lateness_in_words(self) -> str | None:
        seconds = self.lateness_seconds
        if seconds is None:
            return None
        return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"
