"""What is shown of beats to who scrapes: of one by itself, and of all from their registry."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings

from beat.models import Beat
from executions.metrics import Gauge

# ── Of one, by itself ────────────────────────────────────────────────────────────────────────────────────────────

TICK_AGE = Gauge("onbeat_beat_tick_age_seconds", "Since this beat last ended a tick, or since it began.")
OFFSET = Gauge("onbeat_beat_clock_offset_seconds", "How far its machine's clock is ahead of the database's.")
NO_REDIS = Gauge("onbeat_beat_redis_degraded", "Whether it has a Redis that it cannot reach: it works without leases.")
NO_BROKER = Gauge("onbeat_beat_broker_away", "Whether its last publish did not reach the broker.")
SHARDS = Gauge("onbeat_beat_shards", "How many of the 64 shards it looks after.")
LEASES = Gauge(
    "onbeat_leases_total",
    "Leases of fires that it asked for: won, or lost to another beat that had them.",
    {"result": ("won", "lost")},
)


@dataclass(frozen=True)
class Own:
    """How one beat is, as it knows itself."""

    tick_age_seconds: float
    clock_offset_seconds: float
    is_redis_away: bool
    is_broker_away: bool
    shards: int
    leases_asked: int
    leases_refused: int

    def families(self) -> Iterator[Any]:
        yield TICK_AGE.of(self.tick_age_seconds)
        yield OFFSET.of(self.clock_offset_seconds)
        yield NO_REDIS.of(self.is_redis_away)
        yield NO_BROKER.of(self.is_broker_away)
        yield SHARDS.of(self.shards)
        yield LEASES.of({"won": self.leases_asked - self.leases_refused, "lost": self.leases_refused})


# ── Of all, from their registry ──────────────────────────────────────────────────────────────────────────────────

BEATS = Gauge(
    "onbeat_beats",
    "Registered beats: ticking; refusing to fire, for their clock is wrong; silent, gone without signing off.",
    {"state": ("ticking", "refusing", "silent")},
)
WITHOUT_REDIS = Gauge("onbeat_beats_without_redis", "Ticking beats that cannot reach their Redis.")
WITHOUT_BROKER = Gauge("onbeat_beats_without_broker", "Ticking beats that cannot reach the broker.")
FRESHEST_TICK = Gauge("onbeat_beats_tick_age_seconds", "Since any beat last ended a tick; missing if none ever did.")
LARGEST_OFFSET = Gauge(
    "onbeat_beats_clock_offset_seconds", "How far the clock of any beat heard of is off the database's, at most."
)


def of_all(now: datetime) -> Iterator[Any]:
    """In one statement. There are as many rows as beats, and those that were killed go after an hour."""
    lately = timedelta(seconds=settings.ONBEAT_BEAT_SILENT_AFTER_SECONDS)
    beats = list(Beat.objects.all())
    ticking = [beat for beat in beats if not beat.refusal and beat.ticked_at and abs(now - beat.ticked_at) < lately]
    refusing = [beat for beat in beats if beat.refusal and beat.seen_at and now - beat.seen_at < lately]
    yield BEATS.of(
        {"ticking": len(ticking), "refusing": len(refusing), "silent": len(beats) - len(ticking) - len(refusing)}
    )
    yield WITHOUT_REDIS.of(sum(beat.is_redis_away for beat in ticking))
    yield WITHOUT_BROKER.of(sum(beat.is_broker_away for beat in ticking))
    if ticks := [beat.ticked_at for beat in beats if beat.ticked_at]:
        yield FRESHEST_TICK.of(max(0.0, (now - max(ticks)).total_seconds()))
    offsets = [abs(beat.clock_offset_seconds or 0.0) for beat in (*ticking, *refusing)]
    yield LARGEST_OFFSET.of(max(offsets, default=0.0))
