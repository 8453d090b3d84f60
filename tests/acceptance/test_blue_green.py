"""Two sets of processes on one database, each with a prefix of its own: the second takes over while both work."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from chaos import ledger
from chaos.evidence import Evidence
from chaos.judge import RULES
from tests.acceptance.restoring import ASIDE, ASKED, QUICK, Side, jobs
from tests.waiting import wait_until

pytestmark = pytest.mark.full


def is_at_work(side: Side) -> None:
    before = len(ledger.read(side.ledger))
    wait_until(lambda: len(ledger.read(side.ledger)) > before + 20, what="its workers run what is due")


def test_the_second_takes_over_under_load_and_nothing_is_lost_doubled_or_tried_again(tmp_path: Path) -> None:
    with Side(tmp_path / "blue", is_full=True) as blue, Side(tmp_path / "green", is_full=True) as green:
        green.environment["DATABASE_URL"] = blue.environment["DATABASE_URL"]
        blue.migrate()
        blue.call("make_jobs")
        blue_worker = blue.worker_of(*QUICK, ASIDE)
        blue.is_at_work(beats=1)
        is_at_work(blue)
        began_at = datetime.now(UTC)
        green.worker_of(*QUICK, ASIDE)
        green_beat = green.beat("green")
        is_at_work(green)
        (blue_beat,) = (process for process in blue.processes if process is not blue_worker)
        assert blue_beat.terminate() == 0
        is_at_work(green)
        assert blue_worker.terminate() == 0
        is_at_work(green)
        until = datetime.now(UTC) + timedelta(seconds=1)
        wait_until(
            lambda: datetime.now(UTC) > until and not blue.left(until), what="all that was due is over", seconds=90
        )
        assert green_beat.is_running()
        green.kill()
        tables = blue.tables()
        runs = sorted([*ledger.read(blue.ledger), *ledger.read(green.ledger)], key=lambda run: run.began_at)
    evidence = Evidence(
        began_at=began_at,
        until=until,
        rows=tables.rows,
        attempts=tables.attempts,
        versions=tables.versions,
        runs=runs,
        limits=tables.limits,
        load={job.key: job.step for job in jobs() if job.step is not None},
    )
    assert {name: breaches for name in ASKED if (breaches := list(RULES[name](evidence)))} == {}
    assert not [row for row in tables.rows if row.state == "SKIPPED"]
    due = {row.id for row in tables.rows if row.fire_time <= until}
    assert not [each for each in tables.attempts if each.outcome == "WORKER_LOST" and each.execution in due]
