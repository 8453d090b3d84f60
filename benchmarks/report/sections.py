"""What the page says about each benchmark: what is measured, its picture, its figures. Markdown out."""

from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.report.figures_file import Report
from benchmarks.report.pictures import WORKERS, peer_name
from benchmarks.report.wording import figure, number, paragraphs, percent, size, table, times

Figures = Mapping[str, Any]
REFERENCE = "../reference/benchmarks.md"


def all_of(report: Report | None, pictures: Mapping[str, str]) -> str:
    """One section after the other; one without figures says how to get them."""
    parts = []
    for title, name, picture, tell in _SECTIONS:
        figures = report.figures(name) if report else {}
        told = tell(figures) if figures else f"Not measured yet: `./onbeat bench --only {name}`."
        what = f"{_WHAT[name]} [In detail]({REFERENCE}#{name})."
        parts.append(paragraphs(f"## {title}", what, shown(picture, pictures), told))
    return paragraphs(*parts)


def shown(name: str, pictures: Mapping[str, str]) -> str:
    """A picture, with what it says for those who do not see it; nothing if it was not made."""
    if name not in pictures:
        return ""
    title, said = (_between(f"<{tag} ", f"</{tag}>", pictures[name]) for tag in ("title", "desc"))
    return f"![{title}: {said}](../images/bench-{name}.svg)"


def _between(start: str, end: str, text: str) -> str:
    return text.partition(start)[2].partition(">")[2].partition(end)[0]


_WHAT = {
    "dispatch": "All schedules are due at one moment, and one beat fires them. It is done when each fire has its row "
    "in PostgreSQL and RabbitMQ has confirmed its message. Peers are measured in the same run on the same servers, "
    "with the settings that they come with: they keep no row of a fire and wait for no confirm. RabbitMQ's own limit "
    "is how fast it takes and confirms the same messages, ready-made. All take turns, and their turns count together.",
    "lateness": "Two beats. Late is the time from a fire's moment to the broker's confirm, by the database's clock. "
    "First fires come steadily, then many at one instant.",
    "stored": "One beat and one worker with few schedules and no past, then with very many of both; as many are due "
    "per second each time. The cost of a fire is the CPU of the whole beat, upkeep included.",
    "failover": "Two beats fire a burst and steady ones beside it; one of them is killed with SIGKILL in the middle of "
    "the burst. Every fire counts.",
    "scale_out": "The same burst with one, two and four beats. A lost lease is a fire that a beat read for nothing, "
    "because another beat has it.",
    "worker": "Executions of a task that does nothing, by one worker with two processes (prefork). Beside it the same "
    "worker of plain Celery, without results and with django-celery-results. All take turns, and their turns count "
    "together.",
    "enqueue": "Delayed runs are made in bulk from Python; then they become due, and a beat publishes them.",
    "idle": "Schedules are stored, and none is due for hours.",
    "recurrence": "How many next fires are found per second, in the way that a beat asks for them. It needs no server.",
}


def _dispatch(figures: Figures) -> str:
    rows = [("RabbitMQ, ready messages", figures.get("broker_limit_per_s"), "the limit: no beat at all")]
    rows.append(("**Onbeat**, one beat", figures["fires_per_s"], "a row per fire, each message confirmed"))
    kept = {
        "redbeat": "the last run of each task, in Redis",
        "celery_beat": "the last run of each task, in a file every three minutes",
        "peer": "the last run of each task, in the database every three minutes",
    }
    rows += [(peer_name(figures, key), figures.get(f"{key}_fires_per_s"), what) for key, what in kept.items()]
    known = sorted(((name, value, what) for name, value, what in rows if value), key=lambda row: -row[1])
    told = []
    if figures.get("ratio_peer"):
        told.append(f"Onbeat fires {times(figures['ratio_peer'])} as fast as {peer_name(figures, 'peer')}.")
    if figures.get("ratio_limit"):
        told.append(f"It reaches {percent(figures['ratio_limit'])} of what the broker takes.")
    if figures.get("beat_cpu_us_per_fire"):
        told.append(f"A fire costs the beat {number(figures['beat_cpu_us_per_fire'])} µs of CPU.")
    return paragraphs(
        table(["system", "fires per second", "what it keeps"], [(name, number(n), what) for name, n, what in known]),
        " ".join(told),
    )


def _lateness(figures: Figures) -> str:
    steady = f"{number(figures.get('rate', 500))} per second"
    burst = f"{number(figures['burst_fires'])} at one instant"
    is_ordered = figures["burst_is_by_priority"]
    rows = [
        (steady, "half within", figure(figures["p50_ms"], "ms")),
        (steady, "99 of 100 within", figure(figures["p99_ms"], "ms")),
        (steady, f"the latest of {number(figures['fires'])}", figure(figures["max_ms"], "ms")),
        (burst, "half within", figure(figures["burst_p50_s"], "s")),
        (burst, "the last", figure(figures["burst_last_s"], "s")),
        (burst, "priority 9 before priority 0 within a beat", "yes" if is_ordered else "NO"),
    ]
    return table(["fires", "what", "figure"], rows)


def _stored(figures: Figures) -> str:
    rows = [
        (
            f"{number(figures[f'{prefix}schedules'])} schedules, {number(figures[f'{prefix}executions'])} executions",
            figure(figures[f"{cost}_cpu_us_per_fire"], "µs"),
            figure(figures.get(f"{prefix}server_cpu_us_per_fire"), "µs"),
            figure(figures.get(f"{prefix}late_p99_ms"), "ms"),
        )
        for prefix, cost in (("small_", "small"), ("", "large"))
    ]
    head = ["stored", "CPU of the beat per fire", "of PostgreSQL", "late, 99 of 100 within"]
    told = f"That is {times(figures['ratio_cpu'])} the cost of a fire with few."
    return paragraphs(table(head, rows), told, _tables(figures))


def _tables(figures: Figures) -> str:
    """Whether they bloat."""
    grown: dict[str, dict[str, Any]] = figures.get("growth") or {}
    rows = []
    for name, one in grown.items():
        if "of" in one:
            continue
        indexes = [index for index in grown.values() if index.get("of") == name]
        rows.append(
            (
                f"`{name}`",
                *(
                    f"{size(one[key])} + {size(sum(index[key] for index in indexes))}"
                    for key in ("start_bytes", "end_bytes")
                ),
                number(one["rows_end"] - one["rows_start"]),
                number(one["dead_end"]),
                number(one["autovacuums"]),
            )
        )
    if not rows:
        return ""
    head = ["table", "table + indexes at the start", "at the end", "new rows", "dead rows at the end", "autovacuums"]
    seconds = number(figures["seconds"])
    return paragraphs(f"The tables over {seconds} s of {number(figures['rate'])} fires per second:", table(head, rows))


def _failover(figures: Figures) -> str:
    rows = [
        ("the latest of all fires", figure(figures["latest_s"], "s")),
        ("from the kill until the burst is queued", figure(figures["takeover_s"], "s")),
        ("lost", number(figures["lost"])),
        ("doubled", number(figures["doubled"])),
        ("messages sent a second time, which workers drop", number(figures["sent_twice"])),
    ]
    kills = len(figures["runs"])
    return table([f"the worst of {kills} kills" if kills > 1 else "one kill", "figure"], rows)


def _scale_out(figures: Figures) -> str:
    rows = [
        (
            number(run["beats"]),
            number(run["fires_per_s"]),
            number(run["cpu_us_per_fire"]),
            percent(run["lost_lease_share"]),
        )
        for run in figures["runs"]
    ]
    return table(["beats", "fires per second", "µs of CPU per fire", "lost leases"], rows)


def _worker(figures: Figures) -> str:
    known = [(key, name) for key, name in WORKERS.items() if figures.get(f"{key}_per_s")]
    rows = []
    for key, name in sorted(known, key=lambda one: -figures[f"{one[0]}_per_s"]):
        is_ours = key == "executions"
        cpu = figures.get(f"{'worker' if is_ours else key}_cpu_ms_per_execution")
        rows.append((f"**{name}**" if is_ours else name, number(figures[f"{key}_per_s"]), figure(cpu, "ms")))
    told = f"Onbeat runs {times(figures['ratio_results'])} as many as plain Celery that keeps results, and "
    told += f"{times(figures['ratio_plain'])} as many as plain Celery that keeps nothing."
    return paragraphs(table(["worker", "executions per second", "CPU of the worker for one"], rows), told)


def _enqueue(figures: Figures) -> str:
    rows = [
        ("rows made per second", figure(figures.get("rows_per_s"))),
        ("published per second", figure(figures.get("published_per_s"))),
        ("memory of the beat at its peak", figure(figures.get("beat_peak_mb"), "MB")),
    ]
    return table(
        [f"{figure(figures.get('runs'))} delayed runs" if "runs" in figures else "delayed runs", "figure"], rows
    )


def _idle(figures: Figures) -> str:
    rows = [
        ("CPU", f"{number(figures['cpu_percent'])} % of a core"),
        (figures.get("counted_by", "queries"), f"{number(figures['queries_per_s'])} per second"),
    ]
    return table([f"{number(figures['schedules'])} schedules stored", "figure"], rows)


def _recurrence(figures: Figures) -> str:
    rows = [
        (f"{number(figures['jobs'])} jobs that say one of {number(figures['expressions'])} things", "shared_per_s"),
        ("croniter, asked for the same", "croniter_per_s"),
    ]
    return table(["next fires", "per second"], [(name, number(figures[key])) for name, key in rows])


# Title, benchmark, picture, and who tells it.
_SECTIONS: tuple[tuple[str, str, str, Callable[[Figures], str]], ...] = (
    ("Fires per second", "dispatch", "dispatch", _dispatch),
    ("How late fires are", "lateness", "lateness", _lateness),
    ("When very much is stored", "stored", "stored", _stored),
    ("When a beat is killed", "failover", "failover", _failover),
    ("Several beats", "scale_out", "scale-out", _scale_out),
    ("Executions per second", "worker", "worker", _worker),
    ("A million delayed runs", "enqueue", "", _enqueue),
    ("A beat that has nothing to do", "idle", "", _idle),
    ("Finding the next fire", "recurrence", "", _recurrence),
)
