"""The judge of `./onbeat chaos` on ends: recorded once, as the handler did it, given up only where that was to be."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from chaos.evidence import Attempt, Evidence
from chaos.ledger import Run
from tests.chaos_evidence import (
    FAILED,
    LOST,
    OK,
    STOPPED,
    UNTIL,
    End,
    Life,
    at,
    cancelled,
    clock,
    fired,
    life,
    said,
    speaking,
    story,
    version,
)

ASKED_TO_STOP: dict[str, Any] = {"cancel_requested_at": at(10)}
TIMED_OUT: End = ("failed", "TIMED_OUT")


def told(*lives: Life) -> Evidence:
    """Whoever has a row that was asked to stop did ask."""
    stops = [cancelled(one.row.id, 9.9, "asked to stop") for one in lives if one.row.cancel_requested_at is not None]
    return story(*lives, journal=stops)


# ── Ends agree ───────────────────────────────────────────────────────────────────────────────────────────────────────

AGREEING: dict[str, Life] = {
    "both say that it went well": life(ends=(OK,)),
    "both say that it failed": life(ends=(FAILED, OK)),
    "both say that it was stopped": life(ends=(STOPPED,), **ASKED_TO_STOP),
    "it went well and was lost before it could be told": life(ends=(("ok", "WORKER_LOST"), OK)),
    "it failed and was lost before it could be told": life(ends=(("failed", "WORKER_LOST"), OK)),
    "it was stopped and lost": life(ends=(("stopped", "WORKER_LOST"),), state="CANCELLED", **ASKED_TO_STOP),
    "it was killed": life(ends=(LOST, OK)),
    "it was stopped because it took too long": life(job="overtime", ends=(TIMED_OUT,)),
    "it was killed because it took too long": life(job="overtime", ends=(("", "TIMED_OUT"),)),
    "it was accepted and nobody told its end": life(job="call-later", ends=(("ok", "TIMED_OUT"), OK)),
    "it was accepted, lost and told by nobody": life(job="call-later", ends=(("ok", "WORKER_LOST"), OK)),
    "it was done before it could be stopped": life(ends=(("ok", "CANCELLED"),), **ASKED_TO_STOP),
    "it succeeded although it was asked to stop": life(ends=(OK,), **ASKED_TO_STOP),
    "it failed before it could be stopped": life(ends=(("failed", "CANCELLED"),), **ASKED_TO_STOP),
    "it failed when it was asked to stop": life(ends=(FAILED,), state="CANCELLED", **ASKED_TO_STOP),
    "it did not stop and was killed": life(ends=(("", "CANCELLED"),), **ASKED_TO_STOP),
    "it was stopped before its handler began": life(ends=((None, "CANCELLED"),), **ASKED_TO_STOP),
    "it was killed within the call that was to stop it": life(
        ends=(("", "FAILED"),), state="CANCELLED", **ASKED_TO_STOP
    ),
    "the answer to a call was lost": life(job="call-ok", ends=(("ok", "FAILED"), OK)),
    "the request of a call never arrived": life(job="call-ok", ends=((None, "FAILED"), OK)),
    "it was lost before its handler began": life(ends=((None, "WORKER_LOST"), OK)),
}
DISAGREEING: dict[str, Life] = {
    "it failed, and went well": life(ends=(("failed", "SUCCEEDED"),), result={"token": ""}),
    "it went well, and failed": life(ends=(("ok", "FAILED"), OK)),
    "it went well, and was stopped, which nobody asked for": life(ends=(("ok", "CANCELLED"), OK)),
    "it was stopped, which nobody asked for": life(ends=(STOPPED, OK)),
    "it was killed, and was stopped, which nobody asked for": life(ends=(("", "CANCELLED"), OK)),
    "it was killed, and went well": life(ends=(("", "SUCCEEDED"),), result={"token": ""}),
    "it was killed, and failed": life(ends=(("", "FAILED"), OK)),
    "it was stopped, and went well": life(ends=(("stopped", "SUCCEEDED"),), result={"token": ""}, **ASKED_TO_STOP),
    "it was stopped, and failed": life(ends=(("stopped", "FAILED"),), state="CANCELLED", **ASKED_TO_STOP),
    "it failed, and its time was over, of which it has no end": life(ends=(TIMED_OUT, OK)),
    "it was killed, and its time was over, of which it has no end": life(ends=(("", "TIMED_OUT"), OK)),
    "it went well, and its time was over": life(job="overtime", ends=(("ok", "TIMED_OUT"),)),
    "a call went well, and its time was over, of which it has no end": life(
        job="call-ok", ends=(("ok", "TIMED_OUT"), OK)
    ),
    "a call failed, and went well": life(job="call-ok", ends=(("failed", "SUCCEEDED"),)),
    "it never began, and failed": life(ends=((None, "FAILED"), OK)),
}


@pytest.mark.parametrize("name", AGREEING)
def test_a_record_that_agrees_with_its_handler_is_no_breach(name: str) -> None:
    assert said(told(AGREEING[name])) == []


@pytest.mark.parametrize("name", DISAGREEING)
def test_a_record_that_says_something_else_than_its_handler_is_found(name: str) -> None:
    assert speaking(told(DISAGREEING[name])) == ["ends agree"]


@pytest.mark.parametrize(
    ("end", "words"),
    [
        (("failed", "SUCCEEDED"), "ended failed, and is recorded as SUCCEEDED"),
        (("", "FAILED"), "ended without a word, and is recorded as FAILED"),
        (("stopped", "FAILED"), "ended stopped, and is recorded as FAILED"),
    ],
)
def test_a_disagreement_is_told_in_words(end: End, words: str) -> None:
    assert f"asked one: attempt 1 {words}" in said(story(life(ends=(end, OK))))


def test_an_attempt_that_failed_and_never_ran_is_told_in_words() -> None:
    found = said(story(life(ends=((None, "FAILED"), OK))))
    assert found == ["one: attempt 1 is recorded as FAILED, and never ran"]


def test_an_end_that_is_recorded_twice_is_found() -> None:
    one = life()
    assert said(story(replace(one, attempts=[*one.attempts, *one.attempts]))) == ["one: attempt 1 is recorded 2 times"]


@pytest.mark.parametrize("outcome", ["WORKER_LOST", "SUCCEEDED", "FAILED"])
def test_a_record_of_an_attempt_that_never_was_is_found(outcome: str) -> None:
    one = life(ends=(LOST, OK))
    ghost = Attempt("one", 9, outcome, at(10), at(11))
    found = said(story(replace(one, attempts=[*one.attempts, ghost])))
    assert "one: attempt 9 is recorded, and there is no such row" in found


def test_a_record_of_no_row_is_found() -> None:
    ghost = Attempt("ghost", 1, "SUCCEEDED", at(10), at(11))
    assert said(story(attempts=[ghost])) == ["ghost: attempt 1 is recorded, and there is no such row"]


def test_a_handler_that_ran_and_of_which_nothing_is_recorded_is_found() -> None:
    found = said(story(life(ends=(("ok", None), OK))))
    assert "asked one: attempt 1 ran and nothing is recorded of it" in found


def test_a_zombie_that_ran_at_an_attempt_that_never_was_is_found() -> None:
    one = life(ends=(LOST, OK))
    ghost = Run("one", 7, "asked", clock(12), clock(13), "ok", "ghost")
    found = said(story(replace(one, runs=[*one.runs, ghost])))
    assert "asked one: attempt 7 ran and nothing is recorded of it" in found


def test_what_is_not_due_by_the_end_need_not_be_over() -> None:
    assert said(story(life(fire=UNTIL + 1, ends=(("", None),), state="RUNNING"))) == []


# ── The last word ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("job", "ends", "state", "words"),
    [
        ("asked", (FAILED,), "SUCCEEDED", "asked one is SUCCEEDED, and its last attempt is FAILED"),
        ("asked", (LOST,), "SUCCEEDED", "asked one is SUCCEEDED, and its last attempt is WORKER_LOST"),
        ("doomed", (FAILED, FAILED, OK), "DEAD", "doomed one is DEAD, and its last attempt is SUCCEEDED"),
    ],
)
def test_a_row_and_its_last_attempt_say_the_same(job: str, ends: Sequence[End], state: str, words: str) -> None:
    assert said(story(life(job=job, ends=ends, state=state))) == [words]


def test_a_row_that_was_stopped_although_its_last_attempt_succeeded_is_found() -> None:
    one = life(ends=(OK,), state="CANCELLED", **ASKED_TO_STOP)
    assert said(told(one)) == ["asked one is CANCELLED, and its last attempt is SUCCEEDED"]


@pytest.mark.parametrize("ends", [(OK,), (("ok", None),), ((None, "SUCCEEDED"),)], ids=["both", "it ran", "its record"])
def test_a_row_that_was_skipped_although_it_ran_or_is_recorded_is_found(ends: Sequence[End]) -> None:
    one = fired(60, "edited-tick", ends=ends, state="SKIPPED")
    versions = [version(step=60, job="edited-tick")]
    recorded = ends[0][1] or "nothing"
    words = f"edited-tick edited-tick@60 is SKIPPED, and its attempt 1 ran or is recorded as {recorded}"
    assert words in said(story(one, versions=versions))
    assert speaking(story(one, versions=versions)) == ["ends agree"]


@pytest.mark.parametrize(
    ("job", "ends", "state"), [("asked", (OK,), "SUCCEEDED"), ("doomed", (FAILED, FAILED), "DEAD")]
)
def test_an_end_of_which_nothing_is_recorded_is_found(job: str, ends: Sequence[End], state: str) -> None:
    silent = (*ends[:-1], (ends[-1][0], None))
    found = said(story(life(job=job, ends=silent, state=state)))
    assert f"{job} one is {state}, and nothing is recorded of attempt {len(ends)}" in found


@pytest.mark.parametrize(
    "kept",
    [{"token": "one/1"}, {"token": "two/2"}, {}, None],
    ids=["of the attempt before", "of another execution", "an empty one", "none"],
)
def test_a_result_that_the_last_handler_did_not_return_is_found(kept: object) -> None:
    ended = life(ends=(("ok", "WORKER_LOST"), OK))
    assert said(story(ended)) == []
    assert said(story(ended.with_row(result=kept))) == [f"asked one keeps {kept}, and its handler returned one/2"]


def test_what_a_call_was_answered_is_its_result() -> None:
    assert said(story(life(job="call-ok", result={"status": 200}))) == []


# ── Every attempt is told ────────────────────────────────────────────────────────────────────────────────────────────

UNTOLD: End = (None, None)


@pytest.mark.parametrize(
    ("ends", "numbers"),
    [((UNTOLD, UNTOLD, OK), "[3]"), ((LOST, UNTOLD, OK), "[1, 3]"), ((UNTOLD, LOST, OK), "[2, 3]")],
    ids=["the first two", "one in between", "the first"],
)
def test_attempts_that_left_no_record_are_found(ends: Sequence[End], numbers: str) -> None:
    assert said(story(life(ends=ends))) == [f"asked one is at attempt 3, and told are {numbers}"]


def test_the_last_attempt_is_not_told_if_it_was_cancelled_before_it_began() -> None:
    one = life(ends=(FAILED, LOST, UNTOLD), state="CANCELLED")
    assert said(story(one, journal=[cancelled("one", 11.8)])) == []
    gone = life(ends=(FAILED, UNTOLD, UNTOLD), state="CANCELLED")
    assert speaking(story(gone, journal=[cancelled("one", 11.8)])) == ["every attempt is told"]


def test_the_last_attempt_is_told_if_it_was_given_up() -> None:
    found = speaking(story(life(job="doomed", ends=(FAILED, FAILED, UNTOLD), state="DEAD")))
    assert found == ["ends agree", "every attempt is told"]


# ── Given up only where that was to be ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("job", "ends"),
    [
        ("doomed", (FAILED, FAILED)),
        ("doomed", (FAILED, LOST, LOST, LOST, FAILED)),
        ("crash-always", (LOST, LOST)),
        ("overtime", (TIMED_OUT,)),
        ("overtime", (LOST, LOST, TIMED_OUT)),
    ],
    ids=["two failures", "two failures, and losses", "two losses", "its time was over", "the same after losses"],
)
def test_a_job_is_given_up_after_as_many_failures_or_losses_as_it_says(job: str, ends: Sequence[End]) -> None:
    assert said(story(life(job=job, ends=ends))) == []


@pytest.mark.parametrize(
    ("job", "ends", "why"),
    [
        ("flaky-0", (FAILED,), "{'FAILED': 1}"),
        ("asked", (FAILED, FAILED), "{'FAILED': 2}"),
        ("tick", (LOST, LOST), "{'WORKER_LOST': 2}"),
        ("doomed", (FAILED,), "1 failures, and 2 are allowed"),
        ("doomed", (FAILED, FAILED, FAILED), "3 failures, and 2 are allowed"),
        ("doomed", (FAILED, LOST), "1 failures, and 2 are allowed"),
        ("crash-always", (LOST,), "{'WORKER_LOST': 1}, and 2 losses are allowed"),
        ("crash-always", (LOST, LOST, LOST), "{'WORKER_LOST': 3}, and 2 losses are allowed"),
        ("overtime", (TIMED_OUT, TIMED_OUT), "2 failures, and 1 are allowed"),
        ("overtime", (LOST,), "0 failures, and 1 are allowed"),
    ],
)
def test_a_job_that_is_given_up_too_soon_or_too_late_is_found(job: str, ends: Sequence[End], why: str) -> None:
    found = story(life(job=job, ends=ends))
    assert said(found) == [f"{job} one was given up after {why}"]


def test_what_is_not_given_up_may_fail_and_be_lost_often() -> None:
    assert said(story(life(job="asked-flaky", ends=(*[FAILED, LOST] * 5, OK)))) == []


# ── Asked to stop, not tried again ───────────────────────────────────────────────────────────────────────────────────


def stopped(*ends: End, asked: float = 10.3) -> Evidence:
    """Somebody asks while the first attempt is at work, and is told at once that it was asked to stop."""
    one = life(ends=ends, cancel_requested_at=at(asked))
    return story(one, journal=[cancelled("one", asked - 0.05, "asked to stop")])


@pytest.mark.parametrize("again", [FAILED, LOST], ids=["it failed", "it was lost"])
def test_who_was_asked_to_stop_and_is_tried_again_is_found(again: End) -> None:
    found = stopped(FAILED, again, OK)
    assert "one was asked to stop, and its attempt 3 began after that" in said(found)
    assert speaking(found) == ["asked to stop, not tried again"]


def test_who_was_asked_to_stop_at_a_later_attempt_was_tried_before() -> None:
    assert said(stopped(FAILED, LOST, STOPPED, asked=12.3)) == []


def test_who_was_asked_to_stop_may_succeed_with_the_attempt_that_runs() -> None:
    assert said(stopped(OK)) == []


def test_who_was_too_late_to_ask_stops_nobody() -> None:
    late = cancelled("one", 10.2, "too late")
    assert said(story(life(ends=(FAILED, FAILED, OK)), journal=[late])) == []


def test_what_its_own_next_fire_asks_to_stop_is_not_tried_again_either() -> None:
    job, once = "limited-cancel", version(step=60, job="limited-cancel")
    asked: dict[str, Any] = {"cancel_requested_at": at(60.3)}
    assert said(story(fired(60, job, ends=(STOPPED,), **asked), versions=[once])) == []
    again = fired(60, job, ends=(*[LOST] * 20, OK), **asked)
    assert speaking(story(again, versions=[once])) == ["asked to stop, not tried again"]
