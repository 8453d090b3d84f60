"""The file of figures and the page that is made of it."""

import dataclasses
import re
import subprocess
from pathlib import Path

import pytest

from benchmarks.report import figures_file, machine, page, run
from benchmarks.report.figures_file import DOCS, Place
from launcher.refusal import Refusal
from tests.unit import made_up_figures
from tests.unit.made_up_figures import FIGURES, MACHINE, measured, report

PICTURE = re.compile(r"!\[[^\]]+\]\(\.\./images/(bench-[a-z-]+\.svg)\)")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


# ── The file ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_is_written_is_what_is_read(place: Place) -> None:
    figures_file.write(place.figures, report())
    assert figures_file.read(place.figures) == report()
    assert list(place.figures.parent.iterdir()) == [place.figures]


def test_where_nothing_was_measured_there_is_no_report(place: Place) -> None:
    assert figures_file.read(place.figures) is None


@pytest.mark.parametrize("content", ["", "{", "[]", '{"date": 1}'])
def test_a_file_that_holds_no_figures_is_refused_with_what_to_do(place: Place, content: str) -> None:
    place.figures.parent.mkdir()
    place.figures.write_text(content)
    with pytest.raises(Refusal, match="restore it, or delete it and measure all"):
        figures_file.read(place.figures)


@pytest.mark.parametrize("is_whole", [True, False])
def test_a_run_on_the_same_machine_keeps_what_it_does_not_measure(place: Place, is_whole: bool) -> None:
    later = dataclasses.replace(report("idle"), last_run=dataclasses.replace(made_up_figures.RUN, commit="f" * 40))
    begun = figures_file.begun(report(), dataclasses.replace(later, benchmarks={}), is_whole=is_whole, path=place.page)
    assert begun.last_run.commit == "f" * 40
    assert begun.benchmarks == report().benchmarks


def test_figures_of_another_machine_are_not_mixed_with_ours(place: Place) -> None:
    ours = dataclasses.replace(report(), machine={**MACHINE, "cores": 64}, benchmarks={})
    assert figures_file.begun(report(), ours, is_whole=True, path=place.figures).benchmarks == {}
    with pytest.raises(Refusal, match=r"cores 2 there and 64 here.*without --only, or write elsewhere with --to"):
        figures_file.begun(report(), ours, is_whole=False, path=place.figures)


# ── The page ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_page_of_the_documentation_is_made_from_its_file_of_figures(place: Place) -> None:
    """`python -m benchmarks report` makes it anew."""
    made = page.make(place, figures_file.read(Place().figures))
    assert place.page.read_text(encoding="utf-8") == Place().page.read_text(encoding="utf-8")
    assert [path.name for path in made] == [path.name for path in Place().pictures()]
    for path in made:
        assert path.read_text() == (DOCS / "images" / path.name).read_text(), path.name


def test_the_page_shows_all_pictures_that_are_made_and_no_others(place: Place) -> None:
    made = page.make(place, report())
    assert len(made) == 8
    shown = PICTURE.findall(place.page.read_text(encoding="utf-8"))
    assert sorted(shown) == [path.name for path in made]


def test_a_picture_that_nobody_shows_any_more_is_removed(place: Place) -> None:
    page.make(place, report())
    (place.images / "dashboard.png").touch()
    page.make(place, report("idle"))
    assert [path.name for path in place.images.iterdir()] == ["dashboard.png"]


@pytest.mark.parametrize("name", run.USUAL)
def test_each_benchmark_has_a_section_with_or_without_figures(place: Place, name: str) -> None:
    page.make(place, None)
    assert f"Not measured yet: `./onbeat bench --only {name}`." in place.page.read_text(encoding="utf-8")
    page.make(place, report(name))
    assert f"--only {name}`." not in place.page.read_text(encoding="utf-8")


def test_the_page_tells_the_machine_the_versions_and_of_each_benchmark_its_date_and_commit(place: Place) -> None:
    older = dataclasses.replace(
        measured("idle", FIGURES["idle"]), date="2026-11-01T00:00:00Z", commit="f" * 40, is_clean=False
    )
    page.make(place, report().with_figures("idle", older))
    text = place.page.read_text(encoding="utf-8")
    assert "| machine | Some CPU, 2 cores, 8 GB of memory |" in text
    assert "postgresql 15.1, rabbitmq 3.10.8, erlang 25, redis none" in text
    assert (
        "| `python -m benchmarks idle --json` | 2026-11-01T00:00:00Z | `ffffffffff` with changes | 30 s | – |" in text
    )
    assert "| `python -m benchmarks dispatch --json` | 2026-11-18T13:00:00Z | `0123456789` | 30 s | 0.1 |" in text


def test_the_page_tells_where_we_are_not_best(place: Place) -> None:
    page.make(place, report())
    text = " ".join(place.page.read_text(encoding="utf-8").split())
    told = text.partition("## Where we are not best")[2].partition("## ")[0]
    assert "**A budget is missed**: failover, what latest is: 6.1 s, and it must be at most 5 s." in told
    assert "RabbitMQ takes ready-made messages 2 times as fast as one beat fires." in told
    assert "Plain Celery without results runs 2 times as many" in told
    assert "Plain Celery whose results go over kept connections runs 1.2 times as many." in told
    assert "4 beats fire 1.22 times as fast as 1" in told
    assert (
        "10,000,000 executions stored, a fire with its run costs PostgreSQL 1.12 times as much CPU as with 1,000"
        in told
    )
    assert "The latest fire after a kill is 6.1 s late; the aim is 2 s." in told


def test_the_page_admits_nothing_that_the_figures_do_not_say(place: Place) -> None:
    better = {**FIGURES["worker"], "ratio_plain": 1.2, "ratio_results_kept_connection": 1.4}
    steady = {**FIGURES["stored"], "server_cpu_us_per_fire": 820.0}
    good = report("idle").with_figures("worker", measured("worker", better))
    page.make(place, good.with_figures("stored", measured("stored", steady)))
    told = place.page.read_text(encoding="utf-8")
    assert "costs PostgreSQL" not in told
    assert "Plain Celery without results runs" not in told
    assert "**missed**" not in told


def test_a_peer_that_is_faster_is_named(place: Place) -> None:
    beaten = {**FIGURES["dispatch"], "celery_beat_fires_per_s": 9000.0}
    page.make(place, report("idle").with_figures("dispatch", measured("dispatch", beaten)))
    assert "celery beat 5.7.0 fires more per second than one beat of ours." in place.page.read_text(encoding="utf-8")


# ── The commit ───────────────────────────────────────────────────────────────────────────────────────────────────


def git(folder: Path, *words: str) -> None:
    who = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)


def test_what_a_run_writes_itself_does_not_make_its_files_differ_from_the_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "ROOT", tmp_path)
    (tmp_path / "code.py").touch()
    git(tmp_path, "init")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "x")
    page.make(Place(tmp_path / "docs"), report())
    figures_file.write(Place(tmp_path / "docs").figures, report())
    told = machine.commit(figures_file.OUTPUTS)
    assert told["is_clean"]
    assert re.fullmatch(r"[0-9a-f]{40}", told["commit"])
    (tmp_path / "code.py").write_text("changed")
    assert not machine.commit(figures_file.OUTPUTS)["is_clean"]


def test_without_a_repository_no_commit_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "ROOT", tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert machine.commit(figures_file.OUTPUTS) == {"commit": None, "is_clean": False}
