"""`./onbeat probe`: what beats and workers say of themselves, and what is made of it whatever became of them."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from executions.alive import Alive
from launcher import probe
from tests.platform import ROOT
from tests.waiting import wait_until


class Clock:
    now = 1_000_000.0

    def monotonic(self) -> float:
        return self.now

    time = staticmethod(time.time)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    one = Clock()
    for module in ("executions.alive", "launcher.probe"):
        monkeypatch.setattr(f"{module}.time", one)
    return one


@pytest.fixture
def folder(tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Path:
    settings.DATA_DIR = tmp_path
    monkeypatch.setenv("DATA_DIR", str(tmp_path))
    return tmp_path / "alive"


@pytest.fixture
def somebody() -> Iterator[int]:
    """A process of another number, that runs until the test ends."""
    other = subprocess.Popen(["sleep", "300"])
    yield other.pid
    other.kill()
    other.wait()


def asked(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[bool, str]:
    code = probe.main(arguments)
    return code == 0, capsys.readouterr().out.rstrip("\n")


def said_by(pid: int, folder: Path, **facts: Any) -> Path:
    """As that process would have said it."""
    own = folder / f"beat-{os.getpid()}.json"
    began = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    said = json.loads(own.read_text()) | {"pid": pid, "began": began, "name": f"number {pid}", **facts}
    file = folder / f"beat-{pid}.json"
    file.write_text(json.dumps(said))
    return file


def a_beat(**more: Any) -> Alive:
    return Alive("beat", "b1", silent_after_seconds=10, **more)


def test_one_that_does_its_work_is_ready_and_live(folder: Path, clock: Clock, capsys: Any) -> None:
    a_beat().say("it ticks", is_ready=True)
    assert asked(capsys, "beat") == (True, "beat b1 is ready: it ticks")
    assert asked(capsys, "beat", "--live") == (True, "beat b1 goes round")


def test_one_that_cannot_work_is_not_ready_but_live(folder: Path, clock: Clock, capsys: Any) -> None:
    a_beat().say("the database is away", is_ready=False)
    assert asked(capsys, "beat") == (False, "beat b1 is not ready: the database is away")
    assert asked(capsys, "beat", "--live")[0]


def test_one_that_falls_silent_is_not_ready_and_later_not_live(folder: Path, clock: Clock, capsys: Any) -> None:
    a_beat().say("it ticks", is_ready=True)
    clock.now += 10
    assert asked(capsys, "beat")[0]
    clock.now += 1
    assert asked(capsys, "beat") == (False, "beat b1 is not ready: no sign of it for 11 s; before that: it ticks")
    assert asked(capsys, "beat", "--live")[0]
    clock.now += 80
    assert asked(capsys, "beat", "--live") == (False, "beat b1 hangs: no sign of it for 91 s")


def test_where_none_runs_it_is_said_where_was_looked(folder: Path, clock: Clock, capsys: Any) -> None:
    for arguments in (["beat"], ["beat", "--live"]):
        is_well, says = asked(capsys, *arguments)
        assert (is_well, says) == (False, f"No beat runs here: none has written to {folder} (DATA_DIR).")
    Alive("worker", "w", silent_after_seconds=10).say("it takes messages", is_ready=True)
    assert not asked(capsys, "beat")[0]
    assert asked(capsys, "worker")[0]


def test_of_several_one_that_is_not_well_is_enough(folder: Path, clock: Clock, capsys: Any, somebody: int) -> None:
    a_beat().say("it ticks", is_ready=True)
    said_by(somebody, folder, is_ready=True)
    is_well, says = asked(capsys, "beat")
    assert (is_well, says.count("\n")) == (True, 1)
    said_by(somebody, folder, is_ready=False, says="its clock is wrong")
    is_well, says = asked(capsys, "beat")
    assert not is_well
    assert f"beat number {somebody} is not ready: its clock is wrong" in says
    assert "beat b1 is ready: it ticks" in says


def test_what_one_said_that_runs_no_more_counts_for_nothing(folder: Path, clock: Clock, capsys: Any) -> None:
    a_beat().say("it ticks", is_ready=True)
    ended = subprocess.Popen(["sleep", "300"])
    said_by(ended.pid, folder, is_ready=False)
    assert not asked(capsys, "beat")[0]
    ended.kill()
    wait_until(lambda: asked(capsys, "beat")[0], what="it is a zombie, and does not count")
    ended.wait()
    assert asked(capsys, "beat") == (True, "beat b1 is ready: it ticks")


@pytest.mark.parametrize("facts", [{"began": "1"}, {"at": 2_000_000.0}], ids=["another", "before a reboot"])
def test_nor_what_one_said_whose_number_another_has_now(
    folder: Path, clock: Clock, capsys: Any, somebody: int, facts: dict[str, Any]
) -> None:
    """As after a restart of the machine or of a container, where numbers begin anew and are the same each time."""
    a_beat().say("it ticks", is_ready=True)
    said_by(somebody, folder, is_ready=False, **facts)
    assert asked(capsys, "beat") == (True, "beat b1 is ready: it ticks")


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", "7", '"x"', "{}", '{"pid": null}', '{"pid": "x"}', '{"pid": 1e400}', "\x00", "[[[["]
)
def test_a_file_that_cannot_be_read_is_no_process(folder: Path, clock: Clock, capsys: Any, text: str) -> None:
    folder.mkdir()
    (folder / "beat-1.json").write_text(text)
    (folder / "beat-2.json").write_bytes(b"\xff\xfe")
    (folder / "beat-3.json").mkdir()
    assert asked(capsys, "beat")[1].startswith("No beat runs here")
    a_beat().say("it ticks", is_ready=True)
    assert asked(capsys, "beat") == (True, "beat b1 is ready: it ticks")


def test_a_file_is_whole_at_any_moment(folder: Path) -> None:
    """It is replaced, and never written over."""
    beat = a_beat()
    beat.say("it ticks", is_ready=True)
    (file,) = folder.iterdir()
    with file.open(encoding="utf-8") as before:
        beat.say("x" * 10_000, is_ready=False)
        assert json.load(before)["says"] == "it ticks"
    assert json.loads(file.read_text())["says"] == "x" * 10_000


def test_news_are_said_at_once_and_the_same_once_a_second(folder: Path, clock: Clock) -> None:
    beat = a_beat()

    def at() -> float:
        (file,) = folder.iterdir()
        return float(json.loads(file.read_text())["at"])

    for says, is_ready, later, is_written in (
        ("it ticks", True, 0, True),
        ("it ticks", True, 0.5, False),
        ("it ticks", True, 0.5, True),
        ("it ticks", False, 0.1, True),
        ("away", False, 0.1, True),
    ):
        clock.now += later
        beat.say(says, is_ready=is_ready)
        assert (at() == clock.now) is is_written


def test_its_file_goes_when_it_leaves(folder: Path, clock: Clock, capsys: Any) -> None:
    beat = a_beat()
    beat.leave()  # it never said anything
    beat.say("it ticks", is_ready=True)
    beat.leave()
    assert list(folder.iterdir()) == []
    assert not asked(capsys, "beat")[0]


def test_a_folder_that_cannot_be_written_to_is_told_once_and_tried_again(
    folder: Path, clock: Clock, capsys: Any, caplog: pytest.LogCaptureFixture
) -> None:
    folder.write_text("a file, and no folder")
    beat = a_beat()
    for _ in range(3):
        clock.now += 5
        beat.say("it ticks", is_ready=True)
    assert len(caplog.messages) == 1
    assert caplog.messages[0].startswith("how this process is cannot be written: probes will call it silent  error=")
    beat.leave()
    folder.unlink()
    clock.now += 5
    beat.say("it ticks", is_ready=True)
    assert asked(capsys, "beat")[0]
    assert len(caplog.messages) == 1


def test_files_that_killed_ones_left_long_ago_are_tidied_away(folder: Path, somebody: int) -> None:
    folder.mkdir()
    ended = subprocess.Popen(["true"])
    ended.wait()
    old = time.time() - 7200
    for name, moment in {
        f"beat-{ended.pid}.json": old,
        f"worker-{ended.pid}.new": old,
        f"worker-{ended.pid}.json": time.time(),
        f"beat-{somebody}.json": old,
        "beat-x.json": old,
    }.items():
        (folder / name).write_text("{}")
        os.utime(folder / name, (moment, moment))
    a_beat().say("it ticks", is_ready=True)
    left = {file.name for file in folder.iterdir()}
    assert left == {f"worker-{ended.pid}.json", f"beat-{somebody}.json", "beat-x.json", f"beat-{os.getpid()}.json"}


@pytest.mark.parametrize("said", ["var/data", "~/data", " {home}/data "])
def test_the_probe_looks_where_the_settings_say(
    said: str, tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """By the same rules: below the folder in which it is called, and below the home of who calls it."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DATA_DIR", said.format(home=tmp_path))
    code = "from scheduler_project import settings; print(settings.DATA_DIR)"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    settings.DATA_DIR = Path(done.stdout.strip())
    a_beat().say("it ticks", is_ready=True)
    assert asked(capsys, "beat") == (True, "beat b1 is ready: it ticks")


def test_a_kind_that_there_is_not_is_refused(capsys: Any) -> None:
    with suppress(SystemExit):
        probe.main(["flower"])
        pytest.fail("it was taken")
    assert "flower" in capsys.readouterr().err


def test_it_needs_neither_django_nor_a_database() -> None:
    code = "import sys, launcher.probe; print({'django', 'celery', 'psycopg'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


@pytest.mark.parametrize("port", ["x", "0", "65536", "99999", "²", "-1", "8000.0"])
def test_a_port_that_is_none_is_refused_in_a_sentence(port: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from launcher.refusal import Refusal

    monkeypatch.setenv("PORT", port)
    with pytest.raises(Refusal, match="PORT must be a number from 1 to 65535"):
        probe.main(["web"])
