"""Where we are not best: found in the figures, and what they do not tell."""

from collections.abc import Iterator

from benchmarks.report.figures_file import Report
from benchmarks.report.pictures import peer_name
from benchmarks.report.wording import listed, number, paragraphs, times

_AIM_FAILOVER_S, _AIM_RATIO_LIMIT, _AIM_RATIO_PLAIN = 2, 0.6, 0.6
_NEARLY_THE_SAME = 1.1
_ALWAYS = (
    "Onbeat needs PostgreSQL, RabbitMQ and, for several beats, Redis. celery beat needs a broker and a file.",
    "Peers are measured as they come. Whoever knows them well can make them faster, above all django-celery-beat by "
    "letting it keep its connection to the database (`python -m benchmarks dispatch --peer-keeps-connection`).",
    "Lateness, memory and cost at rest are measured of Onbeat alone. celery beat asks nobody anything while it waits, "
    "so at rest it must cost less.",
    "Everything runs on one machine: beats, workers, servers and who measures share its cores, and no message crosses "
    "a network. Ratios of one run tell more than figures, and other machines have others.",
    "Tasks do nothing and payloads are small. A task that takes a second makes all of this matter less.",
)


def section(report: Report | None) -> str:
    """Missed budgets first; they are also in the table of budgets."""
    found = [*_missed(report), *_slower(report), *_short_of_aims(report)] if report else []
    return paragraphs("## Where we are not best", listed([*found, *_ALWAYS]))


def _missed(report: Report) -> Iterator[str]:
    for name, measured in report.benchmarks.items():
        for line in measured.figures.get("lines", []):
            if line["is_met"] is False:
                sign = "at least" if line.get("is_minimum") else "at most"
                told = f"{number(line['figure'])} {line['unit']}".strip()
                must = f"{number(line['budget'])} {line['unit']}".strip()
                yield f"**A budget is missed**: {name}, {line['what']}: {told}, and it must be {sign} {must}."


def _slower(report: Report) -> Iterator[str]:
    """Than whom, and for what."""
    dispatch, worker = report.figures("dispatch"), report.figures("worker")
    if dispatch.get("ratio_limit", 1) < 1:
        faster = times(1 / dispatch["ratio_limit"])
        yield (
            f"RabbitMQ takes ready-made messages {faster} as fast as one beat fires. The beat also writes a row for "
            "each fire, moves its schedule on, takes a lease, packs the message and notes the confirm."
        )
    for key in ("redbeat", "celery_beat", "peer"):
        if dispatch and dispatch.get(f"{key}_fires_per_s", 0) > dispatch["fires_per_s"]:
            yield f"{peer_name(dispatch, key)} fires more per second than one beat of ours."
    if worker.get("ratio_plain", 1) < 1:
        told = f"Plain Celery without results runs {times(1 / worker['ratio_plain'])} as many tasks that do nothing. "
        ours, plain = (worker.get(f"{whose}_cpu_ms_per_execution") for whose in ("worker", "plain"))
        if ours and plain:
            told += f"An execution of ours takes {number(ours)} ms of the worker's CPU, of theirs {number(plain)} ms. "
        yield told + "A claim and a finish, each a commit in PostgreSQL, are what makes the difference."
    if worker.get("ratio_results_kept_connection", 1) < 1:
        faster = times(1 / worker["ratio_results_kept_connection"])
        yield f"Plain Celery whose results go over kept connections runs {faster} as many."
    yield from _more_beats(report)
    yield from _more_stored(report)


def _more_beats(report: Report) -> Iterator[str]:
    runs = {run["beats"]: run["fires_per_s"] for run in report.figures("scale_out").get("runs", [])}
    if len(runs) > 1 and (gain := runs[max(runs)] / runs[min(runs)]) < max(runs) / min(runs) / 2:
        yield (
            f"{max(runs)} beats fire {times(gain)} as fast as {min(runs)}, on {report.machine['cores']} cores that "
            "they share with PostgreSQL and RabbitMQ."
        )


def _more_stored(report: Report) -> Iterator[str]:
    """The budget is for the beat; others pay as well."""
    stored = report.figures("stored")
    few, many = (stored.get(f"{prefix}server_cpu_us_per_fire") for prefix in ("small_", ""))
    if few and many and (ratio := many / few) > _NEARLY_THE_SAME:
        schedules, executions, small = (number(stored[key]) for key in ("schedules", "executions", "small_schedules"))
        yield (
            f"With {schedules} schedules and {executions} executions stored, a fire with its run costs PostgreSQL "
            f"{times(ratio)} as much CPU as with {small} schedules and no past."
        )


def _short_of_aims(report: Report) -> Iterator[str]:
    """Better than they must be, and not yet as they should be."""
    figures = (
        ("failover", "latest_s", _AIM_FAILOVER_S, "the latest fire after a kill is {} s late; the aim is {} s"),
        ("dispatch", "ratio_limit", _AIM_RATIO_LIMIT, "one beat reaches {} of the broker's limit; the aim is {}"),
        ("worker", "ratio_plain", _AIM_RATIO_PLAIN, "a worker reaches {} of plain Celery's; the aim is {}"),
    )
    for name, key, aim, text in figures:
        value = report.figures(name).get(key)
        if value is not None and (value > aim if name == "failover" else value < aim):
            told = text.format(number(value), number(aim))
            yield f"{told[0].upper()}{told[1:]}."
