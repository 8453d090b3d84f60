"""The one file of figures: what was measured, where, when and of which commit; and where the page and pictures go.

Each benchmark has a date and a commit of its own, because some can be measured again without the others. Invariant:
all figures of a file are of one machine and of the same versions, so that they may stand beside each other.
"""

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from launcher.folders import ROOT
from launcher.refusal import Refusal

DOCS = ROOT / "docs"


@dataclass(frozen=True)
class Place:
    """A folder that is laid out as that of the documentation."""

    root: Path = DOCS

    @property
    def figures(self) -> Path:
        return self.root / "explanation" / "benchmarks.json"

    @property
    def page(self) -> Path:
        return self.root / "explanation" / "benchmarks.md"

    @property
    def images(self) -> Path:
        return self.root / "images"

    def picture(self, name: str) -> Path:
        return self.images / f"bench-{name}.svg"

    def pictures(self) -> list[Path]:
        return sorted(self.images.glob("bench-*.svg"))


# As git writes paths, for the question whether anything else differs from the commit.
OUTPUTS = ("docs/explanation/benchmarks.json", "docs/explanation/benchmarks.md", "docs/images/bench-*.svg")


@dataclass(frozen=True)
class Run:
    """When, of which commit and by which command."""

    date: str
    commit: str | None
    is_clean: bool
    command: str


@dataclass(frozen=True)
class Measured(Run):
    seconds: float
    figures: dict[str, Any]


@dataclass(frozen=True)
class Report:
    machine: dict[str, Any]
    versions: dict[str, str | None]
    last_run: Run
    benchmarks: dict[str, Measured] = field(default_factory=dict)

    def figures(self, name: str) -> dict[str, Any]:
        """Of one benchmark; empty if it was not measured."""
        measured = self.benchmarks.get(name)
        return measured.figures if measured else {}

    def with_figures(self, name: str, measured: Measured) -> "Report":
        return dataclasses.replace(self, benchmarks={**self.benchmarks, name: measured})


def read(path: Path) -> Report | None:
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        run = Run(**{name: stored.pop(name) for name in ("date", "commit", "is_clean", "command")})
        benchmarks = {name: Measured(**one) for name, one in stored.pop("benchmarks").items()}
        return Report(**stored, last_run=run, benchmarks=benchmarks)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise Refusal(
            f"{path} cannot be read as figures ({problem}): restore it, or delete it and measure all."
        ) from problem


def write(path: Path, report: Report) -> None:
    """In one step: whoever reads it never sees half of it."""
    stored = {
        **dataclasses.asdict(report.last_run),
        "machine": report.machine,
        "versions": report.versions,
        "benchmarks": {name: dataclasses.asdict(one) for name, one in report.benchmarks.items()},
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_text(json.dumps(stored, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    unfinished.replace(path)


def begun(before: Report | None, this: Report, *, is_whole: bool, path: Path) -> Report:
    """The report that this run adds to. What others measured elsewhere is not mixed in: a run of all benchmarks begins
    anew, and one of only some is refused."""
    if before is None:
        return this
    if (before.machine, before.versions) == (this.machine, this.versions):
        return dataclasses.replace(this, benchmarks=before.benchmarks)
    if is_whole:
        return this
    differ = [
        f"{name} {there.get(name)} there and {here.get(name)} here"
        for there, here in ((before.machine, this.machine), (before.versions, this.versions))
        for name in {**there, **here}
        if there.get(name) != here.get(name)
    ]
    raise Refusal(
        f"The figures in {path} are not of this machine and these versions ({'; '.join(differ)}): measure all of them "
        "anew without --only, or write elsewhere with --to FOLDER."
    )
