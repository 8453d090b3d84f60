"""What every page shows of the whole: what is away, how many dead letters wait.

Owns these few figures. Invariant: they cost a page at most two small statements, and none while they are fresh; they
never make a page fail, and never ask the broker or Redis, which may hang: the beats say what they could not reach.
"""

import time
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import DatabaseError
from django.http import HttpRequest

from beat.models import Beat
from console.people import role
from executions.clock import database_now
from executions.models import Execution
from executions.states import State

_FRESH_SECONDS = 5.0
_MOST_COUNTED = 1000


@dataclass(frozen=True)
class Glance:
    dead: int = 0  # counted up to _MOST_COUNTED
    troubles: tuple[str, ...] = ()


@dataclass
class _Kept:
    glance: Glance = Glance()
    until: float = 0.0


_kept = _Kept()


def glance() -> Glance:
    """As it was a few seconds ago at most."""
    if time.monotonic() >= _kept.until:
        try:
            _kept.glance = _look()
        except DatabaseError:
            return Glance()
        _kept.until = time.monotonic() + _FRESH_SECONDS
    return _kept.glance


def forget() -> None:
    """What was seen is no longer so: somebody just dealt with it."""
    _kept.until = 0.0


def _look() -> Glance:
    dead = Execution.objects.filter(state=State.DEAD, handled_at=None).values("pk")[:_MOST_COUNTED].count()
    within = timedelta(seconds=settings.ONBEAT_BEAT_SILENT_AFTER_SECONDS)
    beats = list(Beat.objects.ticking(database_now(), within=within).only("is_broker_away", "is_redis_away"))
    amiss = {
        "No beat ticks": not beats,
        "Broker away": any(beat.is_broker_away for beat in beats),
        "Redis away": any(beat.is_redis_away for beat in beats),
    }
    return Glance(dead, tuple(name for name, is_so in amiss.items() if is_so))


def dead_badge(_request: HttpRequest) -> str:
    """Empty: there is none."""
    dead = glance().dead
    return "" if not dead else f"{_MOST_COUNTED - 1}+" if dead >= _MOST_COUNTED else str(dead)


def environment(_request: HttpRequest) -> list[str] | None:
    """The label in the head of each page, by which people tell one installation from another."""
    label = settings.ONBEAT_CONSOLE_LABEL
    return [label, "danger" if "prod" in label.lower() else "info"] if label else None


def for_every_page(request: HttpRequest) -> dict[str, Any]:
    """In the context of all pages."""
    seen = role(request)
    return {"troubles": glance().troubles if seen else (), "onbeat_role": seen, "flower_url": flower_url()}


def flower_url() -> str:
    return str(settings.ONBEAT_CONSOLE_FLOWER_URL)
