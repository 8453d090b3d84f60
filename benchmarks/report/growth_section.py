"""The model of growth in words and tables, with what each number is: measured, reckoned from such, or guessed."""

from collections.abc import Iterator, Mapping

from benchmarks.report import growth, sections
from benchmarks.report.figures_file import Report
from benchmarks.report.growth import Costs, Installation, Volume
from benchmarks.report.wording import figure, listed, number, paragraphs, percent, size, table

_RATES = (10.0, 100.0, 1000.0, growth.TARGET_PER_S)
_MEASURED, _RECKONED, _GUESSED = "measured", "reckoned", "guessed"

_ASSUMPTIONS = (
    f"A core is full when it is busy to {percent(growth.FULL)}; all cores are like those of this machine (guessed).",
    "A fire costs at any rate what it costs in a burst, where batches are large. In small ones it costs more, but then "
    "there are cores to spare.",
    "Costs were measured while all parts shared the cores. On machines of their own the parts are faster, and the "
    "network between them is slower: neither is in the model.",
    "Tasks do nothing. Whatever a real one does comes on top of the workers' cores, and nowhere else.",
    f"A queue that is read takes {percent(growth.GUESSED_SHARE_OF_A_QUEUE_THAT_IS_READ)} of what it takes while nobody "
    "reads it (guessed).",
    "WAL includes the whole pages that PostgreSQL writes after a checkpoint; how many depends on its settings.",
)

_ONE = {
    "workers": "core of workers",
    "PostgreSQL": "core of PostgreSQL",
    "RabbitMQ": "core of RabbitMQ",
    "queues": "queue",
    "beats": "beat",
    "Redis": "core of Redis",
}
_THEN = {
    "workers": "Add workers. Each of their processes has a connection to PostgreSQL; beyond some hundreds a pooler "
    "has to stand in between (not measured).",
    "PostgreSQL": "It is the one writer, and the limit that no further process moves. In this order: more cores, and a "
    "fast disk for the WAL alone; shorter retention; partitions by day, a change of `executions/partitions.py` and no "
    "setting.",
    "RabbitMQ": "More cores or more nodes. A quorum queue writes each message on several nodes, which costs more (not "
    "measured).",
    "queues": "A queue is one Erlang process, so one core, however many nodes there are. Spread jobs over several "
    "queues, and these over the nodes.",
    "beats": f"Add beats. They share {growth.SHARDS} shards, so more than that have nothing to do.",
    "Redis": "Nothing: without leases beats go on, and the database decides.",
}
_KINDS = {"queues": _GUESSED, "beats": _MEASURED}
_BEYOND = (
    "Beyond one PostgreSQL there are several installations. Jobs know nothing of each other, so groups of them can "
    "have a database and a virtual host of their own. Nothing in the product spreads jobs over several databases."
)


def section(report: Report | None, drawn: Mapping[str, str]) -> str:
    heading = "## Growth: what breaks first"
    if report is None:
        return paragraphs(heading, "Reckoned from the figures above, which are not measured yet.")
    costs = growth.costs_of(*(report.figures(name) for name in ("dispatch", "worker", "stored")))
    if not costs.core_us:
        return paragraphs(heading, "This needs the costs of a fire: `./onbeat bench --only dispatch,worker,stored`.")
    return paragraphs(
        heading,
        "A model, not a measurement: what one fire costs each part, times the number of fires. It assumes:",
        listed(_ASSUMPTIONS),
        "### What one fire costs, and its run",
        _costs(report, costs),
        _check(report, costs),
        "### What an installation carries",
        _installations(costs),
        "### A million fires a minute",
        sections.shown("growth", drawn),
        _target(costs),
        "### A billion stored runs",
        _volumes(costs),
        _billion(costs),
        "### What breaks first, and what to do then",
        _first(costs),
        _BEYOND,
    )


def _costs(report: Report, costs: Costs) -> str:
    """Of a fire and of its run; and of both together where they come slowly, in small batches."""
    stored = report.figures("stored")
    slowly = stored.get("costs") or {}
    rows: list[tuple[str, float | None, float | None, float | None, str]] = [
        ("beat", costs.beat_us, None, stored.get("large_cpu_us_per_fire"), "µs"),
        ("worker", None, costs.worker_us, None, "µs"),
        ("PostgreSQL", costs.postgres_fire_us, costs.postgres_run_us, slowly.get("postgres_cpu_us"), "µs"),
        ("RabbitMQ", costs.rabbitmq_fire_us, costs.rabbitmq_run_us, slowly.get("rabbitmq_cpu_us"), "µs"),
        ("Redis", costs.redis_us, None, slowly.get("redis_cpu_us"), "µs"),
        ("WAL", costs.wal_fire_bytes, costs.wal_run_bytes, slowly.get("wal_bytes"), "bytes"),
    ]
    told = [
        (
            part,
            "–" if part == "worker" else figure(fire, unit),
            "–" if part in ("beat", "Redis") else figure(run, unit),
            figure(both, unit),
        )
        for part, fire, run, both, unit in rows
    ]
    rate = figure(stored.get("rate"), "per second")
    return table([_MEASURED, "for a fire, in a burst", "for its run, many waiting", f"for both, {rate}"], told)


def _check(report: Report, costs: Costs) -> str:
    """The model on the machine itself."""
    limit = growth.shared_limit(costs, report.machine["cores"])
    measured = report.figures("dispatch").get("fires_per_s")
    if limit is None or not measured:
        return ""
    return (
        f"Held against the measurement: if the {report.machine['cores']} cores never waited, these costs would allow "
        f"{number(limit)} fires per second; {number(measured)} were measured, which is {percent(measured / limit)}. "
        "The rest is waiting: one beat does one thing after the other."
    )


def _installations(costs: Costs) -> str:
    rows = []
    for one in growth.INSTALLATIONS:
        found = growth.limits(costs, one)
        first = growth.first_to_break(found)
        rows.append(
            (f"{one.name}: {_in_words(one)}", number(found[first]), number(found[first] * growth.MINUTE), first)
        )
    head = ["installation", f"fires per second ({_RECKONED})", "per minute", "full first"]
    return table(head, rows)


def _in_words(one: Installation) -> str:
    return (
        f"{one.beats} {'beat' if one.beats == 1 else 'beats'}, {one.worker_cores} cores of workers, "
        f"{one.postgres_cores} of PostgreSQL, RabbitMQ on {one.rabbitmq_nodes} "
        f"{'node' if one.rabbitmq_nodes == 1 else 'nodes'} of {one.rabbitmq_cores} cores, "
        f"{one.queues} {'queue' if one.queues == 1 else 'queues'}"
    )


def _target(costs: Costs) -> str:
    per_s = growth.TARGET_PER_S
    made = growth.volume(costs, per_s)
    rows = []
    for part, count in growth.needed(costs, per_s).items():
        needs = part if part in growth.WHOLE else f"cores of {part}"
        rows.append((needs, number(count), _GUESSED if part == "queues" else _RECKONED))
    rows += [
        ("WAL per second", size(made.wal_bytes_per_s), _RECKONED),
        ("runs per day", number(per_s * growth.DAY), _RECKONED),
        (f"stored, if runs are kept {growth.RETENTION_DAYS} days", size(made.kept_bytes), _RECKONED),
        ("old rows have to be frozen every", figure(made.hours_to_freeze, "hours"), _RECKONED),
    ]
    told = f"That is {number(per_s)} per second, each published by a beat and run by a worker."
    return paragraphs(told, table(["needs", "how much", "which is"], rows), listed(list(_breaks(made))))


def _breaks(made: Volume) -> Iterator[str]:
    """What is in the way of that rate, beside cores."""
    if made.month_heap_bytes and made.month_heap_bytes > growth.LARGEST_TABLE_BYTES:
        yield (
            f"One month's executions are {size(made.month_heap_bytes)} without indexes, and a table of PostgreSQL may "
            f"have {size(growth.LARGEST_TABLE_BYTES)}: months are too coarse, it takes partitions by day."
        )
    if made.hours_to_freeze and made.hours_to_freeze < 24:
        yield (
            f"Transaction ids are used up fast: at the default of {number(growth.FREEZE_AGE)} PostgreSQL freezes all "
            f"tables every {number(made.hours_to_freeze)} hours. A larger `autovacuum_freeze_max_age` is needed."
        )
    yield "Retention drops whole partitions, which costs the same however many rows they have."


def _volumes(costs: Costs) -> str:
    head = [
        "fires per second",
        "a billion after",
        "runs per month",
        "size of a month",
        "levels of its primary key",
        "WAL per day",
    ]
    rows = []
    for per_s in _RATES:
        made = growth.volume(costs, per_s)
        wal = None if made.wal_bytes_per_s is None else made.wal_bytes_per_s * growth.DAY
        rows.append(
            (
                number(per_s),
                _long(made.days_to_a_billion),
                _millions(made.runs_per_month),
                size(made.month_bytes),
                number(made.index_levels),
                size(wal),
            )
        )
    return table(head, rows)


def _first(costs: Costs) -> str:
    """The part of which one carries least comes first."""
    each = growth.one_carries(costs)
    rows = [
        (f"a {_ONE[part]}", number(each[part]), _KINDS.get(part, _RECKONED), _THEN[part])
        for part in sorted(each, key=lambda part: each[part])
    ]
    return table(["one of it", "carries per second", "which is", "then"], rows)


def _long(days: float) -> str:
    return f"{number(days)} days" if days >= 2 else f"{number(days * 24)} hours"


def _millions(count: float) -> str:
    return f"{number(count / 1e6)} million"


def _billion(costs: Costs) -> str:
    each = costs.stored_bytes
    levels = growth.index_levels(growth.BILLION)
    if each is None:
        whole = "What a stored run takes is not measured yet, so its size is not known"
    else:
        whole = (
            f"A run takes {number(each)} bytes: execution, attempt and their indexes, measured on new rows. A billion "
            f"of them are {size(each * growth.BILLION)}"
        )
    return (
        f"{whole}. They are spread over the months in which they fired. A look-up by id reads one month only, because "
        f"ids carry the fire time: {levels} pages of an index even if all were in one month (reckoned), of which the "
        "upper ones are in memory. What is due, running or dead has partial indexes that do not grow with the past. "
        "Retention drops whole months; only a month in which something still waits is thinned out row by row. What "
        "grows is what has to be backed up, and the time that a restore takes."
    )
