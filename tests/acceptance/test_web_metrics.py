"""`/metrics` of real web processes: several count together, and a silent database holds up no scrape."""

import json
import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from chaos.proxy import Proxy
from tests.platform import Platform, Process
from tests.tiers import once_embedded
from tests.waiting import wait_until

RUNS = 15
PUBLISHED = 'onbeat_published_total{what="run"}'


def scraped(address: str) -> dict[str, float]:
    with urlopen(f"{address}/metrics", timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[0] != "#")}


def children(process: Process) -> set[int]:
    by_thread = Path(f"/proc/{process.pid}/task").glob("*/children")
    return {int(child) for listed in by_thread for child in listed.read_text().split()}


@once_embedded
def test_what_several_web_processes_count_is_one_figure_even_after_one_was_killed(platform: Platform) -> None:
    platform.migrate()
    secret = json.loads(platform.manage("api_keys", "create", "--name", "it", "--role", "admin", "--json"))["secret"]
    temporary = platform.folder / "temporary"
    temporary.mkdir()
    address = platform.web(GUNICORN_CMD_ARGS="--workers 3", TMPDIR=str(temporary))
    (web,) = platform.processes

    def post(path: str, body: object) -> None:
        headers = {"Authorization": f"Bearer {secret}", "Content-Type": "application/json"}
        with urlopen(Request(f"{address}/api/v1{path}", json.dumps(body).encode(), headers), timeout=30) as answer:
            assert answer.status == 201

    post("/jobs", {"key": "job", "target": {"task": "onbeat.echo"}})
    with ThreadPoolExecutor(8) as many:
        list(many.map(lambda _: post("/jobs/job/runs", {}), range(RUNS)))
    queued = "SELECT count(*) FROM onbeat_execution WHERE state = 'QUEUED'"
    wait_until(lambda: platform.count(queued) == RUNS, what="all runs are published")

    def counted_by() -> int:
        return len([each for each in temporary.glob("onbeat-metrics-*/counter_*.db") if each.stem != "counter_0"])

    with ThreadPoolExecutor(8) as many:  # whichever of the three answers
        seen = {page[PUBLISHED] for page in many.map(lambda _: scraped(address), range(15))}
    assert seen == {RUNS}
    wait_until(lambda: scraped(address) and counted_by() == 3, what="all three answered once")
    before = children(web)
    victim = min(before)
    os.kill(victim, signal.SIGKILL)
    wait_until(lambda: len(children(web) - before) == 1 and victim not in children(web), what="another takes its place")
    assert {scraped(address)[PUBLISHED] for _ in range(9)} == {RUNS}
    assert web.terminate() == 0
    assert not list(temporary.glob("onbeat-metrics-*"))


@pytest.mark.full
@pytest.mark.parametrize("misbehave", [Proxy.freeze, Proxy.cut], ids=lambda each: each.__name__)
def test_while_the_database_is_away_that_is_said_at_once_and_the_rest_is_shown(
    platform: Platform, misbehave: Callable[[Proxy], None]
) -> None:
    platform.migrate()
    with Proxy(platform.environment["DATABASE_URL"]) as line:
        address = platform.web(DATABASE_URL=line.url, DATABASE_ANSWER_SECONDS="2")
        up = scraped(address)
        assert (up["onbeat_database_up"], up['onbeat_beats{state="ticking"}']) == (1, 0)
        misbehave(line)
        wait_until(lambda: scraped(address)["onbeat_database_up"] == 0, what="it is noticed")
        for _ in range(3):
            began = time.monotonic()
            away = scraped(address)
            assert time.monotonic() - began < 5  # a second or two; more only on a machine that is held up
            assert away["onbeat_database_up"] == 0
            assert away['onbeat_published_total{what="run"}'] == 0
            assert 'onbeat_beats{state="ticking"}' not in away  # no old figure stands for a new one
        line.mend()
        wait_until(lambda: scraped(address)["onbeat_database_up"] == 1, what="it is back", seconds=60)
