"""`make bench`, or `./onbeat bench`: one benchmark after the other, their figures into one file, and the page from it.

Each is a process of its own, `python -m benchmarks NAME --json`, exactly as anybody calls it. Its figures are written
down as soon as it ends, so whatever happens later, they are kept. One that fails is told at the end, and so is each
budget that is missed; then the exit code is 1.
"""

import contextlib
import json
import os
import shlex
import subprocess
import sys
import threading
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from benchmarks import budgets
from benchmarks.report import figures_file, machine, page
from benchmarks.report.figures_file import Measured, Place, Report, Run
from benchmarks.stage import is_any_service_named, named_services
from launcher import env_file, folders, services
from launcher.folders import ROOT
from launcher.progress import step
from launcher.service_record import Addresses

WHAT = "run all benchmarks, keep their figures in one file, and make the page from it"

# Short ones first.
USUAL = ("recurrence", "idle", "dispatch", "failover", "scale_out", "worker", "lateness", "enqueue", "stored")
# Whether they work, and no figures.
QUICK = {
    "recurrence": "--jobs 1000",
    "idle": "--schedules 100 --seconds 2",
    "dispatch": "--fires 500 --peer-fires 20 --redbeat-fires 50 --celery-beat-fires 50 --turns 1",
    "failover": "--fires 1500 --rate 20 --seconds 3 --times 1",
    "scale_out": "--fires 1000 --beats 1,2",
    "worker": "--executions 300 --turns 1",
    "lateness": "--rate 50 --seconds 3 --burst 300",
    "enqueue": "--runs 5000",
    "stored": "--schedules 2000 --executions 5000 --few 500 --rate 20 --seconds 10",
    "api": "--quick --rows 2000",
    "admin": "--quick --rows 20000 --jobs 500",
    "apply": "--jobs 5",
}
_BUSY_SHARE = 0.5


class Failed(Exception):
    """One benchmark has no figures; the text says why."""


def add_options(options: ArgumentParser, known: Sequence[str]) -> None:
    def names(text: str) -> list[str]:
        unknown = [name for name in text.split(",") if name not in known]
        if unknown:
            options.error(f"There is no benchmark {unknown[0]!r}; there are: {', '.join(known)}.")
        return text.split(",")

    which = options.add_mutually_exclusive_group()
    only = "measure these alone; the figures of the others stay, with their own date and commit"
    which.add_argument("--only", type=names, metavar="NAMES", help=only)
    which.add_argument(
        "--also", type=names, default=[], metavar="NAMES", help=f"beside the usual ones, which are {', '.join(USUAL)}"
    )
    options.add_argument("--to", type=Path, metavar="FOLDER", help="write there and not to the documentation")
    options.add_argument("--quick", action="store_true", help="ask for little: whether it works; only with --to")
    options.set_defaults(refuse=options.error)


def run(options: Namespace) -> int:
    if options.quick and options.to is None:
        options.refuse("--quick makes no figures worth keeping: name another folder with --to.")
    place = Place(options.to.resolve()) if options.to else Place()
    chosen: Sequence[str] = options.only or (*USUAL, *options.also)
    command = shlex.join(["./onbeat", "bench", *sys.argv[2:]])
    problems: dict[str, str] = {}
    with _services() as named:
        report = _begin(place, named, command, is_whole=not options.only)
        for number, name in enumerate(chosen, start=1):
            began = datetime.now(UTC)
            words = shlex.split(QUICK.get(name, "")) if options.quick else []
            try:
                with step(_say, f"{name}, {number} of {len(chosen)}, since {began.astimezone():%H:%M}"):
                    measured = _measure(name, words, named, report.last_run, began)
            except Failed as problem:
                problems[name] = str(problem)
                _say(f"{name} failed: {problem}")
                continue
            report = report.with_figures(name, measured)
            figures_file.write(place.figures, report)
            page.make(place, report)
    _say(f"Written: {place.figures}, {place.page} and {len(place.pictures())} pictures in {place.images}.")
    return tell(report, [name for name in chosen if name not in problems], problems)


def tell(report: Report, measured: Sequence[str], problems: Mapping[str, str]) -> int:
    """What failed and what is missed, of this run; the exit code."""
    lines = [
        {**line, "what": f"{name}: {line['what']}"}
        for name in measured
        for line in report.figures(name).get("lines", [])
        if line["budget"] is not None
    ]
    missed = [line for line in lines if not line["is_met"]]
    for name, problem in problems.items():
        print(f"\nFAILED {name}: {problem}")
    if missed:
        print(f"\n{len(missed)} of {len(lines)} budgets missed:\n{budgets.table(missed)}")
    elif lines:
        print(f"\nAll {len(lines)} budgets of what was measured are met.")
    return 1 if missed or problems else 0


def _say(text: str) -> None:
    begin = "\r\033[K" if sys.stdout.isatty() else ""  # a line that counts seconds stands there
    print(f"{begin}{text}", flush=True)


@contextlib.contextmanager
def _services() -> Iterator[Addresses]:
    """Those that are named; else the private ones for as long as this takes, started if they are not."""
    env_file.load_into_environment(ROOT / ".env")
    if is_any_service_named():
        yield named_services()
        return
    with services.held(folders.data_dir(), _say) as addresses:
        yield addresses


def _begin(place: Place, named: Addresses, command: str, *, is_whole: bool) -> Report:
    """See what this machine is, and whether its figures may stand beside those that are there."""
    hosts = ", ".join(f"{urlsplit(url).hostname}:{urlsplit(url).port}" for url in named.as_env().values() if url)
    _say(f"On {hosts}.")
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    if load > cores * _BUSY_SHARE:
        _say(f"This machine is busy (a load of {load:.1f} on {cores} cores): its figures will not be the best it has.")
    now = datetime.now(UTC)
    this_run = Run(_moment(now), **machine.commit(figures_file.OUTPUTS), command=command)
    this = Report(machine.machine(), machine.versions(named), this_run)
    before = figures_file.read(place.figures)
    return figures_file.begun(before, this, is_whole=is_whole, path=place.figures)


def _measure(name: str, words: Sequence[str], named: Addresses, this: Run, began: datetime) -> Measured:
    command = ["-m", "benchmarks", name, "--json", *words]
    started = time.monotonic()
    figures = figures_of(command, {**os.environ, **named.as_env()})
    return Measured(
        date=_moment(began),
        commit=this.commit,
        is_clean=this.is_clean,
        command=shlex.join(["python", *command]),
        seconds=round(time.monotonic() - started),
        figures=figures,
    )


def _moment(when: datetime) -> str:
    return f"{when:%Y-%m-%dT%H:%M:%SZ}"


def figures_of(command: Sequence[str], environment: Mapping[str, str]) -> dict[str, Any]:
    """What Python prints as its last line, while it says on stderr what it does."""
    process = subprocess.Popen(
        [sys.executable, "-m", "launcher.child", str(os.getpid()), sys.executable, *command],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,  # Ctrl-C is for us: we end it
    )
    assert process.stdout is not None
    assert process.stderr is not None
    said: list[str] = []
    listening = threading.Thread(target=_listen, args=(process.stderr, said), daemon=True)
    listening.start()
    try:
        printed = process.stdout.read()
        code = process.wait()
    except BaseException:
        process.terminate()
        process.wait()  # it removes what it made
        raise
    finally:
        listening.join()
    if code != 0:
        raise Failed(sentence_of(said, code))
    try:
        figures: dict[str, Any] = json.loads(printed.strip().splitlines()[-1])
    except (IndexError, ValueError) as problem:
        raise Failed(f"its last line is not a JSON object ({problem}).") from problem
    return figures


def _listen(stderr: IO[str], said: list[str]) -> None:
    for line in stderr:
        said.append(line.rstrip("\n"))
        _say(f"  {said[-1]}")


def sentence_of(said: Sequence[str], code: int) -> str:
    """Its refusal with all that belongs to it; of anything unforeseen the last line."""
    mark = "benchmarks: "
    begin = max((place for place, line in enumerate(said) if line.startswith(mark)), default=None)
    if begin is not None:
        return "\n".join(said[begin:]).removeprefix(mark)
    return next((line for line in reversed(said) if line.strip()), f"it ended with {code} and said nothing.")
