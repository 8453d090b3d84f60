"""`./onbeat test`: which tiers run, and what it says when one cannot."""

import re
from functools import cache
from pathlib import Path

import pytest

from launcher import folders, services, testing
from launcher.refusal import Refusal


@pytest.fixture(autouse=True)
def _somewhere_else(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DATA_DIR", str(tmp_path))
    monkeypatch.chdir(folders.ROOT)
    monkeypatch.delenv("CI", raising=False)


@pytest.fixture
def no_services(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(_data_dir: Path, _say: object) -> None:
        raise services.ServicesUnavailable("Not found on this machine: RabbitMQ. Install it.")

    monkeypatch.setattr(services, "start", start)


_counted = cache(testing._collected)


@pytest.fixture(autouse=True)
def _each_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """To count tests is a pytest of its own, which takes long to start."""
    monkeypatch.setattr(testing, "_collected", lambda arguments: _counted(tuple(arguments)))


LEASES = ["tests/integration/test_lease.py"]


def test_without_services_it_says_how_many_tests_it_left_out_and_why(
    no_services: None, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert testing._full_tier(LEASES, str(tmp_path)) is True
    said = capsys.readouterr().out
    assert re.search(r"LEFT OUT: [1-9]\d* tests that need PostgreSQL, Redis and RabbitMQ did not run\.", said)
    assert "Not found on this machine: RabbitMQ. Install it." in said


def test_in_ci_leaving_tests_out_is_a_failure(
    no_services: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CI", "true")
    assert testing._full_tier(LEASES, str(tmp_path)) is False


def test_the_callers_services_are_not_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://production/db")
    monkeypatch.setenv("ONBEAT_ENV_FILE", "/etc/onbeat.env")
    environment = testing._clean_environment({"DATA_DIR": "/tmp/scratch"})
    assert environment["DATABASE_URL"] == environment["ONBEAT_ENV_FILE"] == ""
    assert environment["DATA_DIR"] == "/tmp/scratch"


def test_no_process_of_a_test_compiles_what_another_has_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    assert not testing._clean_environment({})["PYTHONDONTWRITEBYTECODE"]


def test_tests_that_need_no_services_do_not_start_any(no_services: None, tmp_path: Path) -> None:
    assert testing._full_tier(["tests/unit/test_states.py"], str(tmp_path)) is True


def test_every_file_with_real_processes_is_in_one_group() -> None:
    groups = testing._real_processes()
    assert all(groups.values())  # without a file pytest would run all
    files = sorted(str(path) for path in Path("tests/acceptance").glob("test_*.py"))
    assert sorted(name for group in groups.values() for name in group) == files


def test_one_failed_step_fails_the_whole(capsys: pytest.CaptureFixture[str]) -> None:
    assert testing._summary({"format": True, "types": True}, 12) == 0
    with pytest.raises(Refusal, match="The test command failed in: types, tests, full"):
        testing._summary({"format": True, "types": False, "tests, full": False}, 12)
    assert "1 of 3 steps passed" in capsys.readouterr().out


def test_a_failing_check_shows_what_it_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert testing._step("lint", ["sh", "-c", "echo the finding; exit 1"], {}) is False
    said = capsys.readouterr().out
    assert "FAIL lint" in said
    assert "the finding" in said
