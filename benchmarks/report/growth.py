"""A model of growth: what so many beats, worker cores, PostgreSQL and RabbitMQ carry, from what one fire costs.

Plain arithmetic without a clock, a file or a database. The costs are measured while all parts share the cores of one
machine. The model takes them as they are per core and assumes that cores are alike, that cost does not change with the
rate, and that a part is full when its cores are busy to `FULL`: above that, waiting grows faster than work. It knows
nothing of networks. What it says is worth as much as these assumptions, so each number on the page says whether it is
measured, reckoned or guessed.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

FULL = 0.7
SHARDS = 64  # no more beats than this have something to do
MINUTE, DAY = 60, 86_400
MONTH_DAYS = 30.44
RETENTION_DAYS = 30
TARGET_PER_S = 1_000_000 / MINUTE
BILLION = 10**9

# PostgreSQL's own limits and layout.
LARGEST_TABLE_BYTES = 32 * 2**40
TRANSACTION_IDS = 2**31
FREEZE_AGE = 200_000_000  # autovacuum_freeze_max_age as it comes
_PAGE_BYTES, _PAGE_OVERHEAD, _ENTRY_OVERHEAD = 8192, 24 + 16, 8 + 4
_PRIMARY_KEY_BYTES = 16 + 8  # id and fire_time
_LEAF_FULL, _INNER_FULL = 0.9, 0.7

# A queue is one Erlang process. With readers it delivers and forgets each message too. Nobody measured that here.
GUESSED_SHARE_OF_A_QUEUE_THAT_IS_READ = 0.5


@dataclass(frozen=True)
class Costs:
    """Of one fire that a beat publishes, and of its run by a worker whose task does nothing. Not measured: None."""

    beat_us: float | None = None
    worker_us: float | None = None
    postgres_fire_us: float | None = None
    postgres_run_us: float | None = None
    rabbitmq_fire_us: float | None = None
    rabbitmq_run_us: float | None = None
    redis_us: float | None = None
    wal_fire_bytes: float | None = None
    wal_run_bytes: float | None = None
    transaction_ids: float | None = None
    beat_per_s: float | None = None  # fires of one beat
    queue_per_s: float | None = None  # messages that one queue takes while nobody reads it
    stored_bytes: float | None = None  # execution and attempt with their indexes
    heap_bytes: float | None = None  # of that, the table of executions alone

    @property
    def core_us(self) -> dict[str, float]:
        """Of each part whose cost is known."""
        parts = {
            "beats": self.beat_us,
            "workers": self.worker_us,
            "PostgreSQL": _sum(self.postgres_fire_us, self.postgres_run_us),
            "RabbitMQ": _sum(self.rabbitmq_fire_us, self.rabbitmq_run_us),
            "Redis": self.redis_us,
        }
        return {name: us for name, us in parts.items() if us}

    @property
    def wal_bytes(self) -> float | None:
        return _sum(self.wal_fire_bytes, self.wal_run_bytes)


def _sum(*parts: float | None) -> float | None:
    """Of parts that are all known."""
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None


def costs_of(dispatch: Mapping[str, Any], worker: Mapping[str, Any], stored: Mapping[str, Any]) -> Costs:
    """From the figures of the three benchmarks; empty ones were not measured."""
    fire, run = dispatch.get("costs") or {}, worker.get("costs") or {}
    worker_ms = worker.get("worker_cpu_ms_per_execution")
    per_run = stored_bytes(stored.get("growth") or {})
    return Costs(
        beat_us=dispatch.get("beat_cpu_us_per_fire"),
        worker_us=None if worker_ms is None else worker_ms * 1000,
        postgres_fire_us=fire.get("postgres_cpu_us"),
        postgres_run_us=run.get("postgres_cpu_us"),
        rabbitmq_fire_us=fire.get("rabbitmq_cpu_us"),
        rabbitmq_run_us=run.get("rabbitmq_cpu_us"),
        redis_us=fire.get("redis_cpu_us"),
        wal_fire_bytes=fire.get("wal_bytes"),
        wal_run_bytes=run.get("wal_bytes"),
        transaction_ids=_sum(fire.get("transaction_ids"), run.get("transaction_ids")),
        beat_per_s=dispatch.get("fires_per_s"),
        queue_per_s=dispatch.get("broker_limit_per_s"),
        stored_bytes=_sum(*per_run.values()) if per_run else None,
        heap_bytes=per_run.get("execution"),
    )


def stored_bytes(grown: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """Per run, from what tables and indexes took for their new rows: of executions and attempts, rows and indexes."""
    found: dict[str, float] = {}
    for name, one in grown.items():
        table = one.get("of", name)
        kind = next((kind for kind in ("execution", "attempt") if table.startswith(f"onbeat_{kind}_")), None)
        each = one.get("bytes_per_new_row")
        if kind and each is not None:
            key = f"{kind} indexes" if "of" in one else kind
            found[key] = found.get(key, 0) + each
    return found


@dataclass(frozen=True)
class Installation:
    name: str
    beats: int
    worker_cores: int
    postgres_cores: int
    rabbitmq_nodes: int
    rabbitmq_cores: int  # of each node
    queues: int


INSTALLATIONS = (
    Installation("small", 1, worker_cores=4, postgres_cores=2, rabbitmq_nodes=1, rabbitmq_cores=2, queues=1),
    Installation("middling", 2, worker_cores=16, postgres_cores=8, rabbitmq_nodes=1, rabbitmq_cores=8, queues=2),
    Installation("large", 4, worker_cores=64, postgres_cores=32, rabbitmq_nodes=3, rabbitmq_cores=8, queues=8),
)


WHOLE = ("beats", "queues")  # there is no half of one


def limits(costs: Costs, of: Installation) -> dict[str, float]:
    """Fires per second that each part carries, run to their end; only parts whose cost is known."""
    cores = {
        "beats": min(of.beats, SHARDS),
        "workers": of.worker_cores,
        "PostgreSQL": of.postgres_cores,
        "RabbitMQ": of.rabbitmq_nodes * of.rabbitmq_cores,
        "Redis": 1,
    }
    numbers = {**cores, "queues": of.queues}
    return {part: numbers[part] * per_s for part, per_s in one_carries(costs).items()}


def one_carries(costs: Costs) -> dict[str, float]:
    """Fires per second, and their runs: one core of each part whose cost is known, one queue and one beat. A beat does
    one thing after the other and waits for the servers in between, so it carries what was measured and not a core."""
    found = {part: FULL * 1e6 / us for part, us in costs.core_us.items()}
    if costs.beat_per_s:
        found["beats"] = costs.beat_per_s
    if costs.queue_per_s:
        found["queues"] = costs.queue_per_s * GUESSED_SHARE_OF_A_QUEUE_THAT_IS_READ
    return found


def first_to_break(found: Mapping[str, float]) -> str:
    return min(found, key=lambda part: found[part])


def needed(costs: Costs, per_s: float) -> dict[str, float]:
    """How many cores of each part, beats and queues carry so many fires per second and their runs."""
    found = {part: per_s / each for part, each in one_carries(costs).items()}
    return {part: math.ceil(count) if part in WHOLE else count for part, count in found.items()}


@dataclass(frozen=True)
class Volume:
    """What a steady rate leaves behind."""

    per_s: float
    days_to_a_billion: float
    runs_per_month: float
    month_bytes: float | None  # of one month's partitions, indexes and all
    month_heap_bytes: float | None
    kept_bytes: float | None  # while runs are kept as long as they are by default
    wal_bytes_per_s: float | None
    index_levels: int  # of the primary key in one month
    hours_to_freeze: float | None  # until old rows have to be marked, again and again


def volume(costs: Costs, per_s: float) -> Volume:
    a_month = per_s * DAY * MONTH_DAYS
    ids_per_s = _times(costs.transaction_ids, per_s)
    return Volume(
        per_s=per_s,
        days_to_a_billion=BILLION / (per_s * DAY),
        runs_per_month=a_month,
        month_bytes=_times(costs.stored_bytes, a_month),
        month_heap_bytes=_times(costs.heap_bytes, a_month),
        kept_bytes=_times(costs.stored_bytes, per_s * DAY * RETENTION_DAYS),
        wal_bytes_per_s=_times(costs.wal_bytes, per_s),
        index_levels=index_levels(a_month),
        hours_to_freeze=FREEZE_AGE / ids_per_s / 3600 if ids_per_s else None,
    )


def _times(each: float | None, count: float) -> float | None:
    return None if each is None else each * count


def index_levels(rows: float, key_bytes: int = _PRIMARY_KEY_BYTES) -> int:
    """How many pages a look-up reads in a B-tree of so many entries, from its root to the leaf."""
    per_page = (_PAGE_BYTES - _PAGE_OVERHEAD) / (key_bytes + _ENTRY_OVERHEAD)
    pages = math.ceil(rows / (per_page * _LEAF_FULL))
    levels = 1
    while pages > 1:
        pages = math.ceil(pages / (per_page * _INNER_FULL))
        levels += 1
    return levels


def shared_limit(costs: Costs, cores: int) -> float | None:
    """Fires per second, published and not run, if these cores did nothing else and never waited: what was measured
    cannot be more."""
    each = _sum(costs.beat_us, costs.postgres_fire_us, costs.rabbitmq_fire_us, costs.redis_us)
    return cores * 1e6 / each if each else None
