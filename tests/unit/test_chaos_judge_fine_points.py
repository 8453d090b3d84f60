"""The judge of `./onbeat chaos` where a breach and a bad day look alike: found, or left alone, for what it is."""

from dataclasses import replace

import pytest

from tests.chaos_evidence import (
    FAILED,
    LOST,
    OK,
    STOPPED,
    asked_for,
    at,
    cancelled,
    clock,
    entry,
    fired,
    life,
    said,
    skipped,
    speaking,
    story,
    version,
)

EDITED = "edited-tick"
TICK = version(job=EDITED)
FIRES = [fired(second, EDITED) for second in (20, 40, 60)]

# ── Found ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_asked_to_stop_failed_and_tried_again_at_once_is_found() -> None:
    one = life(ends=(FAILED, OK), cancel_requested_at=at(10.3))
    assert speaking(story(one, journal=[cancelled("one", 10.2, "asked to stop")])) == ["asked to stop, not tried again"]


def test_two_handlers_of_one_execution_at_once_of_which_none_was_lost_are_found() -> None:
    one = life(job="asked-flaky", ends=(FAILED, OK))
    slow = replace(one.runs[0], ended_at=clock(20))  # it is recorded as FAILED at 10.6
    assert speaking(story(replace(one, runs=[slow, one.runs[1]]))) == ["one attempt after the other"]


@pytest.mark.parametrize("outcome", ["TIMED_OUT", "CANCELLED"])
def test_the_end_of_a_handler_that_never_began_is_found_where_nothing_allows_it(outcome: str) -> None:
    assert speaking(story(life(ends=((None, outcome), OK)))) == ["ends agree"]


def test_a_job_that_was_changed_while_it_was_paused_is_still_paused() -> None:
    versions = [TICK, version(2, "PAUSED", 10, job=EDITED), version(3, "CHANGED", 15, step=30, job=EDITED)]
    journal = [
        entry("pause", 9.9, 10.1, job=EDITED, version=2),
        entry("change", 14.9, 15.1, job=EDITED, version=3, step=30),
    ]
    fires = [fired(30, EDITED), fired(60, EDITED)]
    assert speaking(story(*fires, versions=versions, journal=journal)) == ["a pause is one"]


def test_a_change_that_changes_nothing_does_not_prolong_the_schedule_before_it() -> None:
    """It is answered with the version that is there."""
    versions = [TICK, version(2, "CHANGED", 21, step=30, job=EDITED)]
    journal = [entry("change", since, since + 0.2, job=EDITED, version=2, step=30) for since in (20.9, 55)]
    fires = [fired(second, EDITED) for second in (20, 30, 40, 60)]
    assert speaking(story(*fires, versions=versions, journal=journal)) == ["each fire once"]


def test_a_run_that_lost_its_payload_is_found() -> None:
    one = life()
    assert speaking(story(replace(one, runs=[replace(one.runs[0], mark="")]))) == ["no run without a row"]


def test_a_run_of_another_job_than_the_one_that_was_asked_for_is_found() -> None:
    one = life(job="asked-slow", mark="m")
    assert speaking(story(one, journal=[asked_for("one", job="asked", mark="m")])) == ["nothing accepted is missing"]


def test_a_skipped_range_in_which_the_schedule_names_no_fire_is_found() -> None:
    assert speaking(story(*FIRES, skipped(21, 39), versions=[TICK])) == ["each fire once"]


def test_a_skipped_range_after_the_end_of_its_job_is_found() -> None:
    versions = [TICK, version(2, "ARCHIVED", 30, job=EDITED)]
    journal = [entry("archive", 29.9, 30.1, job=EDITED, version=2)]
    assert speaking(story(FIRES[0], skipped(40, 60), versions=versions, journal=journal)) == ["each fire once"]


# ── Left alone ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_cancel_that_had_to_wait_bears_the_moment_before_that() -> None:
    """Its moment is read, its line is frozen, the run begins meanwhile, and then it is asked to stop."""
    one = life(fire=10, ends=(STOPPED,), cancel_requested_at=at(7))
    assert said(story(one, journal=[entry("cancel", 6.9, 10.3, "asked to stop", execution="one")])) == []


def test_a_cancel_that_had_to_wait_while_attempts_were_lost_is_none_of_these() -> None:
    one = life(fire=10, ends=(LOST, LOST, STOPPED), cancel_requested_at=at(10.3))
    assert said(story(one, journal=[entry("cancel", 10.2, 12.3, "asked to stop", execution="one")])) == []


def test_a_lost_hand_may_begin_after_its_execution_was_cancelled() -> None:
    """Claimed at 10, frozen, lost at 10.6, cancelled while it waits for attempt 2; the hand goes on at 13."""
    one = life(ends=(("ok", "WORKER_LOST"), (None, None)), state="CANCELLED")
    late = replace(one.runs[0], began_at=clock(13), ended_at=clock(13.5))
    assert said(story(replace(one, runs=[late]), journal=[cancelled("one", 10.7)])) == []


def test_who_asks_again_by_its_key_may_make_a_second_run_when_the_first_is_over() -> None:
    """The first asking was committed and its answer lost; eight seconds later the key is free again."""
    first, second = life("one", fire=12, mark="m", run_key="k"), life("two", fire=20, mark="m", run_key="k")
    told = entry("run", 9, 18, "new", execution="two", mark="m", run_key="k")
    assert said(story(first, second, journal=[told])) == []


def test_a_second_run_of_one_asking_while_the_first_is_open_is_found() -> None:
    first, second = life("one", fire=30, mark="m", run_key="k"), life("two", fire=31, mark="m", run_key="k")
    told = entry("run", 9, 18, "new", execution="two", mark="m", run_key="k")
    assert speaking(story(first, second, journal=[told])) == ["nothing accepted is missing"]


def test_clocks_that_differ_by_milliseconds_are_not_two_at_once() -> None:
    """The end of a lost run is by a beat's clock, the start of the next one by the ledger's."""
    one = life("one", "limited", 10, ends=(LOST, OK))
    lost = replace(one.attempts[0], finished_at=at(16.005))
    again = replace(one.runs[1], began_at=clock(30), ended_at=clock(30.5))
    first = replace(one, attempts=[lost, one.attempts[1]], runs=[one.runs[0], again])
    assert said(story(first, life("two", "limited", 16), limits={"limited": 1})) == []
