"""Real beats of ours on a stage: their tables, stored schedules, and the processes that `manage.py run_beat` is."""

import os
import sys
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypeVar

import django

from benchmarks.stage import LOOK_SECONDS, PATIENCE_SECONDS, Process, Stage

T = TypeVar("T")

QUEUE = "default"
_SLOWEST_FIRES_PER_S = 20  # whoever is slower than this is taken to hang
FIRST = 64  # one in each shard, so that each beat has fired once


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


class ToFire(NamedTuple):
    """A job to store, and when it fires."""

    key: str
    fire_at: datetime
    priority: int


def store(keys: Sequence[str], *, is_active: bool, hours_ahead: int = 0) -> None:
    """Jobs without a limit on one queue, whose daily fire is now or in some hours."""
    from executions.clock import database_now
    from executions.models import DEFAULT_PRIORITY

    fire = database_now() + timedelta(hours=hours_ahead)
    store_each([ToFire(key, fire, DEFAULT_PRIORITY) for key in keys], is_active=is_active)


def store_each(fires: Sequence[ToFire], *, is_active: bool) -> None:
    """Jobs without a limit on one queue. After its fire each is due again in half a day: none fires twice."""
    from django.db import connection

    from executions.clock import database_now
    from jobs.models import Job, Kind, Schedule

    now = database_now()
    jobs = Job.objects.bulk_create(
        (
            Job(key=fire.key, task="onbeat.echo", priority=fire.priority, created_at=now, changed_at=now)
            for fire in fires
        ),
        batch_size=5000,
    )
    Schedule.objects.bulk_create(
        (
            Schedule(
                job=job,
                kind=Kind.CRON,
                expression="{0.minute} {0.hour} * * *".format(fire.fire_at + timedelta(hours=12)),
                next_fire_at=fire.fire_at,
                misfire_grace_seconds=3600,  # however long it takes, each of them runs
                is_active=is_active,
            )
            for job, fire in zip(jobs, fires, strict=True)
        ),
        batch_size=5000,
    )
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")  # as a database is that has had its schedules for a while


def clear() -> None:
    """Neither jobs nor executions nor beats in the registry, as after `prepare`."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE onbeat_job, onbeat_execution, onbeat_beat CASCADE")


def start(stage: Stage, name: str = "beat") -> Process:
    """A beat that has signed on."""
    beat = _launch(stage, name)
    _wait_until_signed_on(beat)
    return beat


def _launch(stage: Stage, name: str) -> Process:
    return stage.start(name, [sys.executable, "manage.py", "run_beat"])


def _wait_until_signed_on(beat: Process) -> None:
    from beat.models import Beat

    beat.wait_until(lambda: Beat.objects.filter(pid=beat.pid).exists(), what="the beat has signed on")


def start_all(stage: Stage, count: int) -> list[Process]:
    """So many beats that share the work, as those that have done so for a while: connected, each with its shards alone.

    They have fired the `FIRST`. For the life of a lease a beat still looks after the shards that it gave to others.
    """
    from django.conf import settings

    beats = [_launch(stage, f"beat-{number}") for number in range(1, count + 1)]
    for beat in beats:
        _wait_until_signed_on(beat)
    wait_until(beats, lambda: do_share(count), what="the beats share the work")
    shared_at = time.monotonic()
    store([f"first-{number}" for number in range(FIRST)], is_active=True)
    wait_until(beats, lambda: queued() == FIRST, what="the first fires are queued")
    linger = settings.ONBEAT_BEAT_LEASE_SECONDS
    is_over = "what each had taken before is over"
    wait_until(beats, lambda: time.monotonic() > shared_at + linger, what=is_over, seconds=linger + PATIENCE_SECONDS)
    return beats


def wait_until(
    beats: Sequence[Process],
    condition: Callable[[], T],
    *,
    what: str,
    seconds: float = PATIENCE_SECONDS,
    every: float = LOOK_SECONDS,
) -> T:
    """The first true answer of a condition that all of these beats bring about."""
    first, *others = beats

    def answer() -> T:
        for beat in others:
            beat.see_that_it_runs()
        return condition()

    return first.wait_until(answer, what=what, seconds=seconds, every=every)


def wait_for_end_of_tick(beats: Sequence[Process]) -> None:
    """Until each of them has told in the registry that it has ticked again."""
    from beat.models import Beat

    ours = Beat.objects.filter(pid__in=[beat.pid for beat in beats])
    last = dict(ours.values_list("name", "ticked_at"))

    def have_all_ticked() -> bool:
        return all(ticked_at not in (None, last[name]) for name, ticked_at in ours.values_list("name", "ticked_at"))

    wait_until(beats, have_all_ticked, what="each beat has ticked again")


def end(beats: Sequence[Process]) -> None:
    """Kill them, if all have lived until now."""
    for beat in beats:
        beat.see_that_it_runs()
    for beat in beats:
        beat.kill()


def name_of(beat: Process) -> str:
    """As it is called in the registry."""
    from beat.models import Beat

    return Beat.objects.get(pid=beat.pid).name


def queued() -> int:
    from executions.models import Execution
    from executions.states import State

    return Execution.objects.filter(state=State.QUEUED).count()


def wait_until_queued(stage: Stage, beats: Sequence[Process], fires: int) -> None:
    """Ask the database, which has enough to do meanwhile, only when the broker has as many messages."""
    patience = 60 + fires / _SLOWEST_FIRES_PER_S
    what = f"the broker has {fires:,} messages"
    wait_until(beats, lambda: stage.depth(QUEUE) >= fires, what=what, seconds=patience)
    wait_until(beats, lambda: queued() >= fires, what=f"{fires:,} executions are queued", seconds=patience)


def do_share(count: int) -> bool:
    """Whether so many beats have told in the registry that they share all shards."""
    from beat.models import Beat
    from beat.shards import COUNT

    shards = list(Beat.objects.values_list("shards", flat=True))
    return len(shards) == count and sum(shards) == COUNT and 0 not in shards
