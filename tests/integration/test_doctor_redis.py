"""The doctor looks at Redis; what needs a server of its own is tried on one."""

import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis as library
from django.conf import settings as project_settings

from chaos.proxy import Proxy
from launcher import redis_server
from launcher.ports import free_port
from launcher.service_record import Ports, Record
from terminal.doctor import redis
from tests.doctoring import doctor

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def own_server() -> Iterator[str]:
    """The address of a Redis that only this module uses."""
    folder = Path(tempfile.mkdtemp(prefix="onbeat-test-"))
    record = Record(location=str(folder), node="", ports=Ports(redis=free_port(set())))
    try:
        redis_server.start(folder, record)
        yield record.addresses().redis_url
    finally:
        redis_server.stop(folder, record)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def own(own_server: str, settings: Any) -> Iterator[library.Redis]:
    settings.REDIS_URL = own_server
    link = library.Redis.from_url(own_server)
    yield link
    link.config_set("maxmemory", "0")
    link.config_set("maxmemory-policy", "noeviction")
    link.acl_setuser("default", enabled=True, commands=["+info"], categories=["+@all"])
    link.close()


def test_without_an_address_there_is_a_note(settings: Any) -> None:
    settings.REDIS_URL = ""
    told = doctor("redis")
    assert (told.ids, told.says("redis"), told.code) == (["redis.N01"], "none is set", 0)


@pytest.mark.full
def test_a_redis_that_is_well_is_told_in_a_line() -> None:
    told = doctor("redis")
    assert told.bad == []
    assert told.says("redis").startswith("Redis ")
    assert told.says("redis").endswith(" ms; nothing in it has to survive a restart")


def test_one_that_does_not_answer_is_an_error(settings: Any) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    told = doctor("redis")
    assert told.ids == ["redis.E01"]
    assert "Connection refused" in told.findings[0]["says"]


def test_one_that_hangs_is_not_waited_for(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis, "ANSWER_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        settings.REDIS_URL = f"redis://127.0.0.1:{silent.getsockname()[1]}/0"
        says = doctor("redis").only("redis.E01")["says"]
    assert says.endswith("does not answer: not within 0.3 s.")


@pytest.mark.full
def test_a_wrong_password_is_told_without_it(own: library.Redis, settings: Any) -> None:
    login, _, place = settings.REDIS_URL.rpartition("@")
    settings.REDIS_URL = f"{login}wrong@{place}"
    says = doctor("redis").only("redis.E01")["says"]
    assert says.endswith("does not answer: it refuses the user or the password.")
    assert "wrong" not in says


@pytest.mark.full
@pytest.mark.parametrize(
    ("limit", "policy", "expected"),
    [
        ("0", "noeviction", []),
        ("100mb", "noeviction", []),
        ("100mb", "allkeys-lru", ["redis.E03"]),
        ("100mb", "volatile-ttl", ["redis.E03"]),
        ("0", "allkeys-lru", ["redis.W01"]),
    ],
)
def test_a_redis_that_throws_keys_away_is_told(
    limit: str, policy: str, expected: list[str], own: library.Redis
) -> None:
    own.config_set("maxmemory", limit)
    own.config_set("maxmemory-policy", policy)
    told = doctor("redis")
    assert told.bad == expected
    assert all(policy in finding["says"] for finding in told.findings)


@pytest.mark.full
def test_one_that_does_not_tell_of_itself_is_a_note(own: library.Redis) -> None:
    own.acl_setuser("default", enabled=True, commands=["-info"])
    told = doctor("redis")
    assert told.ids == ["redis.N03"]
    assert told.says("redis").startswith("answers in ")


@pytest.mark.full
def test_a_server_that_is_too_old_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis, "OLDEST", 1000)
    assert doctor("redis").bad == ["redis.E02"]


@pytest.mark.full
@pytest.mark.parametrize(("delay", "expected"), [(0.02, ["redis.N02"]), (0.12, ["redis.W02"])])
def test_one_that_answers_late_is_told(delay: float, expected: list[str], settings: Any) -> None:
    with Proxy(project_settings.REDIS_URL) as line:
        settings.REDIS_URL = line.url
        line.slow(delay)
        assert doctor("redis").ids == expected
