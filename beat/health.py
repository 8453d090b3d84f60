"""Whether ticks really happen."""

from datetime import datetime, timedelta

from django.conf import settings

from beat.models import Beat
from executions.health import Finding


def ticking(now: datetime) -> Finding:
    since = now - timedelta(seconds=settings.ONBEAT_BEAT_SILENT_AFTER_SECONDS)
    count = Beat.objects.ticked_since(since).count()
    if count:
        return Finding(is_well=True, says=f"{count} ticking")
    latest = Beat.objects.order_by("-ticked_at").first()
    last = f"the last tick was at {latest.ticked_at:%Y-%m-%d %H:%M:%S} UTC" if latest else "none has ticked yet"
    return Finding(is_well=False, says=f"no beat ticks: {last}; start one with `./onbeat run_beat`")
