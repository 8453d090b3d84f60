"""Which services a benchmark runs on, and what it measures itself by."""

import os
import re
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from benchmarks import budgets, idle, many_executions, peer
from benchmarks.budgets import Line
from benchmarks.stage import named_services
from launcher.refusal import Refusal

ROOT = Path(__file__).resolve().parents[2]
DATABASE = "postgresql://onbeat:secret@127.0.0.1:5432/onbeat"
BROKER = "amqp://onbeat:secret@127.0.0.1:5672/onbeat"


@pytest.fixture(autouse=True)
def nothing_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DATABASE_URL", "REDIS_URL", "CELERY_BROKER_URL", "ONBEAT_ENV_FILE"):
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("DATA_DIR", str(tmp_path))


def test_without_services_a_benchmark_says_how_to_start_them() -> None:
    with pytest.raises(Refusal, match=r"needs PostgreSQL and RabbitMQ: start private ones with `\./onbeat services`"):
        named_services()


def test_the_private_services_are_taken_when_nothing_is_named(tmp_path: Path) -> None:
    (tmp_path / "services.env").write_text(f"DATABASE_URL={DATABASE}\nCELERY_BROKER_URL={BROKER}\n")
    assert named_services().as_env() == {"DATABASE_URL": DATABASE, "REDIS_URL": "", "CELERY_BROKER_URL": BROKER}


def test_what_is_named_is_not_mixed_with_the_private_services(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "services.env").write_text(f"DATABASE_URL={DATABASE}\nCELERY_BROKER_URL={BROKER}\n")
    monkeypatch.setenv("REDIS_URL", "redis://127.0.0.1:6379/0")
    with pytest.raises(Refusal):
        named_services()


def test_the_cpu_time_of_a_process_is_the_kernels() -> None:
    assert idle.cpu_seconds(os.getpid()) == pytest.approx(time.process_time(), abs=0.5)


def test_the_peer_is_the_pinned_version() -> None:
    pinned = re.search(r"^django-celery-beat==(.+)$", (ROOT / "requirements-dev.txt").read_text(), re.MULTILINE)
    assert pinned
    assert f"django-celery-beat {pinned[1]}" == peer.NAME


def test_a_percentile_is_one_of_the_values() -> None:
    assert budgets.percentile([3.0, 1.0, 2.0, 4.0], 50) == 2.0
    assert budgets.percentile(range(1, 101), 95) == 95
    assert budgets.percentile([7.0], 95) == 7.0


def test_a_figure_is_held_against_its_budget_if_it_has_one() -> None:
    lines = [Line("a", "a page", 12.5, "ms", 50), Line("b", "a start", 61, "ms", 60), Line("c", "a load", 3, "per s")]
    assert [line.is_met for line in lines] == [True, False, None]
    heading, *rows = budgets.table([line.as_json() for line in lines]).splitlines()
    assert heading.split() == ["figure", "budget"]
    assert [row.split() for row in rows] == [
        ["a", "page", "12.5", "ms", "≤", "50", "ms", "met"],
        ["a", "start", "61", "ms", "≤", "60", "ms", "MISSED"],
        ["a", "load", "3", "per", "s"],
    ]


@pytest.mark.parametrize("rows", [1, 99, 5_000_000])
def test_a_filled_table_has_as_many_rows_as_asked_for_within_whole_months(rows: int) -> None:
    now = datetime(2026, 3, 1, 0, 30, tzinfo=UTC)
    parts = many_executions.parts(rows, now=now)
    assert sum(part.count for part in parts) == rows
    assert all((part.start >= now) == part.is_future and part.start < part.end for part in parts)
    assert all(part.start.month == (part.end - timedelta(microseconds=1)).month for part in parts)
