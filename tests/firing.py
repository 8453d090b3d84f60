"""Let a beat look at the schedules once, at a given moment."""

from datetime import datetime

from tests.making import a_planner


def plan(now: datetime) -> int:
    """Plan what fires within the coming five seconds; how many fires that were."""
    return a_planner().plan_due(now=now).fires
