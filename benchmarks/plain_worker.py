"""Workers of plain Celery on a stage, beside which ours can be seen: with and without results.

`plain` is `celery worker` with the options that `./onbeat up` gives ours: two processes, log lines at INFO, events for
Flower, neither gossip nor mingle. Its queue is of the same kind on the same broker, its messages are persistent and
have the priority that ours have by default, and its task is `onbeat.echo` under another name. Acknowledgements are
late, and each process has one message at a time. It loads no Django and sets no time limits, of which ours has some
for each execution.

Not all options weigh the same: at INFO Celery writes two lines for each task, where ours writes one. So
`plain_defaults` is the same with Celery's own defaults: neither log lines nor events.

`results` is `plain` with django-celery-results as its users are told to set it up: one row for each task, in a database
of its own on the same server. Celery opens a new connection for each of these rows, whatever `CONN_MAX_AGE` says. A
user may know better, so `results_kept_connection` has a setting that prevents it (`CELERY_DB_REUSE_MAX`).
"""

import sys
from dataclasses import dataclass
from pathlib import Path

import psycopg

from benchmarks import drained
from benchmarks.drained import Stretch
from benchmarks.plain_project import queues
from benchmarks.stage import Stage
from launcher.progress import step
from launcher.refusal import Refusal

_PROCESSES = ("--concurrency", "2")
OUR_OPTIONS = (*_PROCESSES, "--loglevel", "INFO", "--without-gossip", "--without-mingle", "--task-events")
_RESULTS = "SELECT count(*), count(*) FILTER (WHERE status = 'SUCCESS') FROM django_celery_results_taskresult"


@dataclass(frozen=True)
class Peer:
    name: str
    what: str
    options: tuple[str, ...] = OUR_OPTIONS
    keeps_results: bool = False
    keeps_connection: bool = False

    def environment(self, prefix: str) -> dict[str, str]:
        return {
            "DJANGO_SETTINGS_MODULE": "benchmarks.plain_project.settings" if self.keeps_results else "",
            "PEER_PREFIX": prefix,
            "PEER_KEEPS_RESULTS": "1" if self.keeps_results else "",
            "PEER_KEEPS_CONNECTION": "1" if self.keeps_connection else "",
        }


PEERS = (
    Peer("plain", "plain Celery"),
    Peer("plain_defaults", "plain Celery without log lines and events", options=_PROCESSES),
    Peer("results", "django-celery-results", keeps_results=True),
    Peer(
        "results_kept_connection",
        "django-celery-results with kept connections",
        keeps_results=True,
        keeps_connection=True,
    ),
)


def measure(stage: Stage, peer: Peer, executions: int) -> Stretch:
    sent = executions + drained.WARM_UP
    with step(print, f"Sending {sent:,} messages to {peer.what}"):
        _send(stage, peer, sent)
    with step(print, f"Letting {peer.what} run them"):
        celery = [str(Path(sys.executable).parent / "celery"), "--quiet", "-A", "benchmarks.plain_project", "worker"]
        command = [*celery, "--queues", stage.prefix + queues.WORK, *peer.options]
        worker = stage.start(peer.name, command, **peer.environment(stage.prefix))
        measured = drained.drain(
            stage, worker, queue=queues.WORK, dead_letters=queues.DEAD_LETTERS, executions=executions
        )
    if peer.keeps_results:
        _see_that_each_has_a_result(stage, sent)
    return measured


def _send(stage: Stage, peer: Peer, count: int) -> None:
    stage.delete_at_end(queues=[queues.WORK, queues.DEAD_LETTERS], exchanges=queues.EXCHANGES)
    for queue in (queues.work_queue(stage.prefix), queues.dead_letter_queue(stage.prefix)):
        queue.bind(stage.channel).declare()
    command = [sys.executable, "-m", "benchmarks.plain_project.fill", str(count)]
    stage.start("fill", command, **peer.environment(stage.prefix)).see_that_it_ends_well()
    if (messages := stage.depth(queues.WORK)) != count:
        raise Refusal(f"{count:,} messages were sent, and {messages:,} are in the queue: no figure is worth that.")


def _see_that_each_has_a_result(stage: Stage, count: int) -> None:
    with psycopg.connect(stage.database_url) as database:
        found = database.execute(_RESULTS).fetchone()
    if found != (count, count):
        raise Refusal(f"{count:,} messages left these results (all, successes): {found}. No figure is worth that.")
