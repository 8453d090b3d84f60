"""What is shown of schedules, queues and dead letters to who scrapes.

Owns the snapshot that a beat takes of them. Invariant: who scrapes reads one row, whatever is stored and waits.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Min

from executions import backlog, snapshots
from executions.metrics import Gauge
from executions.models import Execution
from executions.states import State
from jobs.models import Schedule

NAME = "waiting"
OTHERS = "(others)"
MOST_QUEUES = 50
_MOST_COUNTED = 100_000
LATE_AFTER = timedelta(seconds=10)  # beats plan ahead: a fire that nobody planned by then is late

AGE = Gauge(
    "onbeat_sample_age_seconds",
    "Since a beat last took the figures of schedules, queues and dead letters; missing if none ever did.",
)
SCHEDULES = Gauge(
    "onbeat_schedules",
    "Schedules: active; due, with a fire that has passed and is not planned yet; overdue, for more than 10 s.",
    {"state": ("active", "due", "overdue")},
)
OVERDUE = Gauge("onbeat_overdue_seconds", "How long the fire that is overdue longest has been due.")
WAITING = Gauge("onbeat_queue_waiting", "Executions that are due or published, and taken by no worker.", {"queue": ()})
RUNNING = Gauge("onbeat_queue_running", "Executions that run.", {"queue": ()})
OLDEST = Gauge("onbeat_queue_oldest_seconds", "How long the oldest that waits in the queue has waited.", {"queue": ()})
DEAD = Gauge("onbeat_dead_letters_waiting", "Dead letters that wait for a person.")


def take(now: datetime) -> int:
    """Look, and keep what is seen; returns how many queues there were."""
    queues = _queues(now)
    active = Schedule.objects.filter(is_active=True)
    overdue = active.filter(next_fire_at__lt=now - LATE_AFTER)
    oldest = overdue.aggregate(at=Min("next_fire_at"))["at"]
    snapshots.keep(
        NAME,
        {
            "active": active.count(),
            "due": active.filter(next_fire_at__lte=now).count(),
            "overdue": overdue.count(),
            "overdue_seconds": (now - oldest).total_seconds() if oldest else 0.0,
            "queues": queues,
            "dead": Execution.objects.filter(state=State.DEAD, handled_at=None).order_by()[:_MOST_COUNTED].count(),
        },
        at=now,
    )
    return len(queues)


def _queues(now: datetime) -> dict[str, list[float]]:
    """Waiting, running and the age of the oldest, by queue; of the many the longest, and the others as one."""
    found = {
        queue: [float(each.waiting), float(each.running), each.oldest_seconds(now) or 0.0]
        for queue, each in backlog.by_queue(now=now).items()
    }
    in_order = sorted(found, key=lambda queue: (-found[queue][0], queue))
    shown = {queue: found[queue] for queue in in_order[:MOST_QUEUES]}
    if rest := [found[queue] for queue in in_order[MOST_QUEUES:]]:
        shown[OTHERS] = [sum(each[0] for each in rest), sum(each[1] for each in rest), max(each[2] for each in rest)]
    return shown


def of_snapshot(now: datetime) -> Iterator[Any]:
    taken = snapshots.kept(NAME)
    if taken is None:
        return
    figures: Mapping[str, Any] = taken.figures
    yield AGE.of(max(0.0, (now - taken.at).total_seconds()))
    yield SCHEDULES.of({state: figures[state] for state in ("active", "due", "overdue")})
    yield OVERDUE.of(figures["overdue_seconds"])
    for place, gauge in enumerate((WAITING, RUNNING, OLDEST)):
        yield gauge.of({queue: each[place] for queue, each in figures["queues"].items()})
    yield DEAD.of(figures["dead"])
