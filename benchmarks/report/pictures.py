"""Which picture is made of which figures. A picture without figures is not made."""

from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.report import growth
from benchmarks.report.figures_file import Report
from benchmarks.report.plots import Bar, Mark, Panel, Whose, bars, line
from benchmarks.report.wording import number, percent

Figures = Mapping[str, Any]

# What their figures are called, and what they are.
WORKERS = {
    "executions": "Onbeat",
    "plain": "plain Celery, no results",
    "plain_defaults": "plain Celery, neither logs nor events",
    "results_kept_connection": "Celery with results, kept connection",
    "results": "Celery with django-celery-results",
}


def all_of(report: Report) -> dict[str, str]:
    """By name, as SVG."""
    made = {name: draw(report) for name, draw in _PICTURES.items()}
    return {name: picture for name, picture in made.items() if picture}


def _dispatch(report: Report) -> str:
    figures = report.figures("dispatch")
    if not figures:
        return ""
    found = [("RabbitMQ, ready messages", figures.get("broker_limit_per_s"), Whose.LIMIT)]
    found.append(("Onbeat, one beat", figures["fires_per_s"], Whose.OURS))
    for key in ("redbeat", "celery_beat", "peer"):
        found.append((peer_name(figures, key), figures.get(f"{key}_fires_per_s"), Whose.OTHER))
    shown = [Bar(label, value, whose) for label, value, whose in found if value]
    subtitle = f"{number(figures['fires'])} due at once; more is better; powers of ten"
    return bars("Fires per second, by system", subtitle, [Panel(_largest_first(shown), "fires/s", is_log=True)])


def peer_name(figures: Figures, key: str) -> str:
    """With its version; celery's own beat is in the package of celery."""
    name = str(figures.get(key, key.replace("_", " ")))
    return name.replace("celery ", "celery beat ") if key == "celery_beat" else name


def _mark(figures: Figures, name: str, words: str) -> Mark | None:
    found = next((one for one in figures.get("lines", []) if one["name"] == name), None)
    if found is None or found["budget"] is None:
        return None
    return Mark(found["budget"], f"budget: {words} {number(found['budget'])} {found['unit']}")


def _largest_first(shown: list[Bar]) -> list[Bar]:
    return sorted(shown, key=lambda bar: -bar.value)


def _lateness(report: Report) -> str:
    figures = report.figures("lateness")
    if not figures:
        return ""
    found = [(name, figures.get(f"{name}_ms")) for name in ("p50", "p95", "p99", "max")]
    known = [(name, value) for name, value in found if value]
    subtitle = f"{number(figures.get('rate', 500))} per second, two beats; ms until the broker's confirm"
    return line("How late fires are", subtitle, known, "ms", _mark(figures, "steady_p99", "p99 at most"))


def _stored(report: Report) -> str:
    figures = report.figures("stored")
    if not figures:
        return ""
    few, many = figures["small_cpu_us_per_fire"], figures["large_cpu_us_per_fire"]
    labels = [f"{number(figures[key])} schedules stored" for key in ("small_schedules", "schedules")]
    ratio = _mark(figures, "ratio_cpu", "at most")
    mark = Mark(ratio.value * few, f"{ratio.text} the first") if ratio else None
    panel = Panel([Bar(labels[0], few), Bar(labels[1], many)], "µs", mark=mark)
    subtitle = f"µs of CPU per fire, {number(figures.get('rate', 100))} due per second; less is better"
    return bars("Cost of a fire, by stored schedules", subtitle, [panel])


def _failover(report: Report) -> str:
    figures = report.figures("failover")
    if not figures:
        return ""
    shown = [Bar(f"kill {place}", run["latest_s"]) for place, run in enumerate(figures["runs"], start=1)]
    panel = Panel(shown, "s", mark=_mark(figures, "latest", "at most"))
    return bars("A beat killed in a burst", "seconds that the latest fire is late; less is better", [panel])


def _scale_out(report: Report) -> str:
    figures = report.figures("scale_out")
    if not figures:
        return ""

    def each(key: str) -> list[Bar]:
        return [Bar("1 beat" if run["beats"] == 1 else f"{run['beats']} beats", run[key]) for run in figures["runs"]]

    panels = [
        Panel(each("fires_per_s"), "fires/s", "Fires per second; more is better"),
        Panel(each("cpu_us_per_fire"), "µs", "µs of CPU per fire; less is better"),
    ]
    cores = report.machine["cores"]
    return bars("Several beats", f"{number(figures['fires'])} due at once, on {cores} cores that all share", panels)


def _worker(report: Report) -> str:
    figures = report.figures("worker")
    if not figures:
        return ""
    shown = [
        Bar(name, figures[f"{key}_per_s"], Whose.OURS if key == "executions" else Whose.OTHER)
        for key, name in WORKERS.items()
        if figures.get(f"{key}_per_s")
    ]
    subtitle = "a task that does nothing, two processes; more is better"
    return bars("Executions per second", subtitle, [Panel(_largest_first(shown), "per s")])


def _memory(report: Report) -> str:
    stored, enqueue = report.figures("stored"), report.figures("enqueue")
    shown = []
    for prefix in ("small_", "") if stored else ():
        count = f"{number(stored[f'{prefix}schedules'])} stored"
        found = ((f"{count}, at the end", f"{prefix}beat_rss_mb"), (f"{count}, at its peak", f"{prefix}beat_peak_mb"))
        shown += [Bar(label, stored[key]) for label, key in found if key in stored]
    if enqueue.get("beat_peak_mb"):
        shown.append(Bar("publishing delayed runs, peak", enqueue["beat_peak_mb"]))
    if not shown:
        return ""
    panel = Panel(shown, "MB", mark=_mark(stored, "beat_peak_mb", "at most"))
    return bars("Memory of a beat", "MB of resident memory; less is better", [panel])


def _growth(report: Report) -> str:
    costs = growth.costs_of(*(report.figures(name) for name in ("dispatch", "worker", "stored")))
    cores = growth.needed(costs, growth.TARGET_PER_S)
    cores.pop("queues", None)
    if not cores:
        return ""
    shown = _largest_first([Bar(part, count) for part, count in cores.items()])
    subtitle = f"cores that are busy to {percent(growth.FULL)}, and beats; reckoned"
    return bars("For a million fires a minute", subtitle, [Panel(shown, "cores")])


_PICTURES: dict[str, Callable[[Report], str]] = {
    "dispatch": _dispatch,
    "lateness": _lateness,
    "stored": _stored,
    "failover": _failover,
    "scale-out": _scale_out,
    "worker": _worker,
    "memory": _memory,
    "growth": _growth,
}
