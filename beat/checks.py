"""System checks of the beat app."""

from typing import Any

from celery import current_app
from django.conf import settings
from django.core import checks

from executions.checks import TAG


def register() -> None:
    checks.register(fires_are_seen_in_time, TAG)
    checks.register(one_beat_fires, TAG)


def fires_are_seen_in_time(**_kwargs: Any) -> list[checks.CheckMessage]:
    found: list[checks.CheckMessage] = []
    if settings.ONBEAT_BEAT_LOOK_AHEAD_SECONDS <= settings.ONBEAT_BEAT_POLL_SECONDS:
        found.append(
            checks.Error(
                "The look-ahead is not longer than the poll interval: fires between two polls would be late.",
                hint="Make ONBEAT_BEAT_LOOK_AHEAD_SECONDS larger than ONBEAT_BEAT_POLL_SECONDS.",
                id="onbeat_beat.E001",
            )
        )
    if settings.ONBEAT_BEAT_LEASE_SECONDS <= settings.ONBEAT_BEAT_LOOK_AHEAD_SECONDS:
        found.append(
            checks.Warning(
                "A lease ends before its fire is due: two beats would do the same work.",
                hint="Make ONBEAT_BEAT_LEASE_SECONDS larger than ONBEAT_BEAT_LOOK_AHEAD_SECONDS.",
                id="onbeat_beat.W001",
            )
        )
    if settings.ONBEAT_BEAT_SILENT_AFTER_SECONDS <= settings.ONBEAT_BEAT_POLL_SECONDS:
        found.append(
            checks.Error(
                "A healthy beat would be called silent between two polls.",
                hint="Make ONBEAT_BEAT_SILENT_AFTER_SECONDS larger than ONBEAT_BEAT_POLL_SECONDS.",
                id="onbeat_beat.E002",
            )
        )
    return found


def one_beat_fires(**_kwargs: Any) -> list[checks.CheckMessage]:
    """Ours does not read Celery's own schedule; plain Celery's beat does, and has no guard against a second one."""
    if not (entries := current_app.conf.beat_schedule):
        return []
    return [
        checks.Warning(
            f"CELERY_BEAT_SCHEDULE is not empty ({', '.join(sorted(map(str, entries))[:5])}): our beats do not fire "
            "it, and a plain `celery beat` would.",
            hint="Make jobs of its entries, as the command `import_beat` does, and empty it.",
            id="onbeat_beat.W002",
        )
    ]
