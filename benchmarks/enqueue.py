"""How fast an app can ask for delayed runs in bulk, and how fast one beat publishes them when all of them are due.

An app is this process: it calls `jobs.runs.run_many` on PostgreSQL, as many runs in a call as one takes, all of one
job, each with kwargs and a delay of its own of up to ten seconds. No beat lives meanwhile. The clock starts before the
first call and ends when the last has returned; each call has committed its runs by then. CPU is the user and system
time of this process, and not what the server takes. Beside it some are asked for one by one, by `jobs.runs.run`, on the
table that has all the others.

When all are due, a real `manage.py run_beat` is started, on PostgreSQL, Redis and RabbitMQ. Its clock starts when it
has signed on in the registry: its start does not count, and that it connects to the broker does. It ends when so many
rows are QUEUED, so the broker has confirmed their messages, while all that were asked for are due. Then the beat is
asked to end, and what it has in hand it finishes: there have to be as many messages as rows that are QUEUED, or at most
two batches more if it had no time for that. The peak of its memory is that since its start.
"""

import os
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from benchmarks import budgets, footprint, our_beat
from benchmarks.arguments import positive
from benchmarks.budgets import Line
from benchmarks.footprint import Cpu, Memory
from benchmarks.stage import Process, Stage, named_services, on_stage
from launcher.progress import step
from launcher.refusal import Refusal

if TYPE_CHECKING:
    from jobs.runs import Wanted

RUNS = 1_000_000
PUBLISH = 100_000
_JOB = "reminder"
_ONE_BY_ONE = 300
_LONGEST_DELAY = timedelta(seconds=10)


WHAT = "how fast delayed runs are asked for in bulk, and how fast one beat publishes them when all are due"


def add_options(options: ArgumentParser) -> None:
    options.add_argument("--runs", type=positive, default=RUNS, help=f"how many are asked for (default {RUNS})")
    publish = f"how many of them the beat publishes before it is stopped (default {PUBLISH}, or all if they are fewer)"
    options.add_argument("--publish", type=positive, default=PUBLISH, help=publish)


def measure_as_asked(options: Namespace) -> dict[str, Any]:
    return measure(options.runs, options.publish)


def measure(runs: int = RUNS, publish: int = PUBLISH) -> dict[str, Any]:
    footprint.see_that_it_is_told()
    named = named_services()
    load = os.getloadavg()[0]
    with on_stage(named) as stage:
        our_beat.prepare(stage)
        _make_job()
        with step(print, f"Asking for {runs:,} delayed runs"):
            asked = _ask_for_many(runs)
        with step(print, f"Asking for {_ONE_BY_ONE:,} one by one"):
            one_by_one_per_s = _ask_one_by_one()
        stored = runs + _ONE_BY_ONE
        _let_all_be_due(stored)
        publish = min(publish, stored)
        published = _publish(stage, publish, stored)
    figures = {
        "runs": runs,
        "rows_per_s": round(runs / asked.seconds),
        "first_rows_per_s": round(asked.first_per_s),
        "last_rows_per_s": round(asked.last_per_s),
        "enqueue_cpu_us_per_row": round(asked.cpu_s / runs * 1e6, 1),
        "one_by_one_per_s": round(one_by_one_per_s, 1),
        "ratio_one_by_one": round(runs / asked.seconds / one_by_one_per_s, 1),
        "due": stored,
        "published": publish,
        "published_per_s": round(publish / published.seconds),
        "publish_cpu_us_per_run": round(published.cpu_s / publish * 1e6, 1),
        "sent_not_noted": published.sent_not_noted,
        "beat_peak_mb": published.memory.peak_mb,
        "beat_rss_mb": published.memory.now_mb,
    }
    return {
        **figures,
        "lines": [line.as_json() for line in _lines(figures)],
        "database": "postgresql",
        "broker": "amqp",
        "redis": bool(named.redis_url),
        "cores": os.cpu_count(),
        "load_before": round(load, 2),  # of others: what they take is missing here
    }


# ── Asking ───────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Asked:
    seconds: float
    cpu_s: float
    first_per_s: float  # of the first tenth of the calls
    last_per_s: float  # and of the last: whether it grows slower with what is stored


def _make_job() -> None:
    from jobs import definitions

    definitions.create(key=_JOB, task="onbeat.echo")


def _wanted(first: int, count: int) -> "list[Wanted]":
    from jobs.runs import Wanted

    span = _LONGEST_DELAY // timedelta(milliseconds=1)
    return [
        Wanted(delay=timedelta(milliseconds=number % span), kwargs={"message": f"reminder {number}"})
        for number in range(first, first + count)
    ]


def calls(runs: int, most: int) -> Iterator[tuple[int, int]]:
    """The number of the first run of each call, and how many it asks for."""
    for first in range(0, runs, most):
        yield first, min(most, runs - first)


def _ask_for_many(runs: int) -> Asked:
    from jobs.runs import MOST_AT_ONCE, run_many

    rates: list[float] = []
    started, cpu = time.monotonic(), time.process_time()
    for first, count in calls(runs, MOST_AT_ONCE):
        began = time.monotonic()
        asked = run_many(_JOB, _wanted(first, count))
        rates.append(count / (time.monotonic() - began))
        if not all(one.is_new for one in asked):
            raise Refusal("Some of the runs were there before: no figure is worth that.")
    seconds, cpu = time.monotonic() - started, time.process_time() - cpu
    tenth = max(len(rates) // 10, 1)
    return Asked(seconds, cpu, sum(rates[:tenth]) / tenth, sum(rates[-tenth:]) / tenth)


def _ask_one_by_one() -> float:
    """How many per second."""
    from jobs.runs import run

    started = time.monotonic()
    for number in range(_ONE_BY_ONE):
        run(_JOB, delay=timedelta(milliseconds=number), kwargs={"message": f"reminder {number}"})
    return _ONE_BY_ONE / (time.monotonic() - started)


def _let_all_be_due(stored: int) -> None:
    """Once the longest delay has passed; and let the database look at them, as it would by itself in a minute."""
    from django.db import connection

    from executions.clock import database_now
    from executions.models import Execution

    with step(print, "Waiting until all are due"):
        with connection.cursor() as cursor:
            cursor.execute("VACUUM ANALYZE onbeat_execution")
        deadline = time.monotonic() + 2 * _LONGEST_DELAY.total_seconds()
        while Execution.objects.coming(database_now(), before=database_now() + 2 * _LONGEST_DELAY).exists():
            if time.monotonic() > deadline:
                raise Refusal("Some of the runs are due later than they were asked for: no figure is worth that.")
            time.sleep(0.2)
        due = Execution.objects.due(database_now()).count()
    if due != stored:
        raise Refusal(f"{stored:,} runs became {due:,} executions that are due: no figure is worth that.")


# ── Publishing ───────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Published:
    seconds: float
    cpu_s: float
    memory: Memory
    sent_not_noted: int = 0


def _publish(stage: Stage, publish: int, stored: int) -> Published:
    with step(print, f"Starting a beat and letting it publish {publish:,} of {stored:,}"):
        beat = our_beat.start(stage)
        started, cpu = time.monotonic(), Cpu.of(beat.pid)
        beat.wait_until(lambda: our_beat.queued() > 0, what="the beat has made its queue and published")
        our_beat.wait_until_queued(stage, [beat], publish)
        seconds = time.monotonic() - started
        published = Published(seconds, Cpu.of(beat.pid).since(cpu).whole, Memory.of(beat.pid))
    with step(print, "Asking the beat to end"):
        _end(beat)
    return replace(published, sent_not_noted=_see_that_each_was_sent_once(stage, publish, stored))


def _end(beat: Process) -> None:
    beat.popen.terminate()
    beat.see_that_it_ends_well()


def _see_that_each_was_sent_once(stage: Stage, publish: int, stored: int) -> int:
    """Returns how many were sent and not noted: a beat that is in the middle of two batches has seconds to end them."""
    from django.conf import settings

    from executions.models import Execution

    rows, queued, messages = Execution.objects.count(), our_beat.queued(), stage.depth(our_beat.QUEUE)
    in_hand = min(2 * settings.ONBEAT_BEAT_BATCH_SIZE, stored - queued)
    if rows != stored or queued < publish or not queued <= messages <= queued + in_hand:
        raise Refusal(
            f"Of {stored:,} runs there are {rows:,} rows, {queued:,} of them QUEUED, and {messages:,} messages: "
            "no figure is worth that."
        )
    return messages - queued


# ── Figures ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _lines(figures: dict[str, Any]) -> list[Line]:
    told = (
        ("rows_per_s", "delayed runs asked for, in bulk", "per s"),
        ("enqueue_cpu_us_per_row", "CPU of the app for each of them", "µs"),
        ("one_by_one_per_s", "the same one by one", "per s"),
        ("published_per_s", f"published, with {figures['due']:,} due", "per s"),
        ("beat_peak_mb", "the most memory of the beat", "MB"),
    )
    return [Line(name, what, figures[name], unit) for name, what, unit in told]


def in_words(figures: dict[str, Any]) -> str:
    machine = f"{figures['cores']} cores, with a load of {figures['load_before']} before it began."
    return "\n".join([budgets.table(figures["lines"]), "", machine])
