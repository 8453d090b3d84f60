"""The page of figures: made from the file of figures and from nothing else, so anybody can make it anew and compare.

`python -m benchmarks report` makes it without measuring anything.
"""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from pathlib import Path

from benchmarks.report import candour, figures_file, growth_section, pictures, sections
from benchmarks.report.figures_file import Measured, Place, Report
from benchmarks.report.sections import REFERENCE
from benchmarks.report.wording import number, paragraphs, table, wrapped

WHAT = "make the page and its pictures anew from the figures that were measured"

_INTRODUCTION = f"""\
# Figures

How fast Onbeat is, beside others where others do the same, and where it is not best. `make bench` measures all of it
and makes this page; nothing here is written by hand. What a benchmark does exactly, and its options, is told in the
[reference]({REFERENCE}), which also has the [figures]({REFERENCE}#figures) of the REST API and the admin."""

_REPEAT = """\
## How to repeat it

```
make bench
make bench ONLY=dispatch,worker
.venv/bin/python -m benchmarks report
```

The first runs everything, on PostgreSQL, Redis and RabbitMQ that it starts itself unless the environment names others;
each benchmark makes a database, queues and keys of its own there and removes them. The second measures some again and
keeps the others. The third makes this page from [the file of figures](benchmarks.json) without measuring. The exit code
is 1 if a benchmark fails or misses a budget. Let nothing else run on the machine."""

_REPEAT_WITHOUT_FIGURES = _REPEAT.replace(
    "[the file of figures](benchmarks.json)", "`docs/explanation/benchmarks.json`"
)


def add_options(options: ArgumentParser) -> None:
    options.add_argument("--to", type=Path, metavar="FOLDER", help="figures from there and page to there")


def run(options: Namespace) -> int:
    place = Place(options.to.resolve()) if options.to else Place()
    made = make(place, figures_file.read(place.figures))
    print(f"Written: {place.page} and {len(made)} pictures in {place.images}.")
    return 0


def make(place: Place, report: Report | None) -> list[Path]:
    """Write the page and its pictures, and remove pictures that nobody shows any more; returns those that are."""
    drawn = pictures.all_of(report) if report else {}
    wanted = {place.picture(name): picture for name, picture in drawn.items()}
    place.images.mkdir(parents=True, exist_ok=True)
    for left in set(place.pictures()) - set(wanted):
        left.unlink()
    for path, picture in wanted.items():
        path.write_text(picture, encoding="utf-8")
    place.page.parent.mkdir(parents=True, exist_ok=True)
    place.page.write_text(text(report, drawn), encoding="utf-8")
    return sorted(wanted)


def text(report: Report | None, drawn: dict[str, str]) -> str:
    parts = [
        _INTRODUCTION,
        _machine(report) if report else "No figures have been kept yet: `make bench` measures them.",
        _budgets(report) if report else "",
        sections.all_of(report, drawn),
        _memory(drawn),
        candour.section(report),
        growth_section.section(report, drawn),
        _repeat(report),
    ]
    return wrapped(paragraphs(*parts)) + "\n"


def _machine(report: Report) -> str:
    machine, versions = report.machine, report.versions
    rows = [
        ("machine", f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gb']} GB of memory"),
        ("system", f"{machine['system']}, {machine['kernel']}"),
        ("servers", _versions(versions, "postgresql", "rabbitmq", "erlang", "redis")),
        ("ours", _versions(versions, "onbeat", "python", "celery", "kombu", "amqp", "Django", "psycopg")),
        ("peers", _versions(versions, "django-celery-beat", "celery-redbeat", "django-celery-results")),
        ("last run", f"{report.last_run.date}, commit {_commit(report.last_run.commit, report.last_run.is_clean)}"),
    ]
    return table(["", "on which all of it was measured"], rows)


def _versions(versions: dict[str, str | None], *names: str) -> str:
    return ", ".join(f"{name} {versions.get(name) or 'none'}" for name in names)


def _commit(commit: str | None, is_clean: bool) -> str:
    if commit is None:
        return "unknown"
    return f"`{commit[:10]}`" + ("" if is_clean else " with changes")


def _budgets(report: Report) -> str:
    rows = list(_budget_rows(report))
    if not rows:
        return ""
    missed = sum(row[-1] != "met" for row in rows)
    told = f"{missed} of {len(rows)} are missed." if missed else f"All {len(rows)} are met."
    return paragraphs("## Budgets", told, table(["benchmark", "what", "figure", "must be", ""], rows))


def _budget_rows(report: Report) -> Iterator[tuple[str, ...]]:
    for name, measured in report.benchmarks.items():
        for line in measured.figures.get("lines", []):
            if line["budget"] is None:
                continue
            sign = "≥" if line.get("is_minimum") else "≤"
            told, must = (f"{number(line[key])} {line['unit']}".strip() for key in ("figure", "budget"))
            yield name, line["what"], told, f"{sign} {must}", "met" if line["is_met"] else "**missed**"


def _memory(drawn: dict[str, str]) -> str:
    if "memory" not in drawn:
        return ""
    told = (
        "A beat is one Python process with Django and Celery in it. It holds what is due within its look-ahead, never "
        "all schedules. Measured by `stored` and `enqueue`."
    )
    return paragraphs("## Memory", told, sections.shown("memory", drawn))


def _repeat(report: Report | None) -> str:
    if report is None:
        return _REPEAT_WITHOUT_FIGURES
    rows = [_measured(name, one) for name, one in report.benchmarks.items()]
    return paragraphs(_REPEAT, table(["command", "when", "commit", "took", "load before"], rows))


def _measured(name: str, one: Measured) -> tuple[str, ...]:
    load = one.figures.get("load_before")
    command = one.command or f"python -m benchmarks {name} --json"
    return (
        f"`{command}`",
        one.date,
        _commit(one.commit, one.is_clean),
        f"{number(one.seconds)} s",
        "–" if load is None else f"{load:.1f}",
    )
