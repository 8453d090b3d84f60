"""What a figure is read beside: the services it was measured on, the cores, and what others did on the machine."""

import os
from typing import Any

from launcher.service_record import Addresses


def load() -> float:
    """How many programs want a core. Asked before anything is started: of others, and what they take is missing."""
    return round(os.getloadavg()[0], 2)


def told(named: Addresses, *, load_before: float) -> dict[str, Any]:
    return {
        "database": "postgresql",
        "broker": "amqp",
        "redis": bool(named.redis_url),
        "cores": os.cpu_count(),
        "load_before": load_before,
    }


def in_words(figures: dict[str, Any]) -> str:
    return f"{figures['cores']} cores, with a load of {figures['load_before']} before it began."
