"""The judge of `./onbeat chaos` on runs: that they ran, when, how often, in which order and how many at once."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from chaos.evidence import DRAINED_WITHIN_SECONDS
from chaos.ledger import Run
from tests.chaos_evidence import (
    FAILED,
    LOST,
    OK,
    UNTIL,
    End,
    Life,
    at,
    cancelled,
    clock,
    entry,
    fired,
    life,
    said,
    speaking,
    story,
    version,
)

LOST_BEFORE_IT_BEGAN: End = (None, "WORKER_LOST")


def ran(one: Life, *runs: Run) -> Life:
    """The same, and its handlers did this instead."""
    return replace(one, runs=runs)


# ── No run without a row ─────────────────────────────────────────────────────────────────────────────────────────────


def test_a_handler_that_ran_for_nobody_is_found() -> None:
    ghost = Run("ghost", 1, "asked", clock(10), clock(11), "ok", "token")
    assert said(story(runs=[ghost])) == ["asked ran as ghost, of which there is no row"]


def test_a_run_as_one_of_another_job_is_found() -> None:
    one = life()
    assert speaking(story(ran(one, replace(one.runs[0], job="doomed")))) == ["no run without a row"]


def test_a_run_with_the_payload_of_another_is_found() -> None:
    one = life()
    found = said(story(ran(one, replace(one.runs[0], mark="of another"))))
    assert found == ["asked one ran as one of asked, with the mark of another"]


def test_a_run_of_an_attempt_that_its_row_has_not_reached_is_found() -> None:
    one = life()
    ghost = Run("one", 2, "asked", clock(9), clock(9.1), "ok", "ghost", one.runs[0].mark)
    found = said(story(ran(one, *one.runs, ghost)))
    assert "asked one ran as attempt 2, and its row is at 1" in found


def test_a_fire_and_a_call_have_no_mark() -> None:
    assert (
        said(story(fired(60), fired(60, "call-ok"), versions=[version(step=60, job="call-ok"), version(step=60)])) == []
    )


# ── No run before its time ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("early", [0.3, 15])
def test_a_fire_that_ran_before_its_time_is_found(early: float) -> None:
    found = said(story(fired(60).sooner(early), versions=[version(step=60)]))
    assert found == [f"tick tick@60 began {early:.2f} s before its time"]


def test_a_fire_of_tomorrow_that_ran_today_is_found() -> None:
    tomorrow = fired(86_400).sooner(86_370)
    assert speaking(story(fired(60), tomorrow, versions=[version(step=60)])) == ["no run before its time"]


def test_clocks_may_differ_by_a_few_milliseconds() -> None:
    assert said(story(life().sooner(0.02))) == []


def test_a_run_that_was_moved_may_come_earlier_and_another_may_not() -> None:
    move = entry("move", 15, 15.1, "done", execution="moved")
    moved, other = life("moved", fire=30, trigger="DELAYED").sooner(10), life("other", fire=30, trigger="DELAYED")
    assert said(story(moved, other, journal=[move])) == []
    assert said(story(moved, other.sooner(10), journal=[move])) == ["asked other began 10.00 s before its time"]


# ── No row without an end ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("state", ["SCHEDULED", "QUEUED", "RUNNING"])
def test_a_row_that_was_due_and_is_not_over_is_in_limbo(state: str) -> None:
    assert said(story(life(ends=(), state=state, reason="waits"))) == [f"asked one is {state} at attempt 1: waits"]
    assert said(story(life(ends=(), state=state, fire=UNTIL + 0.001))) == []
    assert speaking(story(life(ends=(), state=state, fire=UNTIL))) == ["no row without an end"]


@pytest.mark.parametrize(
    ("seconds", "breaches"), [(0.0, 0), (DRAINED_WITHIN_SECONDS, 0), (DRAINED_WITHIN_SECONDS + 0.1, 1), (None, 1)]
)
def test_all_is_over_a_minute_after_the_last_fault(seconds: float | None, breaches: int) -> None:
    assert speaking(story(life(), drained_after=seconds)) == ["all over within a minute"] * breaches


# ── What should run ran ──────────────────────────────────────────────────────────────────────────────────────────────


def test_a_success_without_a_handler_that_ran_is_found() -> None:
    found = said(story(life(ends=(FAILED, (None, "SUCCEEDED")))))
    assert found == ["asked one is SUCCEEDED, and its attempt 2 never ran"]


def test_a_success_that_only_an_earlier_attempt_can_claim_is_found() -> None:
    """The handler of the first attempt said ok, and the row says that it was the second."""
    found = speaking(story(life(ends=(("ok", "WORKER_LOST"), (None, "SUCCEEDED")))))
    assert found == ["what should run ran"]


def test_what_was_given_up_without_ever_running_is_found() -> None:
    never = life(
        job="doomed", ends=(LOST_BEFORE_IT_BEGAN, (None, "FAILED"), (None, "FAILED")), error="Oh\nThe worker vanished"
    )
    assert "doomed one was given up and never ran: ['The worker vanished']" in said(story(never))


@pytest.mark.parametrize(
    ("job", "ends"),
    [("crash-always", (LOST_BEFORE_IT_BEGAN, LOST_BEFORE_IT_BEGAN)), ("overtime", ((None, "TIMED_OUT"),))],
    ids=["lost each time", "frozen until its time was over"],
)
def test_what_has_but_one_life_may_lose_it_between_the_claim_and_the_handler(job: str, ends: Sequence[End]) -> None:
    assert said(story(life(job=job, ends=ends))) == []
    one = fired(60, job, ends=ends)
    assert said(story(one, versions=[version(step=60, job=job)])) == []


def test_what_was_given_up_may_have_run_at_any_of_its_attempts() -> None:
    assert said(story(life(job="crash-always", ends=(LOST, LOST_BEFORE_IT_BEGAN)))) == []
    assert said(story(life(job="doomed", ends=(FAILED, LOST_BEFORE_IT_BEGAN, FAILED)))) == []


def test_what_was_called_off_need_not_run() -> None:
    assert said(story(life(ends=(), state="CANCELLED"), journal=[cancelled("one", 9)])) == []


# ── One run per attempt ──────────────────────────────────────────────────────────────────────────────────────────────


def test_an_attempt_that_ran_twice_is_found_even_if_both_went_well() -> None:
    one = life()
    again = ran(one, *one.runs, replace(one.runs[0], began_at=clock(11), ended_at=clock(11.1)))
    assert said(story(again)) == ["asked one: attempt 1 ran 2 times"]


def test_an_attempt_that_ran_twice_is_told_once() -> None:
    """Which of the two its record tells of is not to be known."""
    one = life(job="call-ok")
    assert speaking(story(ran(one, replace(one.runs[0], how="failed"), *one.runs))) == ["one run per attempt"]


def test_attempts_of_one_execution_and_executions_of_one_job_run_once_each() -> None:
    assert said(story(life(ends=(LOST, LOST, OK)), life("two"))) == []


# ── One attempt after the other ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "again", [OK, LOST, (None, "WORKER_LOST")], ids=["it ran again", "it was lost then", "it was only claimed again"]
)
def test_what_is_tried_again_after_a_recorded_success_is_found(again: End) -> None:
    one = life(ends=(OK, again), state="SUCCEEDED")
    assert "one: attempt 1 succeeded, and attempt 2 came after it" in said(story(one))


def test_two_handlers_of_one_execution_at_once_are_found_if_neither_was_lost() -> None:
    one = life(job="asked-flaky", ends=(FAILED, OK))
    slow = replace(one.attempts[0], finished_at=at(20.1))
    both = replace(one, runs=[replace(one.runs[0], ended_at=clock(20)), one.runs[1]], attempts=[slow, one.attempts[1]])
    assert said(story(both)) == ["one: attempt 2 began before attempt 1 was over"]


@pytest.mark.parametrize(("early", "breaches"), [(0.02, 0), (0.24, 0), (0.26, 1), (5, 1)])
def test_the_next_attempt_begins_no_sooner_than_the_clocks_differ(early: float, breaches: int) -> None:
    one = life(ends=(LOST, OK))
    recorded = replace(one.attempts[0], finished_at=at(11 + early))
    found = speaking(story(replace(one, attempts=[recorded, one.attempts[1]])))
    assert found == ["one attempt after the other"] * breaches


def test_a_lost_hand_that_works_on_may_overlap_the_next_attempt() -> None:
    """It was frozen, and goes on when the next one is at work; its own finish is refused."""
    one = life(ends=(("ok", "WORKER_LOST"), OK))
    assert said(story(ran(one, replace(one.runs[0], ended_at=clock(11.3)), one.runs[1]))) == []


def test_a_lost_hand_that_begins_after_the_next_attempt_succeeded_is_not_one_more_attempt() -> None:
    """It was frozen between the claim and the handler. It comes later, and is the earlier one all the same."""
    one = life(ends=(("ok", "WORKER_LOST"), OK))
    late = replace(one.runs[0], began_at=clock(13), ended_at=clock(13.5))
    assert said(story(ran(one, late, one.runs[1]))) == []


# ── No more at once than allowed ─────────────────────────────────────────────────────────────────────────────────────


def a_run(name: str, began: float, ended: float | None, *, lost: float | None = None) -> Life:
    """Of a limited job. One that is recorded as lost at a moment is tried again long after that, when nobody else runs;
    its handler may have told its end or not."""
    if lost is None:
        assert ended is not None
        one = life(name, "limited", began)
        return replace(
            one,
            runs=[replace(one.runs[0], ended_at=clock(ended))],
            attempts=[replace(one.attempts[0], finished_at=at(ended))],
        )
    one = life(name, "limited", began, ends=(("ok" if ended else "", "WORKER_LOST"), OK))
    first = replace(one.runs[0], ended_at=None if ended is None else clock(ended))
    again = replace(one.runs[1], began_at=clock(40), ended_at=clock(41))
    return replace(one, runs=[first, again], attempts=[replace(one.attempts[0], finished_at=at(lost)), one.attempts[1]])


def at_once(*lives: Life, most: int = 1) -> list[str]:
    return said(story(*lives, limits={"limited": most}))


def test_two_at_once_where_one_may_are_found() -> None:
    assert at_once(a_run("one", 10, 12), a_run("two", 11, 13)) == ["2 of limited ran at once, and 1 may"]


def test_one_that_lies_within_another_is_at_once_with_it() -> None:
    assert at_once(a_run("one", 10, 20), a_run("two", 12, 13), a_run("three", 14, 15)) != []


def test_a_limit_is_what_may_run_and_not_one_less() -> None:
    two = [a_run("one", 10, 12), a_run("two", 11, 13)]
    assert at_once(*two, most=2) == []
    assert at_once(*two, a_run("three", 11.5, 14), most=2) == ["3 of limited ran at once, and 2 may"]


def test_who_begins_at_the_moment_at_which_another_ends_does_not_overlap_it() -> None:
    assert at_once(a_run("one", 10, 11), a_run("two", 11, 12)) == []


def test_jobs_without_a_limit_and_limits_of_other_jobs_do_not_matter() -> None:
    assert said(story(life("one"), life("two"), a_run("three", 10, 11), limits={"limited": 1, "other": 1})) == []


def test_a_lost_run_counts_until_it_is_recorded_as_lost() -> None:
    assert at_once(a_run("lost", 10, None, lost=16), a_run("next", 17, 18)) == []
    assert at_once(a_run("lost", 10, None, lost=16), a_run("next", 15, 18)) != []


def test_a_lost_hand_that_works_on_may_overlap_the_next() -> None:
    """It was frozen, its run was given to another, and now it goes on as if no time had passed."""
    assert at_once(a_run("lost", 10, 20, lost=16), a_run("next", 17, 18)) == []


def test_a_lost_hand_that_begins_only_after_it_was_given_up_counts_for_nothing() -> None:
    late = a_run("lost", 10, 20, lost=16)
    late = ran(late, replace(late.runs[0], began_at=clock(17)), late.runs[1])
    assert at_once(late, a_run("next", 17.5, 18)) == []
    assert at_once(late, a_run("next", 16.2, 16.8), a_run("another", 16.3, 16.9)) != []  # nor does it make room


def test_a_run_whose_end_nobody_tells_counts_to_the_end() -> None:
    endless = replace(life("one", "limited"), runs=[Run("one", 1, "limited", clock(10))], attempts=[])
    found = at_once(endless, a_run("two", 50, 51))
    assert "2 of limited ran at once, and 1 may" in found


def test_a_handler_that_is_done_leaves_its_place_before_that_is_recorded() -> None:
    done = a_run("one", 10, 11)
    late = replace(done, attempts=[replace(done.attempts[0], finished_at=at(16))])
    assert at_once(late, a_run("two", 12, 13)) == []
