"""What the Dockerfile copies is enough to run, where nothing can be written but the data folder.

In place of a container: the files that get into the image, in a folder whose bits forbid writing, and processes that
have no capabilities, so that the bits hold for root as well.
"""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.platform import ROOT
from tests.tiers import once_embedded
from tests.unit.image_files import (
    DOCKERFILE,
    compose_text,
    filled_in,
    instructions,
    interpolated,
    of_the_final_stage,
    services,
    taken_by_copy,
)
from tests.waiting import wait_until

pytestmark = once_embedded

_WITHOUT_CAPABILITIES = ("setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs")
_IN_EARNEST = {"ALLOWED_HOSTS": "onbeat.example.org", "ONBEAT_API_PROXIES": "1", "SECRET_KEY": secrets.token_hex(32)}
_KINDS = ("web", "beat-1", "worker", "flower")
_WEB = [each.words for each in of_the_final_stage(instructions(DOCKERFILE.read_text(encoding="utf-8")))][-1]


class Container:
    """A stand-in for one, with a data folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.tree, self.data = folder / "tree", folder / "data"
        self.data.mkdir()
        for path in taken_by_copy():
            (self.tree / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / path, self.tree / path)
        (self.tree / ".venv").symlink_to(Path(sys.prefix))
        self._let_write(is_allowed=False)
        self.started: list[subprocess.Popen[bytes]] = []

    def start(self, *words: str, **settings: str) -> "subprocess.Popen[bytes]":
        """As compose would, with what an image says: no more than this and the settings is in the environment."""
        environment = {
            "PATH": f"{self.tree / '.venv' / 'bin'}:{os.environ['PATH']}",
            "HOME": str(self.data),
            "DATA_DIR": str(self.data),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONUNBUFFERED": "1",
            **settings,
        }
        prefix = _WITHOUT_CAPABILITIES if os.geteuid() == 0 else ()
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                [*prefix, *words], cwd=self.tree, env=environment, stdout=log, stderr=subprocess.STDOUT
            )
        self.started.append(process)
        return process

    def run(self, *words: str, **settings: str) -> int:
        return self.start(*words, **settings).wait(timeout=60)

    @property
    def log(self) -> Path:
        return self.data.parent / "log"

    def said(self) -> str:
        return self.log.read_text(encoding="utf-8") if self.log.exists() else ""

    def close(self) -> None:
        for process in self.started:
            process.kill()
            process.wait()
        self._let_write(is_allowed=True)  # so that the folder can be removed

    def _let_write(self, *, is_allowed: bool) -> None:
        for path in (self.tree, *self.tree.rglob("*")):
            if not path.is_symlink():
                path.chmod(path.stat().st_mode | 0o200 if is_allowed else path.stat().st_mode & ~0o222)


@pytest.fixture(scope="module")
def container(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Container]:
    made = Container(tmp_path_factory.mktemp("image"))
    try:
        assert made.run("touch", str(made.tree / "x")) != 0, "the tree can be written to, so this would show nothing"
        assert made.run("./onbeat", "migrate") == 0, made.said()
        yield made
    finally:
        made.close()


def test_the_system_checks_find_nothing(container: Container) -> None:
    assert container.run("./onbeat", "check") == 0, container.said()


def test_with_all_settings_that_compose_gives_there_is_nothing_to_say_against_deploying(container: Container) -> None:
    """Nothing connects to the addresses: only what is said is looked at."""
    read = yaml.safe_load(interpolated(compose_text(), {**filled_in(), **_IN_EARNEST}))["services"]
    given = {key: str(value or "") for name in _KINDS for key, value in read[name]["environment"].items()}
    assert {"ONBEAT_BEAT_METRICS_ADDRESS", "ONBEAT_WORKERS_METRICS_ADDRESS"} < given.keys()
    assert container.run("./onbeat", "check", "--deploy", "--fail-level", "WARNING", **given) == 0, container.said()


def test_a_beat_starts_at_once_and_ends_when_it_is_told_to(container: Container) -> None:
    assert services()["beat-1"]["command"] == ["./onbeat", "run_beat"]
    beat = container.start("./onbeat", "run_beat")
    wait_until(lambda: "beat started" in container.said() or beat.poll() is not None, what="the beat has started")
    beat.send_signal(signal.SIGTERM)
    assert beat.wait(timeout=30) == 0, container.said()
    assert "beat stopped" in container.said()
    assert "Making .venv" not in container.said()


def test_a_worker_starts_and_ends_when_it_is_told_to(container: Container) -> None:
    worker = container.start("./onbeat", "worker", "--only", "tasks", "--concurrency", "1")
    wait_until(lambda: " ready." in container.said() or worker.poll() is not None, what="the worker has started")
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(timeout=30) == 0, container.said()


def test_the_web_process_answers_and_shows_its_pages(container: Container) -> None:
    """Its own command, but for the port, which others may have."""
    door = container.data / "web.sock"
    assert _WEB[-2:] == ["--bind", "0.0.0.0:8000"]
    web = container.start(*_WEB[:-1], f"unix:{door}")
    wait_until(lambda: door.exists() or web.poll() is not None, what="the web process listens")
    assert web.poll() is None, container.said()
    assert answer(door, "/health/live").startswith("HTTP/1.0 200 ")
    assert "/static/unfold/" in answer(door, "/admin/login/")
    assert "There is nothing here" in answer(door, "/nowhere/")
    web.send_signal(signal.SIGTERM)
    assert web.wait(timeout=40) == 0, container.said()


def answer(door: Path, path: str) -> str:
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(20)
        line.connect(os.path.relpath(door))  # an absolute one may be longer than the kernel takes
        line.sendall(f"GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
        with line.makefile("rb") as read:
            return read.read().decode()


def test_nothing_was_written_beside_the_data(container: Container) -> None:
    there = {path.relative_to(container.tree) for path in container.tree.rglob("*") if path.is_file()}
    assert {path for path in there if path.parts[0] != ".venv"} == {*taken_by_copy()}
