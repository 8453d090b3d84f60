"""The primary crashes under load and its standby takes over: the address names both, and the platform goes on."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from chaos import ledger
from chaos.evidence import Evidence
from chaos.forgotten import remembered
from chaos.judge import RULES
from launcher.binaries import find_postgres
from tests.acceptance.own_postgres import Pair, own_postgres
from tests.acceptance.restoring import ASIDE, ASKED, QUICK, Side, jobs
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(find_postgres() is None, reason="PostgreSQL's programs are not on this machine"),
]


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    with own_postgres() as started:
        yield started


def test_a_standby_that_has_every_commit_takes_over_and_nothing_is_lost_or_doubled(pair: Pair, tmp_path: Path) -> None:
    pair.wait_for_the_standby()
    with Side(tmp_path / "side", is_full=True) as side:
        side.environment |= {"DATABASE_URL": pair.url, "DATABASE_ANSWER_SECONDS": "5"}
        side.migrate()
        side.call("make_jobs")
        side.worker_of(*QUICK, ASIDE)
        side.is_at_work(beats=2)
        has_succeeded = "SELECT count(*) > 100 FROM onbeat_execution WHERE state = 'SUCCEEDED'"
        wait_until(lambda: side.count(has_succeeded), what="it is at work")
        crashed_at = time.time()
        pair.crash_the_primary()
        wait_until(lambda: time.time() > crashed_at + 2, what="somebody notices")
        pair.promote()
        promoted_at = time.time()
        until = datetime.now(UTC) + timedelta(seconds=3)
        wait_until(
            lambda: datetime.now(UTC) > until and not side.left(until), what="all that was due is over", seconds=90
        )
        side.kill()
        tables, runs = side.tables(), ledger.read(side.ledger)
    recorded = {(each.execution, each.number): each.started_at.timestamp() for each in tables.attempts}
    known = remembered(runs, recorded=recorded, limited=tables.limits, crashes=[(crashed_at, promoted_at)])
    evidence = Evidence(
        began_at=until,
        until=until,
        rows=tables.rows,
        attempts=tables.attempts,
        versions=tables.versions,
        runs=known,
        limits=tables.limits,
        load={job.key: job.step for job in jobs() if job.step is not None},
    )
    assert {name: breaches for name in ASKED if (breaches := list(RULES[name](evidence)))} == {}
    assert not [row for row in tables.rows if row.state == "SKIPPED"]
