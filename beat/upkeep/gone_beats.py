"""Take beats off the registry that were killed and never signed off."""

from datetime import datetime, timedelta

from beat.models import Beat
from beat.upkeep.duty import Duty

_AFTER = timedelta(hours=1)


def forget_gone_beats(now: datetime) -> int:
    gone, _ = Beat.objects.silent_since(now - _AFTER).delete()
    return gone


DUTY = Duty(
    name="gone-beats",
    does="takes beats off the registry that ended without a word",
    every=timedelta(minutes=1),
    run=forget_gone_beats,
)
