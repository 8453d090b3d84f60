"""One real beat of ours on a stage: its tables, stored schedules, and the process that `manage.py run_beat` is."""

import os
import sys
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import django

from benchmarks.stage import Process, Stage

QUEUE = "default"
_SLOWEST_FIRES_PER_S = 20  # whoever is slower than this is taken to hang


def prepare(stage: Stage) -> None:
    """Become a process of this stage, and make its tables; of one stage after another, never of two at once."""
    os.environ.pop("ONBEAT_ENV_FILE", None)
    os.environ.update(stage.environment, DJANGO_SETTINGS_MODULE="scheduler_project.settings")
    django.setup()
    from django.conf import settings
    from django.core.management import call_command
    from django.db import connection

    # As Django has read it for the first stage: it is not set up a second time.
    connection.settings_dict["NAME"], settings.ONBEAT_EXECUTIONS_PREFIX = stage.database, stage.prefix

    stage.at_end.callback(leave_database)
    stage.delete_at_end(queues=[QUEUE, "dead-letters"], exchanges=["work", "dead-letters"])
    call_command("migrate", verbosity=0, interactive=False)


def leave_database() -> None:
    """Have no connection to it, until the next question."""
    from django.db import connection

    database: Any = connection
    database.close()
    database.close_pool()


def store(keys: Sequence[str], *, is_active: bool, hours_ahead: int = 0) -> None:
    """Jobs without a limit on one queue, whose daily fire is now or in some hours."""
    from django.db import connection

    from executions.clock import database_now
    from jobs.models import Job, Kind, Schedule

    now = database_now()
    fire = now + timedelta(hours=hours_ahead)
    second = fire + timedelta(hours=12)  # far from now, so that no schedule fires twice
    jobs = Job.objects.bulk_create(
        (Job(key=key, task="onbeat.echo", created_at=now, changed_at=now) for key in keys), batch_size=5000
    )
    Schedule.objects.bulk_create(
        (
            Schedule(
                job=job,
                kind=Kind.CRON,
                expression=f"{second.minute} {second.hour} * * *",
                next_fire_at=fire,
                misfire_grace_seconds=3600,  # however long it takes, each of them runs
                is_active=is_active,
            )
            for job in jobs
        ),
        batch_size=5000,
    )
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")  # as a database is that has had its schedules for a while


def start(stage: Stage, name: str = "beat") -> Process:
    """A beat that has signed on."""
    from beat.models import Beat

    beat = stage.start(name, [sys.executable, "manage.py", "run_beat"])
    beat.wait_until(lambda: Beat.objects.filter(pid=beat.pid).exists(), what="the beat has signed on")
    return beat


def queued() -> int:
    from executions.models import Execution
    from executions.states import State

    return Execution.objects.filter(state=State.QUEUED).count()


def wait_until_queued(stage: Stage, beat: Process, fires: int) -> None:
    """Ask the database, which has enough to do meanwhile, only when the broker has as many messages."""
    patience = 60 + fires / _SLOWEST_FIRES_PER_S
    beat.wait_until(lambda: stage.depth(QUEUE) >= fires, what=f"the broker has {fires:,} messages", seconds=patience)
    beat.wait_until(lambda: queued() >= fires, what=f"{fires:,} executions are queued", seconds=patience)


def do_two_share() -> bool:
    """Whether two beats have told in the registry that they share all shards."""
    from beat.models import Beat
    from beat.shards import COUNT

    shards = list(Beat.objects.values_list("shards", flat=True))
    return len(shards) == 2 and sum(shards) == COUNT and 0 not in shards


MAKE_ALL_DUE = (
    "UPDATE onbeat_schedule SET is_active = true, next_fire_at = now(), version = version + 1 WHERE NOT is_active"
)
