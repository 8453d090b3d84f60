"""What `run` and `up` tell all their programs."""

import socket
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
