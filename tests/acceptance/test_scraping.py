"""All kinds of processes at work, scraped: their figures are the database's, to the unit."""

import json
import os
from collections.abc import Iterator
from urllib.request import Request, urlopen

import pytest

from tests import scraping
from tests.acceptance.crew import Crew, a_crew
from tests.platform import Process
from tests.scraping import ADDRESS
from tests.tiers import once_full
from tests.waiting import wait_until

pytestmark = once_full

_IS_LONG = bool(os.environ.get("TEST_LONG"))
_FIRES = 60 if _IS_LONG else 8
_LIVE = "('SCHEDULED', 'QUEUED', 'RUNNING')"


@pytest.fixture(scope="module")
def crew(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crew]:
    addresses = {"ONBEAT_BEAT_METRICS_ADDRESS": ADDRESS, "ONBEAT_WORKERS_METRICS_ADDRESS": ADDRESS}
    with a_crew(tmp_path_factory, **addresses) as crew:
        yield crew


class Load:
    """Jobs that fire each second until they have fired so often, runs that are asked for, failures and skips."""

    def __init__(self, crew: Crew) -> None:
        self._crew = crew
        make = "[definitions.create(key={key!r}, task={task!r}, {more})] and None"
        each = f"schedule=Cron('* * * * * *'), max_fires={_FIRES}"
        once = "retry=RetryPolicy(max_attempts=1)"
        twice = "retry=RetryPolicy(max_attempts=2, initial_seconds=1, cap_seconds=1)"
        for number in range(5):
            crew.ask(make.format(key=f"good-{number}", task="crew.work", more=f"args=['/dev/null'], {each}"))
        crew.ask(make.format(key="dead", task="crew.fails", more=f"{each}, {once}"))
        crew.ask(make.format(key="retried", task="crew.fails", more=f"{each}, {twice}"))
        slow = f"args=['/dev/null', 2.5], {each}, overlap='SKIP'"
        crew.ask(make.format(key="slow", task="crew.work", more=slow))
        crew.ask(make.format(key="asked", task="crew.work", more="args=['/dev/null']"))
        crew.ask("runs.run_many('asked', [runs.Wanted() for _ in range(50)]) and None")

    def ask_through(self, web: str, key: str, runs: int) -> None:
        """By REST, where the web process publishes itself."""
        for _ in range(runs):
            headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
            request = Request(f"{web}/api/v1/jobs/asked/runs", json.dumps({}).encode(), headers)
            with urlopen(request, timeout=30) as answer:
                assert answer.status in (200, 201, 202)

    def is_over(self) -> bool:
        jobs = self._crew.platform.count("SELECT count(*) FROM onbeat_schedule WHERE next_fire_at IS NOT NULL")
        return not jobs and not self._crew.platform.count(
            f"SELECT count(*) FROM onbeat_execution WHERE state IN {_LIVE}"
        )


def test_what_all_processes_count_is_what_the_database_holds(crew: Crew) -> None:
    beats = [crew.platform.processes[0], crew.platform.beat("beat-2")]
    web = crew.platform.web()
    key = crew.ask("api_keys.make(name='load', role='operator').secret")
    with crew.working("workers-1", "-c", "3") as one, crew.working("workers-2", "-P", "threads") as two:
        workers = [one.process, two.process]
        load = Load(crew)
        load.ask_through(web, key, 20)
        _scrape_meanwhile(beats, workers, web)
        wait_until(load.is_over, what="all has run", seconds=60 + 2 * _FIRES)
        _compare(crew, [scraping.address(process) for process in (*beats, *workers)], f"{web}/metrics")


def _scrape_meanwhile(beats: list[Process], workers: list[Process], web: str) -> None:
    """It costs nobody a count."""
    for process in (*beats, *workers):
        assert scraping.page(scraping.address(process))["onbeat_build_info{version=0.1.0}"] == 1
    assert scraping.page(f"{web}/metrics")["onbeat_database_up"] == 1


def _compare(crew: Crew, urls: list[str], web: str) -> None:
    count = crew.platform.count
    fires = count("SELECT count(*) FROM onbeat_execution WHERE trigger = 'SCHEDULE'")
    runs = count("SELECT count(*) FROM onbeat_execution WHERE trigger = 'MANUAL'")
    attempts = dict(crew.platform.rows("SELECT outcome, count(*) FROM onbeat_attempt GROUP BY outcome"))
    states = dict(crew.platform.rows("SELECT state, count(*) FROM onbeat_execution GROUP BY state"))
    retries = count("SELECT count(*) FROM onbeat_attempt WHERE number > 1")
    assert (fires, runs) == (8 * _FIRES, 70)
    assert attempts["FAILED"] == 3 * _FIRES
    assert states["SKIPPED"] > 0
    seen = scraping.page(*urls, web)
    assert seen["onbeat_fires_planned_total"] == fires
    assert seen["onbeat_fires_skipped_total{reason=overlap}"] == states["SKIPPED"]
    for outcome in ("SUCCEEDED", "FAILED", "TIMED_OUT", "WORKER_LOST", "CANCELLED"):
        assert seen[f"onbeat_attempts_total{{outcome={outcome}}}"] == attempts.get(outcome, 0), outcome
    for state in ("SUCCEEDED", "DEAD", "CANCELLED"):
        assert seen[f"onbeat_executions_total{{state={state}}}"] == states.get(state, 0), state
    assert seen["onbeat_attempt_seconds_count"] == sum(attempts.values())
    assert (seen["onbeat_retries_total"], seen["onbeat_dead_letters_total"]) == (retries, states["DEAD"])
    _compare_messages(crew, urls, web, attempts=sum(attempts.values()), fires=fires, runs=runs, retries=retries)
    _compare_the_web(crew, web, dead=states["DEAD"], fires=fires)


def _compare_messages(
    crew: Crew, urls: list[str], web: str, *, attempts: int, fires: int, runs: int, retries: int
) -> None:
    """Each message that was published was taken by a worker: for an attempt, or its log tells that it was dropped.

    Beats without Redis publish a few twice when another one joins them.
    """

    def taken() -> int:
        said = [process.output() for process in crew.platform.processes if process.name.startswith("workers")]
        return attempts + sum(text.count("message dropped") + text.count("held back") for text in said)

    def published() -> scraping.Page:
        return scraping.page(*urls, web)

    kinds = {"fire": fires, "run": runs, "retry": retries}
    wait_until(
        lambda: sum(published()[f"onbeat_published_total{{what={what}}}"] for what in kinds) == taken(),
        what="all messages are taken",
    )
    seen = published()
    assert {what: seen[f"onbeat_published_total{{what={what}}}"] >= number for what, number in kinds.items()} == (
        dict.fromkeys(kinds, True)
    )
    assert scraping.page(*urls)["onbeat_lateness_seconds_count"] + scraping.page(web)[
        "onbeat_published_total{what=run}"
    ] == (taken())


def _compare_the_web(crew: Crew, web: str, *, dead: int, fires: int) -> None:
    """What a beat counts for it now and then, and what is looked up at once."""
    wait_until(lambda: scraping.page(web)["onbeat_dead_letters_waiting"] == dead, what="a beat has counted", seconds=40)
    seen = scraping.page(web)
    assert seen["onbeat_schedules{state=active}"] == crew.platform.count(
        "SELECT count(*) FROM onbeat_schedule WHERE is_active"
    )
    assert (seen["onbeat_schedules{state=due}"], seen["onbeat_overdue_seconds"]) == (0, 0)
    assert (seen["onbeat_beats{state=ticking}"], seen["onbeat_workers{state=alive}"]) == (2, 2)
    assert sum(value for name, value in seen.samples.items() if name.startswith("onbeat_queue_waiting")) == 0
    assert seen["onbeat_ledger_missing_fires"] == 0
    if _IS_LONG:  # a window is looked at a minute after it has passed
        wait_until(
            lambda: scraping.page(web)["onbeat_ledger_expected_fires_total"] == fires,
            what="the ledger has come so far",
            seconds=150,
        )
        assert scraping.page(web)["onbeat_ledger_recorded_fires_total"] == fires
