"""What is counted and measured while it happens, in one table.

Owns the names, the labels and what each means (docs/reference/metrics.md says the same), and how a count comes to the
process that is asked for it. Invariants: a label has a fixed set of values, or those of texts in our own code; whoever
forks in the middle of a count takes no lock along; a process that counts nothing loads nothing for it; what cannot be
counted, because a disk is full or a folder was taken away, is lost, and the work that it tells of goes on.
"""

import os
import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from typing import TYPE_CHECKING, Any

from executions.states import Outcome, State

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

_FAST = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_SLOW = (0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 3600, 14400)
ENDS = (State.SUCCEEDED, State.DEAD, State.CANCELLED)

# One for all: a child that is forked while another thread counts would wait for ever at its own first count.
_lock = threading.Lock()
os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)
_is_in_vain = False


@contextmanager
def _counting() -> Iterator[None]:
    global _is_in_vain
    try:
        with _lock:
            yield
    except (OSError, TypeError, ValueError) as error:  # the library's, of a file that is not there or closed
        if not _is_in_vain:
            _is_in_vain = True
            from executions import events  # which counts its warnings

            events.emit("what happens here cannot be counted: metrics are wrong from now on", error=repr(error))


@dataclass(frozen=True)
class Count:
    """Something that only grows, as long as its process lives."""

    name: str
    says: str
    labels: dict[str, tuple[str, ...]] = field(default_factory=dict, hash=False)  # empty values: texts of our code

    def add(self, amount: float = 1, *values: str) -> None:
        if amount:
            with _counting():
                _child(self, values).inc(amount)


@dataclass(frozen=True)
class Spread:
    """How long something takes, in seconds, as a histogram."""

    name: str
    says: str
    bounds: tuple[float, ...] = _FAST
    labels: dict[str, tuple[str, ...]] = field(default_factory=dict, hash=False)

    def observe(self, seconds: float) -> None:
        with _counting():
            _child(self, ()).observe(max(0.0, seconds))

    def observe_all(self, seconds: Iterable[float]) -> None:
        """The same for thousands at a time: sorted into the buckets first, and each of these told once."""
        each = [max(0.0, one) for one in seconds]
        places = Counter(bisect_left(self.bounds, one) for one in each)
        with _counting():
            histogram = _child(self, ())
            histogram._sum.inc(sum(each))
            for place, number in places.items():
                histogram._buckets[place].inc(number)


FIRES_PLANNED = Count("onbeat_fires_planned_total", "Fires that were planned: each has its row now.")
PUBLISHED = Count(
    "onbeat_published_total",
    "Messages that the broker confirmed: first attempts of fires and of asked-for runs, and retries.",
    {"what": ("fire", "run", "retry")},
)
FIRES_SKIPPED = Count(
    "onbeat_fires_skipped_total",
    "Fires that will not run, by the reason on their row. A stretch too long to be counted counts as one.",
    {"reason": ("misfire", "overlap", "paused", "other")},
)
ATTEMPTS = Count("onbeat_attempts_total", "Attempts that ended.", {"outcome": tuple(Outcome)})
EXECUTIONS = Count("onbeat_executions_total", "Executions that ended.", {"state": tuple(ENDS)})
RETRIES = Count("onbeat_retries_total", "Attempts that failed or were lost, and after which another one follows.")
DEAD_LETTERS = Count("onbeat_dead_letters_total", "Executions that were given up.")
WARNINGS = Count(
    "onbeat_warnings_total", "Warnings in the log, by the fixed text that their line begins with.", {"event": ()}
)

LATENESS = Spread("onbeat_lateness_seconds", "From the moment an execution was due to the broker's confirm.")
PUBLISH = Spread("onbeat_publish_seconds", "To write the messages of one batch to the broker.")
CONFIRM = Spread("onbeat_confirm_seconds", "From the writing of a batch until the broker has answered for all of it.")
TICK = Spread("onbeat_tick_seconds", "One tick of a beat: look, plan, publish.")
ATTEMPT = Spread("onbeat_attempt_seconds", "From the claim of an attempt to its end.", _SLOW)

COUNTED: tuple[Count | Spread, ...] = (
    FIRES_PLANNED,
    PUBLISHED,
    FIRES_SKIPPED,
    ATTEMPTS,
    EXECUTIONS,
    RETRIES,
    DEAD_LETTERS,
    WARNINGS,
    LATENESS,
    PUBLISH,
    CONFIRM,
    TICK,
    ATTEMPT,
)


def share_through(folder: str) -> None:
    """From now on this process and those forked from it count into files of this folder. Before anything is counted."""
    from prometheus_client import values

    os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder
    # It chooses when it is loaded.
    values.ValueClass = values.MultiProcessValue()  # type: ignore[no-untyped-call]
    with _lock:
        _made.cache_clear()
        _registry.cache_clear()


def begin_at_zero() -> None:
    """Show all that can be counted from the start: a rate is not known of what first appears with its first count."""
    with _counting():
        for metric in COUNTED:
            for values in product(*metric.labels.values()):
                _child(metric, values)


def families() -> Iterator[Any]:
    """What was counted by now, by this process and those it shares a folder with, as prometheus_client has it."""
    folder = os.environ.get("PROMETHEUS_MULTIPROC_DIR")
    if not folder:
        with _lock:
            found = list(_registry().collect())
        for family in found:  # without the moments at which each was made, which nobody asks for
            family.samples = [sample for sample in family.samples if not sample.name.endswith("_created")]
        yield from found
        return
    from executions import metrics_folder

    yield from metrics_folder.families(folder)


@cache
def _registry() -> "CollectorRegistry":
    from prometheus_client import CollectorRegistry

    return CollectorRegistry()


@cache
def _made(metric: Count | Spread) -> Any:
    import prometheus_client

    labels: Sequence[str] = list(metric.labels)
    if isinstance(metric, Count):
        return prometheus_client.Counter(metric.name, metric.says, labels, registry=_registry())
    return prometheus_client.Histogram(metric.name, metric.says, labels, registry=_registry(), buckets=metric.bounds)


def _child(metric: Count | Spread, values: Sequence[str]) -> Any:
    return _made(metric).labels(*values) if metric.labels else _made(metric)


@dataclass(frozen=True)
class Gauge:
    """Something that is looked at when somebody asks. A name that ends in _total only grows."""

    name: str
    says: str
    labels: dict[str, tuple[str, ...]] = field(default_factory=dict, hash=False)  # empty values: names of things

    def __post_init__(self) -> None:
        GAUGES[self.name] = self

    def of(self, value: float | Mapping[str, float]) -> Any:
        """As prometheus_client has it; with a label, a value for each of its values."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        kind = CounterMetricFamily if self.name.endswith("_total") else GaugeMetricFamily
        if not isinstance(value, Mapping):
            return kind(self.name, self.says, value=float(value))
        family = kind(self.name, self.says, labels=list(self.labels))
        for label, each in value.items():
            family.add_metric([label], float(each))
        return family


GAUGES: dict[str, Gauge] = {}
BUILD = Gauge("onbeat_build_info", "Always 1; the version is its label.", {"version": ()})
