"""The judge of `./onbeat chaos` on what callers were told: runs, versions, keys and cancellations."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from chaos.evidence import Evidence
from chaos.journal import Entry
from chaos.ledger import Run
from tests.chaos_evidence import (
    FAILED,
    LOST,
    OK,
    STOPPED,
    UNTIL,
    End,
    Life,
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

# ── Nothing accepted is missing ──────────────────────────────────────────────────────────────────────────────────────


def asked(outcome: str | None = "new", *, execution: str = "one", mark: str = "m", run_key: str = "") -> Entry:
    """A run that a caller asked for, and what it was told; None: nothing."""
    if outcome is None:
        return entry("run", 9, None, mark=mark, run_key=run_key)
    return entry("run", 9, 9.1, outcome, execution=execution, mark=mark, run_key=run_key)


def test_a_run_that_was_accepted_and_has_no_row_is_found() -> None:
    assert said(story(journal=[asked()])) == [
        "rest was told that asked runs as one, of which there is no row",
        "rest asked once for asked (new): 0 rows",
    ]


def test_a_run_that_was_given_back_and_has_no_row_is_found() -> None:
    found = said(story(journal=[asked("given back")]))
    assert found == ["rest was told that asked runs as one, of which there is no row"]


def test_a_run_that_was_asked_for_once_and_made_twice_is_found() -> None:
    twice = [life(mark="m"), life("two", mark="m")]
    assert said(story(*twice, journal=[asked()])) == ["rest asked once for asked (new): 2 rows"]


def test_a_run_that_was_made_although_another_was_given_back_is_found() -> None:
    rows = [life(mark="the first", run_key="k"), life("two", mark="m")]
    found = said(story(*rows, journal=[asked("given back", run_key="k")]))
    assert found == ["rest asked once for asked (given back): 1 rows"]


@pytest.mark.parametrize("made", [0, 1])
def test_who_got_no_answer_may_have_a_run_or_none(made: int) -> None:
    assert said(story(*[life(mark="m")] * made, journal=[asked(None)])) == []


def test_who_got_no_answer_does_not_have_two_runs() -> None:
    twice = [life(mark="m"), life("two", mark="m")]
    assert said(story(*twice, journal=[asked(None)])) == ["rest asked once for asked (not known): 2 rows"]


def test_an_accepted_run_is_there_also_if_it_did_not_run() -> None:
    one = life(ends=(), state="CANCELLED", mark="m")
    assert said(story(one, journal=[asked(), cancelled("one", 9.5)])) == []


def test_rows_without_a_mark_are_nobodys() -> None:
    """Those of schedules: an entry without a mark must not be compared with all of them."""
    fires = [fired(30), fired(60)]
    assert said(story(*fires, versions=[version(step=30)], journal=[asked(None, mark="")])) == []


def test_who_was_told_the_id_of_another_run_is_found() -> None:
    rows = [life("one", mark="other"), life("two", mark="m")]
    told = [asked(execution="one", mark="m"), asked(execution="one", mark="other")]
    assert said(story(*rows, journal=told)) == ["rest was told (new) of one, which is another run"]


def test_who_was_given_back_the_run_of_another_key_is_found() -> None:
    one = life(mark="of its asker", run_key="k")
    assert said(story(one, journal=[asked("given back", run_key="another")])) == [
        "rest was told (given back) of one, which is another run"
    ]
    assert said(story(one, journal=[asked("given back", run_key="k")])) == []


def test_who_asks_again_by_its_key_after_a_lost_answer_may_be_given_back_its_own_run() -> None:
    """Its first question made the row, which bears its own mark."""
    one, again = life(mark="m", run_key="k"), asked("given back", run_key="k")
    assert said(story(one, journal=[again])) == []
    twin = life("two", mark="m", run_key="k", fire=20)
    assert said(story(one, twin, journal=[again])) == ["rest asked once for asked (given back): 2 rows"]


@pytest.mark.parametrize("deed", ["change", "pause", "resume", "create", "archive"])
def test_a_version_that_a_caller_was_told_of_is_there(deed: str) -> None:
    told = entry(deed, 29, 31, job="tick", version=2)
    both = [version(step=30), version(2, "ARCHIVED", 30, step=30)]
    fire = fired(30)
    assert said(story(fire, versions=both, journal=[told])) == []
    assert said(story(fire, fired(60), versions=both[:1], journal=[told])) == [
        "rest was told of version 2 of tick, which is not there"
    ]


def test_the_version_of_another_job_is_not_the_one_that_was_told() -> None:
    others = [version(1, "ARCHIVED", job="another")]
    assert speaking(story(versions=others, journal=[entry("create", 0, 1, version=1, job="tick")])) == [
        "nothing accepted is missing"
    ]


@pytest.mark.parametrize(
    "told", [entry("change", 1, None, job="tick"), entry("change", 1, 2, "refused: it is over", job="tick")]
)
def test_who_was_told_of_no_version_misses_none(told: Entry) -> None:
    assert said(story(journal=[told])) == []


# ── Nothing that nobody asked for ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("trigger", ["MANUAL", "DELAYED", "BACKFILL"])
def test_a_run_that_nobody_asked_for_is_found(trigger: str) -> None:
    found = said(story(life(trigger=trigger, mark="nobody's"), are_asked_for=False))
    assert found == ["asked one is a run that nobody asked for"]


def test_a_run_of_one_mark_is_not_asked_for_by_whoever_has_another() -> None:
    rows = [life(mark="m"), life("two", mark="nobody's")]
    assert said(story(*rows, journal=[asked()], are_asked_for=False)) == ["asked two is a run that nobody asked for"]


def test_who_cancels_a_run_has_not_asked_for_it() -> None:
    stop = cancelled("one", 9, "too late", mark="m")
    assert speaking(story(life(mark="m"), journal=[stop], are_asked_for=False)) == ["nothing that nobody asked for"]


def test_a_run_whose_asker_got_no_answer_is_asked_for() -> None:
    assert said(story(life(mark="m"), journal=[asked(None)], are_asked_for=False)) == []


def test_a_fire_is_asked_for_by_its_schedule() -> None:
    assert said(story(fired(60), versions=[version(step=60)], are_asked_for=False)) == []


# ── One run per key ──────────────────────────────────────────────────────────────────────────────────────────────────


def of_key(first: Life, second: Life, *, again: float, journal: Sequence[Entry] = ()) -> Evidence:
    """Both are new to whoever asked for them: the first at 9 s, the second later."""
    told = [
        entry("run", moment - 0.1, moment, "new", job=row.job, execution=row.id, mark=row.mark, run_key=row.run_key)
        for row, moment in ((first.row, 9.1), (second.row, again))
    ]
    return story(first, second, journal=[*told, *journal])


def keyed(name: str, fire: float = 10, run_key: str = "k", **facts: Any) -> Life:
    return life(name, fire=fire, trigger="DELAYED", run_key=run_key, **facts)


def test_a_second_run_of_a_key_whose_first_was_not_over_is_found() -> None:
    found = said(of_key(keyed("one", 30), keyed("two", 31), again=12))
    assert found == ["asked has two runs of the key k: one was not over"]


def test_a_second_run_of_a_key_is_found_whatever_order_their_rows_and_entries_come_in() -> None:
    evidence = of_key(keyed("one", 30), keyed("two", 31), again=12)
    turned = replace(evidence, rows=[*reversed(evidence.rows)], journal=[*reversed(evidence.journal)])
    assert said(turned) == said(evidence)


@pytest.mark.parametrize("state", ["SCHEDULED", "QUEUED"])
def test_two_open_runs_with_one_key_are_found(state: str) -> None:
    both = [keyed(name, UNTIL + 5, ends=(), state=state) for name in ("one", "two")]
    assert speaking(of_key(*both, again=12)) == ["one run per key"]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (keyed("one", 30), keyed("two", 30, "another")),
        (keyed("one", 30), keyed("two", 30, job="asked-flaky")),
        (keyed("one", 30, ends=(), state="CANCELLED", finished_at=at(9.6)), keyed("two", 30)),
        (keyed("one", 10), keyed("two", 30)),
        (keyed("one", 30, run_key=""), keyed("two", 30, run_key="")),
    ],
    ids=["another key", "another job", "called off", "over", "no key"],
)
def test_a_key_is_free_for_another_job_and_when_its_run_is_over(first: Life, second: Life) -> None:
    stop = [cancelled("one", 9.5)] if first.row.state == "CANCELLED" else []
    assert said(of_key(first, second, again=12, journal=stop)) == []


def test_each_run_of_a_key_is_compared_with_the_one_before_it() -> None:
    three = [keyed("one", 10), keyed("two", 30), keyed("three", 31)]
    journal = [
        asked_for(one.row.id, fire=fire, mark=one.row.mark, run_key="k")
        for one, fire in zip(three, (9, 12, 14), strict=True)
    ]
    assert said(story(*three, journal=journal)) == ["asked has two runs of the key k: two was not over"]


def test_a_run_that_was_given_back_is_no_second_one() -> None:
    again = entry("run", 11.9, 12, "given back", execution="one", mark="again", run_key="k")
    assert said(story(keyed("one", 30), journal=[again])) == []


# ── Cancelled before it started ──────────────────────────────────────────────────────────────────────────────────────

CANCEL = cancelled("one", 9.5)


def began(seconds: float, attempt: int = 1) -> Run:
    return Run("one", attempt, "asked", clock(seconds), clock(seconds + 0.1), "ok", "token", "mark of one")


def test_a_cancelled_run_that_never_began_is_as_it_should_be() -> None:
    assert said(story(life(ends=(), state="CANCELLED"), journal=[CANCEL])) == []


def test_a_run_that_began_after_its_caller_was_told_that_it_is_cancelled_is_found() -> None:
    one = replace(life(ends=(), state="CANCELLED"), runs=[began(10)])
    found = said(story(one, journal=[CANCEL]))
    assert "asked one was cancelled, and began 0.40 s later" in found
    assert "asked one was cancelled before its attempt 1, which ran" in found


def test_a_cancelled_run_that_began_before_the_answer_is_found_by_its_row() -> None:
    """It was cancelled as one that waits; so it can have begun neither before nor after."""
    one = life(fire=9.55, ends=(FAILED,), state="CANCELLED")
    assert said(story(one, journal=[CANCEL])) == ["asked one was cancelled before its attempt 1, which ran"]


def test_what_ran_was_asked_to_stop_and_may_be_cancelled() -> None:
    one = life(ends=(STOPPED,), cancel_requested_at=at(10.1))
    assert said(story(one, journal=[cancelled("one", 10, "asked to stop")])) == []


def test_a_run_may_be_cancelled_between_two_attempts() -> None:
    """The first has run before anybody cancelled it, and the second never does."""
    one = life(fire=5, ends=(FAILED,), state="CANCELLED", attempt=2)
    assert said(story(one, journal=[CANCEL])) == []
    late = replace(one, runs=[*one.runs, replace(began(10, attempt=2), how="failed")])
    assert "cancelled before it started" in speaking(story(late, journal=[CANCEL]))


@pytest.mark.parametrize("outcome", ["asked to stop", "too late", "unknown", "refused: it is SUCCEEDED"])
def test_a_run_goes_on_if_it_was_too_late_to_cancel_it(outcome: str) -> None:
    assert said(story(life(), journal=[cancelled("one", 9, outcome)])) == []


def test_a_run_goes_on_or_not_if_nobody_heard_what_became_of_its_cancellation() -> None:
    unheard = cancelled("one", 9, None)
    assert said(story(life(), journal=[unheard])) == []
    assert said(story(life(ends=(LOST, OK)), journal=[unheard])) == []
    assert said(story(life(ends=(), state="CANCELLED"), journal=[unheard])) == []


@pytest.mark.parametrize(
    ("job", "ends", "state"), [("asked", (OK,), "SUCCEEDED"), ("doomed", (FAILED, FAILED), "DEAD")]
)
def test_a_run_that_was_cancelled_and_is_something_else_is_found(job: str, ends: Sequence[End], state: str) -> None:
    found = said(story(life(job=job, fire=5, ends=ends, state=state), journal=[CANCEL]))
    assert found == [f"one was cancelled, and is {state}"]


def test_a_fire_that_was_cancelled_and_is_skipped_is_found() -> None:
    stop = cancelled("edited-tick@60 left out", 9.5, job="edited-tick")
    found = said(story(skipped(60, None), versions=[version(step=60, job="edited-tick")], journal=[stop]))
    assert found == ["edited-tick@60 left out was cancelled, and is SKIPPED"]


def test_a_run_that_was_cancelled_and_is_gone_is_found() -> None:
    assert said(story(journal=[CANCEL])) == ["one was cancelled, and is gone"]


def test_another_run_may_begin_after_that() -> None:
    assert said(story(life(ends=(), state="CANCELLED"), life("two"), journal=[CANCEL])) == []


# ── Nothing cancelled without leave ──────────────────────────────────────────────────────────────────────────────────


def test_an_accepted_run_that_is_cancelled_which_nobody_asked_for_is_found() -> None:
    found = said(story(life(ends=(), state="CANCELLED")))
    assert found == ["asked one was cancelled, and nobody asked for it"]


def test_a_fire_that_is_cancelled_which_nobody_asked_for_is_found() -> None:
    gone = fired(60, ends=(), state="CANCELLED")
    assert speaking(story(gone, versions=[version(step=60)])) == ["nothing cancelled without leave"]


@pytest.mark.parametrize("ends", [(STOPPED,), (OK,)], ids=["it stopped", "it was too late"])
def test_a_run_that_was_asked_to_stop_by_nobody_is_found(ends: Sequence[End]) -> None:
    one = life(ends=ends, cancel_requested_at=at(10.1))
    assert said(story(one)) == ["asked one was cancelled, and nobody asked for it"]
    other = cancelled("another", 10, "asked to stop")
    assert speaking(story(one, journal=[other])) == ["nothing cancelled without leave"]


@pytest.mark.parametrize("outcome", ["asked to stop", None], ids=["heard", "not heard"])
def test_whoever_asked_for_it_may_have_a_run_stopped(outcome: str | None) -> None:
    one = life(ends=(STOPPED,), cancel_requested_at=at(10.1))
    assert said(story(one, journal=[cancelled("one", 10, outcome)])) == []


def test_the_next_fire_may_stop_the_one_before_it_where_the_policy_says_so() -> None:
    once = version(step=60, job="limited-cancel")
    assert (
        said(story(fired(60, "limited-cancel", ends=(STOPPED,), cancel_requested_at=at(60.1)), versions=[once])) == []
    )
    other = fired(60, "limited-skip", ends=(STOPPED,), cancel_requested_at=at(60.1))
    found = speaking(story(other, versions=[version(step=60, job="limited-skip")]))
    assert found == ["nothing cancelled without leave"]
