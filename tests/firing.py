"""Let a beat look at the schedules once, at a given moment."""

from datetime import datetime

from beat.lease import Leases
from beat.planning import Planner
from tests.making import seconds


def plan(now: datetime) -> int:
    """Plan what fires within the coming five seconds; how many fires that were."""
    alone = Leases(url="", prefix="", holder="me", life=seconds(10))
    return Planner(alone, look_ahead=seconds(5), batch_size=100).plan_due(now=now)
