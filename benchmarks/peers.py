"""How many fires per second the beats send that others made, when all their tasks are due at once.

Each is run as its users run it: `celery beat` with its scheduler, a real process with settings as they come (no
confirms, no results, a log of warnings only), and with a queue of its own on the same broker. Its tasks are daily
intervals, which cost it less than crontabs do, that ran last two days ago. The clock starts when the first message is
seen in the queue and ends when the last one is. So its start and the connection to the broker do not count, nor does
whatever it loads before it sends. If there are more messages than tasks at that moment, there is no figure.

- django-celery-beat keeps its tasks in a database of its own on the same server. It looks for changed schedules before
  each task that it sends, and with Django's default of `CONN_MAX_AGE` it opens a new connection to the database for
  that: most of its time. A user may know better, so it can be measured without. It writes `last_run_at` every three
  minutes, which does not count.
- celery-redbeat keeps them in the same Redis, made by its own `RedBeatSchedulerEntry`; its lock is on, and nobody else
  has it. Before its first message it loads all that are due, one by one, which does not count; before each message it
  writes down that this one ran, which does.
- celery beat itself has them in `beat_schedule`, and in a file since its start. That they ran two days ago is said
  in the entries, as the file would say it after two days without a beat. After its first message it writes the file,
  which counts, and then every three minutes. Before each message it compares all tasks with those of the message
  before: the more there are, the fewer it sends per second.
"""

import sys
import time
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import kombu

from benchmarks.stage import Process, Stage
from launcher.progress import step
from launcher.refusal import Refusal

_QUEUE = "peer"
_LOOK_SECONDS = 0.005
_SLOWEST_FIRES_PER_S = 5  # whoever is slower than this is taken to hang


@dataclass(frozen=True)
class Peer:
    key: str  # its figures are called by it
    package: str
    fires: int  # as many are due, unless another number is asked for
    project: str  # what `celery -A` runs
    scheduler: str  # Celery's name for it
    store: str = ""  # the module that stores its tasks, if the project does not name them
    needs_redis: bool = False

    @property
    def name(self) -> str:
        """With the version that is installed, which is the one that is measured."""
        try:
            return f"{self.package} {version(self.package)}"
        except PackageNotFoundError:
            raise Refusal(
                f"{self.package} is not installed: `.venv/bin/pip install -r requirements-dev.txt` brings it, and so "
                "does `./onbeat test`."
            ) from None


DJANGO_CELERY_BEAT = Peer(
    "peer",
    "django-celery-beat",
    1000,
    "benchmarks.peer_project",
    "django_celery_beat.schedulers:DatabaseScheduler",
    store="benchmarks.peer_project.store",
)
REDBEAT = Peer(
    "redbeat",
    "celery-redbeat",
    5000,
    "benchmarks.redbeat_project",
    "redbeat.RedBeatScheduler",
    store="benchmarks.redbeat_project",
    needs_redis=True,
)
CELERY_BEAT = Peer("celery_beat", "celery", 1000, "benchmarks.celery_beat_project", "celery.beat.PersistentScheduler")
ALL = (DJANGO_CELERY_BEAT, REDBEAT, CELERY_BEAT)


def fires_per_second(stage: Stage, peer: Peer, fires: int, *, keeps_connection: bool = False) -> float:
    """Whether it keeps its connection to the database concerns django-celery-beat alone."""
    queue = stage.prefix + _QUEUE
    told = {
        "PEER_QUEUE": queue,
        "PEER_FIRES": str(fires),
        "PEER_KEEPS_CONNECTION": "1" if keeps_connection else "",
        "PEER_KEY_PREFIX": f"{stage.prefix}redbeat:",
        "PEER_SCHEDULE_FILE": str(stage.folder / "celerybeat-schedule"),
        "DJANGO_SETTINGS_MODULE": "benchmarks.peer_project.settings",
    }
    stage.delete_at_end(queues=[_QUEUE], exchanges=[_QUEUE])
    kombu.Queue(queue, kombu.Exchange(queue), routing_key=queue).bind(stage.channel).declare()
    if peer.store:
        with step(print, f"Storing {fires:,} tasks of {peer.package}"):
            stage.start("store", [sys.executable, "-m", peer.store], **told).see_that_it_ends_well()
    with step(print, f"Letting {peer.package} fire {fires:,} at once"):
        celery = str(Path(sys.executable).parent / "celery")
        command = [celery, "-A", peer.project, "beat", "-S", peer.scheduler]
        figure = _time_messages(stage, stage.start(peer.package, command, **told), fires)
    if (messages := stage.depth(_QUEUE)) != fires:
        raise Refusal(f"{peer.package} sent {messages:,} messages for {fires:,} tasks: no figure is worth that.")
    return figure


def _time_messages(stage: Stage, beat: Process, fires: int) -> float:
    seen = beat.wait_until(lambda: stage.depth(_QUEUE), what=f"{beat.name} sends", every=_LOOK_SECONDS)
    started = time.monotonic()
    beat.wait_until(
        lambda: stage.depth(_QUEUE) >= fires,
        what=f"{beat.name} has sent all",
        seconds=60 + fires / _SLOWEST_FIRES_PER_S,
        every=_LOOK_SECONDS,
    )
    # A handful may all be there at the first look.
    seconds = max(time.monotonic() - started, _LOOK_SECONDS)
    return max(fires - seen, 1) / seconds
