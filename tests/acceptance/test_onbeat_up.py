"""`./onbeat up`: everything on private PostgreSQL, Redis and RabbitMQ in one command."""

import base64
import json
import signal
import stat
from collections.abc import Iterator
from pathlib import Path
from urllib.request import Request, urlopen

import psycopg
import pytest

from launcher import env_file, services
from tests.acceptance.checkout import Checkout, family, get, is_alive
from tests.waiting import wait_until

pytestmark = pytest.mark.full


@pytest.fixture
def checkout(tmp_path: Path) -> Iterator[Checkout]:
    one = Checkout(tmp_path / "checkout")
    yield one
    one.close()
    services.stop(one.data, lambda _line: None)


def test_one_command_runs_everything_on_services_of_its_own_and_stops_it_again(checkout: Checkout) -> None:
    process = checkout.onbeat("up")
    address = checkout.address(process)
    environment = env_file.read(checkout.data / "services.env")

    def count(query: str) -> int:
        with psycopg.connect(environment["DATABASE_URL"]) as connection:
            row = connection.execute(query.encode()).fetchone()
            return int(row[0]) if row else 0

    wait_until(
        lambda: count("SELECT count(*) FROM onbeat_execution WHERE state = 'SUCCEEDED'"), what="an execution succeeded"
    )
    wait_until(lambda: count("SELECT count(*) FROM onbeat_beat") == 2, what="both beats have signed on")
    assert get(address, "/health/ready")[0] == 200
    flower = checkout.address(process, "flower")
    wait_until(lambda: get(flower, "/healthcheck")[0] == 200, what="Flower answers")
    assert get(flower, "/api/workers")[0] == 401
    kept = checkout.data / "flower_password"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert f"user onbeat, password in {kept}" in checkout.output(process)
    assert kept.read_text() not in checkout.output(process)
    login = base64.b64encode(f"onbeat:{kept.read_text()}".encode()).decode()
    asked = Request(f"{flower}api/workers?refresh=1", headers={"Authorization": f"Basic {login}"})
    wait_until(lambda: len(json.load(urlopen(asked, timeout=30))) == 2, what="Flower shows both workers")
    assert "not for the open internet" in checkout.output(process)

    members = family(process.pid)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=90) == 0
    assert [pid for pid in members if is_alive(pid)] == []
    assert services.running(checkout.data) is None
