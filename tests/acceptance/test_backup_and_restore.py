"""A platform at work is dumped, goes on, and is killed; its dump is restored elsewhere: nothing is lost or doubled.

The other side has no message, no lease and no process of the old one. What the judge of the chaos harness asks of a
whole run is asked here of both halves together.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import pytest
from django.conf import settings

from chaos.evidence import Row
from chaos.judge import RULES
from executions.identity import fire_time_of
from launcher.binaries import find_postgres
from tests.acceptance.restoring import ASKED, GRACE_SECONDS, POLICIES, Side, Story, a_story
from tests.tiers import once_full

pytestmark = once_full


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Story, Side]]:
    is_full = settings.DATABASES["default"]["ENGINE"].endswith("postgresql")
    if is_full and find_postgres() is None:
        pytest.skip("PostgreSQL's programs are not on this machine")
    with a_story(tmp_path_factory.mktemp("restored"), is_full=is_full) as (story, new):
        yield story, new


@pytest.fixture
def story(told: tuple[Story, Side]) -> Story:
    return told[0]


def counted(rows: list[Row]) -> Counter[str]:
    return Counter(row.job for row in rows)


def test_the_dump_is_one_of_a_platform_at_work(story: Story) -> None:
    running, queued = counted(story.dumped_in("RUNNING")), counted(story.dumped_in("QUEUED"))
    assert running["long"] == 2
    assert running["limited"] == 1
    assert queued["aside"] == 40
    assert {"SCHEDULED", "SUCCEEDED", "DEAD"} <= {row.state for row in story.dumped.rows}
    assert len(story.after_the_dump()) > 20


@pytest.mark.parametrize("rule", ASKED)
def test_both_halves_together_keep_the_promise(story: Story, rule: str) -> None:
    assert list(RULES[rule](story.evidence)) == []


def test_what_was_over_stays_as_it_was(story: Story) -> None:
    over = story.dumped_in("SUCCEEDED", "DEAD", "SKIPPED", "CANCELLED")
    assert story.now(over) == over


def test_what_was_queued_is_published_again_and_runs_once(story: Story) -> None:
    queued = [row for row in story.dumped_in("QUEUED") if row.job == "aside"]
    assert [(row.state, row.attempt) for row in story.now(queued)] == [("SUCCEEDED", 1)] * 40


def test_what_ran_is_recorded_as_lost_and_tried_again_under_the_same_id(story: Story) -> None:
    running = story.dumped_in("RUNNING")
    outcomes: defaultdict[str, dict[int, str]] = defaultdict(dict)
    for each in story.evidence.attempts:
        outcomes[each.execution][each.number] = each.outcome
    assert [outcomes[row.id][row.attempt] for row in running] == ["WORKER_LOST"] * len(running)
    ran_again = {run.execution for run in story.new_runs}
    assert {row.id for row in running} <= ran_again
    long = [row for row in running if row.job in ("long", "limited")]
    assert {row.state for row in story.now(long)} == {"SUCCEEDED"}


def test_delayed_runs_that_came_due_meanwhile_run_and_later_ones_wait_under_their_key(
    told: tuple[Story, Side],
) -> None:
    story, new = told
    reminders = [row for row in story.dumped.rows if row.job == "reminder"]
    assert Counter(row.state for row in story.now(reminders)) == {"SUCCEEDED": 10, "SCHEDULED": 1}
    far = next(row for row in reminders if row.run_key == "far")
    asked_again = new.manage(
        "shell", "-c", "from jobs import runs; print('again', runs.run('reminder', run_key='far').execution_id)"
    )
    assert f"again {far.id}" in asked_again


def planned_elsewhere(story: Story, job: str) -> list[Row]:
    dumped = {row.id for row in story.dumped.rows}
    return [row for row in story.evidence.rows if row.job == job and row.id not in dumped]


@pytest.mark.parametrize("job", POLICIES)
def test_what_was_missed_is_handled_by_the_policy_of_its_job(story: Story, job: str) -> None:
    most = POLICIES[job][1]
    rows = planned_elsewhere(story, job)
    missed_before = min(story.created_at[row.id] for row in rows) - timedelta(seconds=GRACE_SECONDS)
    assert missed_before > story.began_at - timedelta(seconds=GRACE_SECONDS)
    missed = [row for row in rows if row.fire_time < missed_before]
    stretches = [row for row in missed if row.skipped_until is not None]
    ran = [row for row in missed if row.skipped_until is None]
    assert {row.state for row in ran} <= {"SUCCEEDED"}
    if most is None:
        assert (len(stretches), len(ran) > 3) == (0, True)
        return
    assert len(ran) == most
    (stretch,) = stretches
    assert stretch.reason.startswith("misfire: no beat could plan these in time")
    assert stretch.skipped_until is not None
    assert stretch.skipped_until < missed_before
    assert all(row.fire_time > stretch.skipped_until for row in ran)


def test_jobs_that_fire_once_did_so_or_say_why_not(story: Story) -> None:
    assert not [row for row in story.dumped.rows if row.job.startswith("once-")]
    ends = {
        job: [(row.state, row.reason.split(":")[0]) for row in planned_elsewhere(story, job)]
        for job in ("once-runs", "once-skips")
    }
    assert ends == {"once-runs": [("SUCCEEDED", "")], "once-skips": [("SKIPPED", "misfire")]}


def test_work_of_the_old_side_that_the_dump_does_not_know_is_done_again(story: Story) -> None:
    """As the page says: under the same id if the dump has the row, else the fire has a new one."""
    dumped = {row.id for row in story.dumped.rows}
    lost = [run for run in story.after_the_dump() if run.how == "ok"]
    again = {run.execution for run in story.new_runs}
    known = [run for run in lost if run.execution in dumped]
    assert {run.execution for run in known} <= again
    unknown = [run for run in lost if run.execution not in dumped and run.job.startswith("pulse-")]
    fires = {(row.job, row.fire_time) for row in story.evidence.rows}
    assert unknown
    assert not {run.execution for run in unknown} & {row.id for row in story.evidence.rows}
    assert {(run.job, fire_time_of(UUID(run.execution))) for run in unknown} <= fires


def test_upkeep_by_hand_before_anybody_starts_brings_everything_back_at_once(
    story: Story, tmp_path: Path, is_full: bool
) -> None:
    with Side(tmp_path / "third", is_full=is_full) as third:
        third.restore(story.file)
        done = json.loads(third.manage("upkeep", "lost-messages", "rescue", "--json").splitlines()[-1])
        queued, running = (len(story.dumped_in(state)) for state in ("QUEUED", "RUNNING"))
        assert done == {"rescue": running, "lost-messages": queued}
        assert third.count("SELECT count(*) FROM onbeat_execution WHERE state IN ('QUEUED', 'RUNNING')") == 0
