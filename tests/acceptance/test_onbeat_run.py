"""`./onbeat run`: from a checkout to a running product in one command, and through a crash of everything."""

import contextlib
import itertools
import signal
import socket
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.checkout import Checkout, family, get, is_alive, kill_all
from tests.waiting import wait_until

pytestmark = pytest.mark.embedded


@pytest.fixture
def checkout(tmp_path: Path) -> Iterator[Checkout]:
    one = Checkout(tmp_path / "a checkout")
    yield one
    one.close()


def answer(checkout: Checkout, query: str) -> list[tuple[object, ...]]:
    with contextlib.closing(sqlite3.connect(checkout.data / "onbeat.sqlite3", timeout=20)) as database:
        return database.execute(query).fetchall()


def succeeded(checkout: Checkout) -> int:
    return len(answer(checkout, "SELECT 1 FROM onbeat_execution WHERE state = 'SUCCEEDED'"))


def test_one_command_runs_it_and_a_crash_of_everything_loses_nothing(checkout: Checkout) -> None:
    first = checkout.onbeat("run")
    address = checkout.address(first)
    status, body = get(address, "/health/ready")
    assert (status, body["status"]) == (200, "ready")
    wait_until(lambda: succeeded(checkout), what="a demo execution has succeeded")
    assert "password: " in checkout.output(first)
    assert get(address, "/admin/login/")[0] == 200
    assert get(address, "/static/admin/css/base.css")[0] == 200

    assert "runs on the data in" in checkout.refusal("run")

    everything = family(first.pid)
    assert len(everything) > 5  # supervisor, web and its child, beat, worker and its children
    kill_all(everything)
    first.wait()
    before = succeeded(checkout)

    second = checkout.onbeat("run")
    checkout.address(second)
    wait_until(lambda: succeeded(checkout) >= before + 2, what="fires go on after the crash")
    assert "password: " not in checkout.output(second)
    pulses = answer(
        checkout,
        "SELECT CAST(strftime('%s', fire_time) AS INTEGER) FROM onbeat_execution WHERE state <> 'SKIPPED' "
        "AND job_id = (SELECT id FROM onbeat_job WHERE key = 'demo.pulse') ORDER BY fire_time",
    )
    times = [int(str(row[0])) for row in pulses]
    assert {later - earlier for earlier, later in itertools.pairwise(times)} == {5}

    living = family(second.pid)
    second.send_signal(signal.SIGINT)
    assert second.wait(timeout=60) == 0
    assert [pid for pid in living if is_alive(pid)] == []


def test_the_programs_end_when_their_supervisor_is_killed(checkout: Checkout) -> None:
    process = checkout.onbeat("run")
    checkout.address(process)
    programs = family(process.pid)[1:]
    process.kill()
    process.wait()
    wait_until(lambda: not any(map(is_alive, programs)), what="web, beat and worker have ended")


def test_a_program_that_dies_is_started_again(checkout: Checkout) -> None:
    process = checkout.onbeat("run")
    checkout.address(process)
    beats = "SELECT pid FROM onbeat_beat ORDER BY started_at DESC"
    ((pid,),) = wait_until(lambda: answer(checkout, beats), what="the beat has signed on")
    kill_all([int(str(pid))])
    wait_until(lambda: answer(checkout, beats)[0] != (pid,), what="another beat has signed on")
    assert "ended by itself (by SIGKILL); starting again in 1 s" in checkout.output(process)


def test_a_port_that_is_taken_is_refused_if_it_was_asked_for(checkout: Checkout) -> None:
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        port = stranger.getsockname()[1]
        said = checkout.refusal("run", PORT=str(port))
    assert said == f"onbeat: Port {port} is taken by another program; set PORT to a free one, or unset it.\n"


@pytest.mark.parametrize("port", ["eight", "0", "70000", "-1"])
def test_a_port_that_is_none_is_refused(checkout: Checkout, port: str) -> None:
    assert f"PORT must be a number from 1 to 65535, not '{port}'." in checkout.refusal("run", PORT=port)


def test_a_folder_that_cannot_be_written_is_refused(checkout: Checkout) -> None:
    said = checkout.refusal("run", DATA_DIR="/proc/onbeat")
    assert said.startswith("onbeat: The folder /proc/onbeat cannot be written to (")
    assert "set DATA_DIR to a folder that you may write to" in said


def test_arguments_that_mean_nothing_are_refused(checkout: Checkout) -> None:
    assert "takes no arguments, but got '--port 80'" in checkout.refusal("run", "--port", "80")


def test_a_wrong_setting_is_one_sentence(checkout: Checkout) -> None:
    said = checkout.refusal("check", ONBEAT_BEAT_POLL_SECONDS="often")
    assert said == "onbeat: ONBEAT_BEAT_POLL_SECONDS must be a number of seconds above 0, not 'often'.\n"


def test_the_launcher_and_the_settings_both_read_dotenv(checkout: Checkout) -> None:
    (checkout.folder / ".env").write_text("PORT=eighty\n")
    assert "PORT must be a number from 1 to 65535, not 'eighty'." in checkout.refusal("run")
    (checkout.folder / ".env").write_text("ONBEAT_BEAT_POLL_SECONDS=0\n")
    assert "above 0, not '0'." in checkout.refusal("check")
    (checkout.folder / ".env").write_text("no equals sign\n")
    said = checkout.refusal("run")
    assert said.startswith("onbeat: ")
    assert said.endswith(".env, line 1: expected NAME=value.\n")


def test_any_other_word_goes_to_django(checkout: Checkout) -> None:
    process = checkout.onbeat("migrate", "--check")
    assert process.wait(timeout=60) == 1  # nothing is migrated in a new checkout
    assert checkout.onbeat("migrate").wait(timeout=60) == 0
    assert checkout.onbeat("migrate", "--check").wait(timeout=60) == 0


def test_help_lists_the_commands(checkout: Checkout) -> None:
    process = checkout.onbeat("help")
    assert process.wait(timeout=60) == 0
    for word in ("run", "up", "test", "services", "worker", "run_beat"):
        assert f"./onbeat {word}" in checkout.output(process)
