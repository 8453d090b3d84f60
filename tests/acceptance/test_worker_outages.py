"""What a real worker does while its database or its broker is away: nothing is lost, and nothing done twice."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings

from chaos.proxy import Proxy
from tests.acceptance.crew import Crew, Worker, a_crew
from tests.waiting import wait_until

pytestmark = pytest.mark.full

AWAY = "the database is away: the worker waits"
# So soon a worker takes silence for the end of a connection.
SOON = {"DATABASE_ANSWER_SECONDS": "3", "CELERY_BROKER_HEARTBEAT": "2"}


class Lines:
    """A worker, and its lines to the services."""

    def __init__(self, worker: Worker, database: Proxy, broker: Proxy) -> None:
        self.worker = worker
        self.database = database
        self.broker = broker

    def says(self, words: str, times: int = 1) -> None:
        wait_until(lambda: self.worker.process.output().count(words) >= times, what=f"the worker says {words!r}")


@pytest.fixture(scope="module")
def crew(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crew]:
    """Only the worker's lines are cut here, so its silence must not be taken for death."""
    with a_crew(tmp_path_factory, ONBEAT_WORKERS_LOST_AFTER_SECONDS="60") as started:
        yield started


@pytest.fixture(scope="module")
def lines(crew: Crew) -> Iterator[Lines]:
    with (
        Proxy(crew.platform.environment["DATABASE_URL"]) as database,
        Proxy(settings.CELERY_BROKER_URL) as broker,
        crew.working("lined", "-c", "3", **SOON, DATABASE_URL=database.url, CELERY_BROKER_URL=broker.url) as worker,
    ):
        yield Lines(worker, database, broker)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "notes"


def test_claims_finishes_and_deaths_wait_for_the_database_and_no_work_is_done_again(
    crew: Crew, lines: Lines, path: Path
) -> None:
    finishing = crew.run("crew.work", str(path), 1)
    dying = crew.run("crew.stubborn", 60, timeout_seconds=2, stop_grace_seconds=1)
    crew.begins(path)
    crew.reaches(dying, "RUNNING")
    lines.database.cut()
    claimed = crew.run("crew.work", str(path))
    crew.begins(path, 2)
    lines.says(AWAY, 2)
    lines.says("the end of an attempt is written later")
    crew.reaches(claimed, "QUEUED")  # its message was faster than the beat's word that it is sent
    assert [crew.state(execution) for execution in (finishing, dying)] == ["RUNNING", "RUNNING"]
    assert crew.state(claimed) in ("QUEUED", "SCHEDULED")  # a beat may take its message for lost, and publish it again
    lines.database.mend()
    for execution in (finishing, claimed):
        crew.reaches(execution, "SUCCEEDED")
        assert crew.attempts(execution) == [(1, "SUCCEEDED")]
    crew.reaches(dying, "DEAD")
    assert crew.attempts(dying) == [(1, "TIMED_OUT")]
    assert len(crew.lines(path)) == 4


def test_work_that_is_done_may_wait_for_the_database_beyond_its_time_limit(
    crew: Crew, lines: Lines, path: Path
) -> None:
    execution = crew.run("crew.work", str(path), 1, timeout_seconds=2, stop_grace_seconds=1)
    crew.begins(path)
    lines.database.cut()
    overdue = f"SELECT count(*) FROM onbeat_execution WHERE id = '{execution}' AND started_at < clock_timestamp() - "
    wait_until(lambda: crew.platform.count(f"{overdue} interval '6 seconds'"), what="its time is over")
    lines.database.mend()
    crew.reaches(execution, "SUCCEEDED")
    assert crew.attempts(execution) == [(1, "SUCCEEDED")]


def test_a_broker_that_goes_away_in_mid_run_delivers_again_and_the_work_is_done_once(
    crew: Crew, lines: Lines, path: Path
) -> None:
    executions = [crew.run("crew.work", str(path), 2) for _ in range(2)]
    crew.begins(path, 2)
    waiting = crew.run("crew.work", str(path))
    lines.broker.cut()
    lines.says("Connection to broker lost")
    lines.broker.mend()
    for execution in (*executions, waiting):
        crew.reaches(execution, "SUCCEEDED", seconds=60)
        assert crew.attempts(execution) == [(1, "SUCCEEDED")]
    assert len(crew.lines(path)) == 6
    after = crew.run("onbeat.echo")
    crew.reaches(after, "SUCCEEDED")


def test_a_database_that_takes_questions_and_never_answers_is_asked_over_new_connections(
    crew: Crew, lines: Lines, path: Path
) -> None:
    warm = [crew.run("crew.work", str(path), 1) for _ in range(3)]
    crew.begins(path, 3)  # so each child has a connection
    for execution in warm:
        crew.reaches(execution, "SUCCEEDED")
    lines.database.tear(gone="server")
    executions = [crew.run("crew.work", str(path)) for _ in range(4)]
    for execution in executions:
        crew.reaches(execution, "SUCCEEDED")
        assert crew.attempts(execution) == [(1, "SUCCEEDED")]


def test_a_broker_that_has_forgotten_its_worker_is_connected_to_anew(crew: Crew, lines: Lines, path: Path) -> None:
    lines.broker.tear(gone="server")
    execution = crew.run("crew.work", str(path))
    crew.reaches(execution, "SUCCEEDED")
    assert crew.attempts(execution) == [(1, "SUCCEEDED")]
