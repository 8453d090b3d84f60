"""How many fires per second django-celery-beat sends when all its tasks are due at once.

Run as its users run it: `celery beat` with its scheduler, a real process with settings as they come (no confirms, no
results), in a database of its own on the same server, and with a queue of its own on the same broker. The clock starts
when the first message is seen in the queue and ends when the last one is. So its start, the loading of the tasks and
the connection to the broker do not count, nor does the writing of `last_run_at`, which it does every three minutes.

It looks for changed schedules before each task that it sends, and with Django's default of `CONN_MAX_AGE` it opens a
new connection to the database for that: most of its time. A user may know better, so it can be measured without.
"""

import sys
import time
from importlib.util import find_spec
from pathlib import Path

import kombu

from benchmarks.stage import Stage
from launcher.progress import step
from launcher.refusal import Refusal

NAME = "django-celery-beat 2.9.0"
_QUEUE = "peer"
_LOOK_SECONDS = 0.005
_SLOWEST_FIRES_PER_S = 5  # whoever is slower than this is taken to hang


def see_that_it_is_installed() -> None:
    if find_spec("django_celery_beat") is None:
        raise Refusal(
            "The peer is not installed: `.venv/bin/pip install -r requirements-dev.txt` brings it, and so does "
            "`./onbeat test`."
        )


def fires_per_second(stage: Stage, fires: int, *, keeps_connection: bool = False) -> float:
    queue = stage.prefix + _QUEUE
    environment = {
        "DJANGO_SETTINGS_MODULE": "benchmarks.peer_project.settings",
        "PEER_QUEUE": queue,
        "PEER_KEEPS_CONNECTION": "1" if keeps_connection else "",
    }
    stage.delete_at_end(queues=[_QUEUE], exchanges=[_QUEUE])
    with step(print, f"Storing {fires:,} tasks of the peer"):
        kombu.Queue(queue, kombu.Exchange(queue), routing_key=queue).bind(stage.channel).declare()
        module = "benchmarks.peer_project.store"
        stage.start("store", [sys.executable, "-m", module, str(fires)], **environment).see_that_it_ends_well()
    with step(print, f"Letting the peer fire {fires:,} at once"):
        celery = [str(Path(sys.executable).parent / "celery"), "-A", "benchmarks.peer_project", "beat"]
        scheduler = ["-S", "django_celery_beat.schedulers:DatabaseScheduler"]
        beat = stage.start("peer", [*celery, *scheduler], **environment)
        seen = beat.wait_until(lambda: stage.depth(_QUEUE), what="the peer sends", every=_LOOK_SECONDS)
        started = time.monotonic()
        beat.wait_until(
            lambda: stage.depth(_QUEUE) >= fires,
            what="the peer has sent all",
            seconds=60 + fires / _SLOWEST_FIRES_PER_S,
            every=_LOOK_SECONDS,
        )
        # A handful may all be there at the first look.
        seconds = max(time.monotonic() - started, _LOOK_SECONDS)
    return max(fires - seen, 1) / seconds
