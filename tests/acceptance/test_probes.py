"""`./onbeat probe` beside real processes: ready is who does its work, live is whom a restart would not help."""

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings

from chaos.proxy import Proxy
from launcher.ports import free_port
from tests.acceptance.crew import Crew, a_crew
from tests.platform import ROOT, Platform
from tests.tiers import once_embedded
from tests.waiting import wait_until

SOON = {"ONBEAT_BEAT_SILENT_AFTER_SECONDS": "2"}


def probed(platform: Platform, *words: str, **environment: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "launcher", "probe", *words]
    said = {**platform.environment, **environment}
    done = subprocess.run(command, cwd=ROOT, env=said, capture_output=True, text=True, check=False, timeout=30)
    assert not done.stderr, done.stderr
    return done.returncode, done.stdout.strip()


def becomes(platform: Platform, code: int, *words: str, says: str) -> None:
    wait_until(
        lambda: (found := probed(platform, *words))[0] == code and says in found[1],
        what=f"the probe of {words} says {says!r}",
        seconds=60,
    )


def files(platform: Platform) -> list[Path]:
    return list((platform.folder / "alive").glob("*"))


# ── Beats ────────────────────────────────────────────────────────────────────────────────────────────────────────


@once_embedded
def test_a_beat_is_ready_while_it_ticks_and_leaves_no_file(platform: Platform) -> None:
    platform.migrate()
    assert probed(platform, "beat")[0] == 1
    beat = platform.beat(**SOON)
    becomes(platform, 0, "beat", says=" is ready: it ticks")
    beat.signal(signal.SIGSTOP)
    becomes(platform, 1, "beat", says="no sign of it for ")
    assert probed(platform, "beat", "--live")[0] == 0
    beat.signal(signal.SIGCONT)
    becomes(platform, 0, "beat", says=" is ready: it ticks")
    assert beat.terminate() == 0
    assert files(platform) == []
    assert probed(platform, "beat")[1].startswith("No beat runs here")


@pytest.mark.full
def test_a_beat_whose_database_is_away_is_not_ready_but_live(platform: Platform) -> None:
    platform.migrate()
    with Proxy(platform.environment["DATABASE_URL"]) as line:
        platform.beat(**SOON, DATABASE_URL=line.url, DATABASE_ANSWER_SECONDS="1")
        becomes(platform, 0, "beat", says=" is ready: it ticks")
        line.cut()
        becomes(platform, 1, "beat", says="the database is away")
        assert probed(platform, "beat", "--live")[0] == 0
        line.mend()
        becomes(platform, 0, "beat", says=" is ready: it ticks")


@once_embedded
def test_a_beat_whose_database_is_not_migrated_is_not_ready_but_live(platform: Platform) -> None:
    platform.beat(**SOON)
    becomes(platform, 1, "beat", says="the database is not migrated")
    assert probed(platform, "beat", "--live")[0] == 0


# ── Workers ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def crew(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crew]:
    with a_crew(tmp_path_factory) as started:
        yield started


@once_embedded
def test_a_worker_is_ready_and_leaves_no_file(crew: Crew) -> None:
    worker = crew.worker("probed")
    becomes(crew.platform, 0, "worker", says=" is ready: it takes messages and gives signs of life")
    assert probed(crew.platform, "worker", "--live")[0] == 0
    worker.freeze()
    becomes(crew.platform, 1, "worker", says="no sign of it for ")
    worker.thaw()
    becomes(crew.platform, 0, "worker", says=" is ready: ")
    assert worker.process.terminate() == 0
    assert [file for file in files(crew.platform) if file.name.startswith("worker")] == []


@once_embedded
def test_a_worker_that_was_killed_is_no_worker(crew: Crew) -> None:
    worker = crew.worker("killed")
    becomes(crew.platform, 0, "worker", says=" is ready: ")
    worker.process.kill_all()
    assert probed(crew.platform, "worker")[1].startswith("No worker runs here")


@pytest.mark.full
def test_a_worker_whose_broker_is_away_is_not_ready_but_live_and_ready_again(crew: Crew) -> None:
    with (
        Proxy(settings.CELERY_BROKER_URL) as broker,
        crew.working("cut", CELERY_BROKER_URL=broker.url, CELERY_BROKER_HEARTBEAT="2") as worker,
    ):
        becomes(crew.platform, 0, "worker", says=" is ready: ")
        broker.cut()
        becomes(crew.platform, 1, "worker", says="it cannot reach the broker")
        assert probed(crew.platform, "worker", "--live")[0] == 0
        broker.mend()
        becomes(crew.platform, 0, "worker", says=" is ready: ")
        assert worker.process.is_running()


# ── Web ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@once_embedded
def test_the_web_process_says_what_it_would_say_to_anybody(platform: Platform) -> None:
    port = str(free_port(set()))
    code, says = probed(platform, "web", PORT=port)
    assert code == 1
    assert says.startswith(f"web does not answer at 127.0.0.1:{port}: ")
    platform.migrate()
    # It listens to names of which the probe knows none; the test's own look at it is by number.
    platform.environment["ALLOWED_HOSTS"] = ".example.com, 127.0.0.1"
    platform.web(port=int(port))
    for names in ("", "*", "elsewhere.example"):
        assert probed(platform, "web", "--live", PORT=port, ALLOWED_HOSTS=names)[0] == 0
    code, says = probed(platform, "web", PORT=port)
    assert (code, "no beat ticks" in says) == (1, True), says
    platform.beat()
    wait_until(lambda: probed(platform, "web", PORT=port)[0] == 0, what="the web process is ready")


@once_embedded
def test_a_web_process_that_takes_calls_and_answers_none_is_not_live(platform: Platform) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        code, says = probed(platform, "web", "--live", PORT=str(silent.getsockname()[1]))
    assert (code, says.endswith(": timed out")) == (1, True), says
