"""Which services a benchmark runs on, and what it measures itself by."""

import os
import re
import time
from pathlib import Path

import pytest

from benchmarks import idle, peer
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
