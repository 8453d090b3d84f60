"""What happened to an execution, moment by moment; and the waits between, as the page shows them."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from console.executions.page import steps
from executions.identity import new_execution_id
from executions.models import Attempt, Execution
from executions.states import Outcome, State
from executions.timeline import moments

NOON = datetime(2026, 6, 15, 12, 0, tzinfo=UTC)


def after(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def an_execution(state: State, **more: Any) -> Execution:
    """Stored five seconds ahead of noon, when it is due; in no database."""
    facts = {"created_at": after(-5), "fire_time": NOON, "available_at": NOON, "queue": "default"}
    return Execution(pk=new_execution_id(NOON), state=state, **{**facts, **more})


def an_attempt(number: int, outcome: Outcome, start: float, end: float, **more: Any) -> Attempt:
    return Attempt(number=number, outcome=outcome, worker="w", started_at=after(start), finished_at=after(end), **more)


def told(one: Execution, *attempts: Attempt) -> list[tuple[float, str, str]]:
    found = moments(one, list(attempts))
    return [((moment.at - NOON).total_seconds(), moment.what, moment.became) for moment in found]


STORED = (-5, "stored", "SCHEDULED")


def test_what_waits_was_stored_and_no_more() -> None:
    assert told(an_execution(State.SCHEDULED)) == [STORED]


def test_what_runs_began_on_a_worker() -> None:
    one = an_execution(State.RUNNING, queued_at=after(0.1), started_at=after(1), worker="w", attempt=1)
    assert told(one) == [
        STORED,
        (0.1, "in the queue default", "QUEUED"),
        (1, "attempt 1 began on w", "RUNNING"),
    ]


def test_attempts_are_told_by_their_own_records_and_none_twice() -> None:
    one = an_execution(
        State.SUCCEEDED, queued_at=after(31), started_at=after(32), finished_at=after(40), attempt=2, worker="w"
    )
    attempts = [an_attempt(1, Outcome.FAILED, 1, 2), an_attempt(2, Outcome.SUCCEEDED, 32, 40)]
    assert told(one, *attempts) == [
        STORED,
        (1, "attempt 1 began on w", "RUNNING"),
        (2, "attempt 1: FAILED", "FAILED"),
        (31, "in the queue default", "QUEUED"),
        (32, "attempt 2 began on w", "RUNNING"),
        (40, "attempt 2: SUCCEEDED", "SUCCEEDED"),
        (40, "SUCCEEDED", "SUCCEEDED"),
    ]


@pytest.mark.parametrize(
    ("state", "last"), [(State.RUNNING, "attempt 2 began on w"), (State.SCHEDULED, "attempt 1: FAILED")]
)
def test_a_retry_has_begun_when_it_runs_and_not_before(state: State, last: str) -> None:
    """A row that waits for its retry still keeps when it was started."""
    one = an_execution(state, started_at=after(3), worker="w", attempt=2)
    assert told(one, an_attempt(1, Outcome.FAILED, 1, 2))[-1][1] == last


def test_a_worker_that_came_back_too_late_is_told() -> None:
    lost = an_attempt(1, Outcome.WORKER_LOST, 1, 60, refused_at=after(90))
    assert told(an_execution(State.SCHEDULED, attempt=2), lost)[-1] == (
        90,
        "attempt 1 came back late and was refused",
        "",
    )


def test_a_request_to_stop_and_what_a_person_did_are_told() -> None:
    one = an_execution(
        State.DEAD,
        cancel_requested_at=after(3),
        finished_at=after(4),
        handled_at=after(5),
        handled_note="replayed",
    )
    assert [what for _, what, _ in told(one)] == ["stored", "asked to stop", "DEAD", "handled: replayed"]


# ── On the page ──────────────────────────────────────────────────────────────────────────────────────────────────


def shown(one: Execution, *attempts: Attempt, now: datetime) -> list[tuple[str, str, str]]:
    return [(step.what, step.tone, step.waited) for step in steps(one, list(attempts), now=now)]


def test_the_waits_between_are_told_where_there_are_any() -> None:
    one = an_execution(State.DEAD, queued_at=after(0.25), finished_at=after(190), attempt=1)
    assert shown(one, an_attempt(1, Outcome.TIMED_OUT, 5, 190), now=after(1000)) == [
        ("Stored", "calm", ""),
        ("Due", "calm", "5.0 s"),
        ("In the queue default", "run", "250 ms"),
        ("Attempt 1 began on w", "run", "4.8 s"),
        ("Attempt 1: TIMED_OUT", "bad", "3 min 5 s"),
        ("Dead", "bad", ""),
    ]


@pytest.mark.parametrize(
    ("more", "coming"),
    [
        ({"available_at": after(60)}, ("To be published", "coming", "1 min")),
        ({"available_at": after(60), "attempt": 2}, ("Attempt 2 comes", "coming", "1 min")),
    ],
)
def test_what_is_still_to_come_is_marked(more: dict[str, Any], coming: tuple[str, str, str]) -> None:
    assert shown(an_execution(State.SCHEDULED, **more), now=after(1))[-1] == coming


def test_a_fire_that_is_yet_to_come_is_the_last_step() -> None:
    assert shown(an_execution(State.SCHEDULED), now=after(-2))[-1] == ("Due", "coming", "5.0 s")
