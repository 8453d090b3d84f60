"""What `run` and `up` tell all their programs."""

import socket
import stat
from pathlib import Path

import pytest

from launcher import platform


def test_receivers_of_callbacks_on_this_machine_are_told_where_the_web_process_listens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ONBEAT_CALLBACKS_URL", raising=False)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        told = platform._for_all(tmp_path, listening)
        assert told["DATA_DIR"] == str(tmp_path)
        assert told["ONBEAT_CALLBACKS_URL"] == f"http://127.0.0.1:{listening.getsockname()[1]}"


def test_logs_are_for_people_and_metrics_for_this_machine_unless_the_environment_says_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ONBEAT_EXECUTIONS_LOG_FORMAT", raising=False)
    monkeypatch.setenv("ONBEAT_WORKERS_METRICS_ADDRESS", "10.0.0.7:9102")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        told = platform._for_all(tmp_path, listening)
    assert told["ONBEAT_EXECUTIONS_LOG_FORMAT"] == "text"
    assert told["ONBEAT_BEAT_METRICS_ADDRESS"].startswith("127.0.0.1:")
    assert told["ONBEAT_WORKERS_METRICS_ADDRESS"] == "10.0.0.7:9102"


def test_who_says_where_receivers_reach_it_is_heard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONBEAT_CALLBACKS_URL", "https://onbeat.example.org")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        assert platform._for_all(tmp_path, listening)["ONBEAT_CALLBACKS_URL"] == "https://onbeat.example.org"


def test_tasks_and_callbacks_have_a_worker_each() -> None:
    programs = platform.workers({})
    assert [(program.name, program.command[-2:]) for program in programs] == [
        ("worker", ["--only", "tasks"]),
        ("callbacks", ["--only", "callbacks"]),
    ]


def test_the_password_of_flower_is_made_once_and_kept_for_its_owner_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FLOWER_BASIC_AUTH", raising=False)
    environment, said = platform.flower_login(tmp_path)
    name, _, password = environment["FLOWER_BASIC_AUTH"].partition(":")
    kept = tmp_path / "flower_password"
    assert (name, password) == ("onbeat", kept.read_text())
    assert len(password) >= 20
    assert "," not in password  # which would part it in two
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert said == f"user onbeat, password in {kept}"
    assert platform.flower_login(tmp_path)[0] == environment


def test_who_says_how_people_get_into_flower_is_heard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLOWER_BASIC_AUTH", "me:mine")
    assert platform.flower_login(tmp_path) == ({}, "log in as FLOWER_BASIC_AUTH says")
    assert list(tmp_path.iterdir()) == []


def test_flower_listens_on_this_machine_alone_and_reads_what_else_holds_for_it() -> None:
    words = platform.flower(5555, {}).command
    assert "--address=127.0.0.1" in words
    (conf,) = [word.removeprefix("--conf=") for word in words if word.startswith("--conf=")]
    assert Path(conf).is_file()
