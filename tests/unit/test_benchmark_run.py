"""One benchmark after the other: what is kept, what is told, and the exit code."""

import os
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from benchmarks import __main__ as main
from benchmarks.report import figures_file, machine, run
from benchmarks.report.figures_file import Place
from benchmarks.report.run import Failed
from launcher.service_record import Addresses
from tests.unit import made_up_figures
from tests.unit.made_up_figures import FIGURES, VERSIONS

KNOWN = [*FIGURES, "api"]


@pytest.fixture
def broken() -> dict[str, str]:
    """What each benchmark fails with that a test breaks."""
    return {}


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch, broken: dict[str, str]) -> list[list[str]]:
    """What is called, in place of measuring anything."""
    made: list[list[str]] = []

    @contextmanager
    def no_services() -> Iterator[Addresses]:
        yield Addresses("postgresql://db:5432/onbeat", "", "amqp://rabbit:5672/onbeat")

    def figures_of(command: Sequence[str], environment: Mapping[str, str]) -> dict[str, Any]:
        assert environment["DATABASE_URL"] == "postgresql://db:5432/onbeat"
        made.append(list(command))
        name = command[2]
        if name in broken:
            raise Failed(broken[name])
        return FIGURES.get(name, {"lines": []})

    monkeypatch.setattr(run, "_services", no_services)
    monkeypatch.setattr(run, "figures_of", figures_of)
    monkeypatch.setattr(machine, "versions", lambda named: VERSIONS)
    return made


def bench(*words: str) -> int:
    parser = ArgumentParser()
    run.add_options(parser, KNOWN)
    return run.run(parser.parse_args(words))


@pytest.mark.usefixtures("calls")
def test_all_are_measured_and_a_missed_budget_is_told_at_the_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench("--to", str(tmp_path)) == 1
    said = capsys.readouterr().out
    assert "dispatch, 3 of 9, since " in said
    *_, budgets, _, missed = said.strip().splitlines()
    assert budgets == "1 of 10 budgets missed:"
    assert missed.split() == ["failover:", "what", "latest", "is", "6.1", "s", "≤", "5", "s", "MISSED"]
    kept = figures_file.read(Place(tmp_path).figures)
    assert kept is not None
    assert {name: one.figures for name, one in kept.benchmarks.items()} == FIGURES
    assert Place(tmp_path).page.is_file()


def test_the_stored_schedules_come_last_and_the_pages_only_if_they_are_asked_for(
    tmp_path: Path, calls: list[list[str]]
) -> None:
    bench("--to", str(tmp_path))
    assert [command[2] for command in calls] == list(run.USUAL)
    assert run.USUAL[-1] == "stored"
    calls.clear()
    bench("--to", str(tmp_path), "--also", "api")
    assert [command[2] for command in calls] == [*run.USUAL, "api"]


def test_one_that_fails_is_told_and_the_others_are_kept(
    tmp_path: Path, broken: dict[str, str], capsys: pytest.CaptureFixture[str], calls: list[list[str]]
) -> None:
    bench("--to", str(tmp_path), "--only", "idle")
    broken["idle"] = "It was too loud here."
    assert bench("--to", str(tmp_path), "--only", "idle,dispatch") == 1
    assert "FAILED idle: It was too loud here." in capsys.readouterr().out
    kept = figures_file.read(Place(tmp_path).figures)
    assert kept is not None
    assert list(kept.benchmarks) == ["idle", "dispatch"]  # the older figures of the one that failed are there still


@pytest.mark.usefixtures("calls")
def test_without_a_missed_budget_the_exit_code_is_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert bench("--to", str(tmp_path), "--only", "dispatch,worker") == 0
    assert "All 4 budgets of what was measured are met." in capsys.readouterr().out


@pytest.mark.usefixtures("calls")
def test_some_are_measured_again_with_a_date_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench("--to", str(tmp_path), "--only", "idle,dispatch")
    monkeypatch.setattr(run, "_moment", lambda when: "2027-01-01T00:00:00Z")
    bench("--to", str(tmp_path), "--only", "dispatch")
    kept = figures_file.read(Place(tmp_path).figures)
    assert kept is not None
    assert kept.benchmarks["dispatch"].date == kept.last_run.date == "2027-01-01T00:00:00Z"
    assert kept.benchmarks["idle"].date < "2027"


def test_what_is_asked_in_small_is_not_written_to_the_documentation(
    tmp_path: Path, calls: list[list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        bench("--quick")
    assert "name another folder with --to" in capsys.readouterr().err
    bench("--quick", "--only", "recurrence", "--to", str(tmp_path))
    assert calls == [["-m", "benchmarks", "recurrence", "--json", "--jobs", "1000"]]


def test_a_name_that_is_none_is_refused_with_those_that_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        bench("--only", "dispatch,wrokers")
    assert "There is no benchmark 'wrokers'; there are: recurrence, idle" in capsys.readouterr().err


def test_what_each_is_asked_in_small_is_what_it_understands() -> None:
    assert set(run.USUAL) < set(run.QUICK)
    for name, words in run.QUICK.items():
        assert main.parser().parse_args([name, *words.split()])


# ── One process ──────────────────────────────────────────────────────────────────────────────────────────────────


def figures_of(code: str) -> dict[str, Any]:
    return run.figures_of(["-c", code], os.environ)


def test_the_last_line_that_a_benchmark_prints_is_its_figures(capsys: pytest.CaptureFixture[str]) -> None:
    assert figures_of("import sys; print('Storing …', file=sys.stderr); print(1); print('{\"a\": 2}')") == {"a": 2}
    assert capsys.readouterr().out == "  Storing …\n"


def test_a_benchmark_that_prints_no_figures_has_failed() -> None:
    for code in ("pass", "print('hello')"):
        with pytest.raises(Failed, match="its last line is not a JSON object"):
            figures_of(code)


def test_a_refusal_is_told_with_all_that_belongs_to_it() -> None:
    said = "print('Storing …: done in 1 s\\nbenchmarks: The beat has ended. It said:\\nno disk', file=sys.stderr)"
    with pytest.raises(Failed) as failed:
        figures_of(f"import sys; {said}; sys.exit(2)")
    assert str(failed.value) == "The beat has ended. It said:\nno disk"


def test_of_anything_unforeseen_the_last_line_is_told() -> None:
    with pytest.raises(Failed, match=r"^ZeroDivisionError: division by zero$"):
        figures_of("1 / 0")
    with pytest.raises(Failed, match="ended with 3 and said nothing"):
        figures_of("import sys; sys.exit(3)")


def test_a_benchmark_that_is_interrupted_may_clean_up_before_anybody_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = (
        "import os, signal, sys, time\n"
        f"signal.signal(signal.SIGTERM, lambda *_: (open({str(tmp_path / 'cleaned')!r}, 'w').close(), os._exit(0)))\n"
        "sys.stdout.close(); os.close(1)\n"  # whoever reads it goes on, and waits for the end
        "time.sleep(60)"
    )
    waited = run.subprocess.Popen.wait
    times: list[int] = []

    def wait(self: Any, timeout: float | None = None) -> int:
        times.append(1)
        if len(times) == 1:
            raise KeyboardInterrupt
        return waited(self, timeout)

    monkeypatch.setattr(run.subprocess.Popen, "wait", wait)
    with pytest.raises(KeyboardInterrupt):
        figures_of(code)
    assert (tmp_path / "cleaned").exists()


def test_the_made_up_figures_are_of_all_that_are_usual() -> None:
    assert set(made_up_figures.FIGURES) == set(run.USUAL)
