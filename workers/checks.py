"""System checks of the workers app."""

from typing import Any

from django.conf import settings
from django.core import checks

from executions.checks import TAG


def register() -> None:
    checks.register(living_workers_are_not_rescued, TAG)


def living_workers_are_not_rescued(**_kwargs: Any) -> list[checks.CheckMessage]:
    if settings.ONBEAT_WORKERS_LOST_AFTER_SECONDS >= 2 * settings.ONBEAT_WORKERS_HEARTBEAT_SECONDS:
        return []
    return [
        checks.Error(
            "A worker counts as lost after a single late heartbeat: its running work would be started a second time.",
            hint="Make ONBEAT_WORKERS_LOST_AFTER_SECONDS at least twice ONBEAT_WORKERS_HEARTBEAT_SECONDS.",
            id="onbeat_workers.E001",
        )
    ]
