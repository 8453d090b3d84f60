"""The judge of `./onbeat chaos` on schedules: each fire once, none in a pause, none left out, all as asked for."""

from dataclasses import replace
from typing import Any

import pytest

from chaos.evidence import Evidence, Version
from chaos.journal import Entry
from chaos.walk import NEVER_ANSWERED
from tests.chaos_evidence import UNTIL, Life, at, cancelled, entry, fired, life, said, skipped, speaking, story, version

# A job that fires every 20 seconds: at 20, 40 and 60. The other one may be paused, changed and skipped.
TICK = version(step=20)
EDITED = version(step=20, job="edited-tick")
FIRES = [fired(20), fired(40), fired(60)]
EDITED_FIRES = [fired(second, "edited-tick") for second in (20, 40, 60)]


def twin_of(one: Life) -> Life:
    """Another row of the same fire, which ran as well."""
    name = f"twin of {one.row.id}"
    return Life(
        replace(one.row, id=name),
        [replace(each, execution=name) for each in one.attempts],
        [replace(run, execution=name) for run in one.runs],
    )


# ── Each fire once ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_lost_fire_is_told_with_its_job_and_its_time() -> None:
    assert said(story(FIRES[0], FIRES[2], versions=[TICK])) == ["tick at 12:00:40 has 0 rows"]


@pytest.mark.parametrize(
    "twin",
    [twin_of(FIRES[1]), fired(40, ends=(), state="CANCELLED").with_row(id="twin")],
    ids=["it ran as well", "it was called off"],
)
def test_a_doubled_fire_is_found_whatever_became_of_its_rows(twin: Life) -> None:
    found = said(story(*FIRES, twin, versions=[TICK], journal=[cancelled("twin", 39, None)]))
    assert found == ["tick at 12:00:40 has 2 rows"]


def test_a_fire_that_the_schedule_does_not_name_is_found() -> None:
    found = said(story(*FIRES, fired(41), versions=[TICK]))
    assert found == ["tick at 12:00:41 has 1 rows, and its schedule names no such fire"]


@pytest.mark.parametrize(
    ("first", "last"), [(40, 40), (40, 60), (20, 60)], ids=["alone", "with a later one", "with earlier and later ones"]
)
def test_a_fire_in_a_skipped_range_has_its_row(first: int, last: int) -> None:
    rest = [one for one in EDITED_FIRES if not at(first) <= one.row.fire_time <= at(last)]
    assert said(story(skipped(first, last), *rest, versions=[EDITED])) == []


def test_a_fire_that_is_skipped_and_has_a_row_of_its_own_is_doubled() -> None:
    found = said(story(*EDITED_FIRES, skipped(40, 50), versions=[EDITED]))
    assert found == ["edited-tick at 12:00:40 has 2 rows"]


def test_a_fire_in_two_skipped_ranges_is_doubled() -> None:
    assert speaking(story(skipped(20, 40), skipped(40, 60), versions=[EDITED])) == ["each fire once"]


def test_a_range_covers_no_fire_before_or_after_it() -> None:
    assert said(story(skipped(21, 59), EDITED_FIRES[1], versions=[EDITED])) == [
        f"edited-tick at 12:{minute} has {count} rows" for minute, count in (("00:20", 0), ("00:40", 2), ("01:00", 0))
    ]


def test_the_range_of_another_job_covers_nothing() -> None:
    others = version(step=20, job="edited-other")
    both = story(*FIRES[:2], skipped(20, 60, job="edited-other"), versions=[TICK, others])
    assert said(both) == ["tick at 12:01:00 has 0 rows"]


def test_a_run_that_somebody_asked_for_is_no_fire() -> None:
    asked = life("asked", "tick", 40)
    assert said(story(*FIRES, asked, versions=[TICK])) == []
    assert said(story(FIRES[0], asked, FIRES[2], versions=[TICK])) == ["tick at 12:00:40 has 0 rows"]


def test_what_is_due_after_the_end_is_not_judged_yet() -> None:
    coming = fired(UNTIL + 20, ends=(), state="SCHEDULED")
    assert said(story(*FIRES, versions=[TICK])) == said(story(*FIRES, coming, versions=[TICK])) == []


def test_fires_of_a_job_of_which_no_version_is_left_are_found() -> None:
    assert said(story(*FIRES)) == ["tick fired, and there is no version of it"]
    assert said(story(life(), life("two"))) == []  # who is asked for needs no schedule


# ── Changes ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def changed_to_every_thirty(answered: float | None) -> dict[str, Any]:
    """The job says something else from 38 on; the change took until there was an answer."""
    return {
        "versions": [EDITED, version(2, "CHANGED", 38, step=30, job="edited-tick")],
        "journal": [entry("change", 37.9, answered, job="edited-tick", version=2 if answered else None, step=30)],
    }


@pytest.mark.parametrize("answered", [40.5, None], ids=["an answer came later", "no answer came"])
def test_a_fire_of_the_old_schedule_may_have_a_row_while_the_change_is_being_made(answered: float | None) -> None:
    change = changed_to_every_thirty(answered)
    assert said(story(*EDITED_FIRES, **change)) == []
    assert said(story(EDITED_FIRES[0], EDITED_FIRES[2], **change)) == []
    assert said(story(EDITED_FIRES[0], skipped(40, None), EDITED_FIRES[2], **change)) == []


@pytest.mark.parametrize("other", [twin_of(EDITED_FIRES[1]), skipped(39, 41)], ids=["a second row", "a range"])
def test_a_fire_that_may_have_a_row_has_one_at_most(other: Life) -> None:
    found = said(story(*EDITED_FIRES, other, **changed_to_every_thirty(40.5)))
    assert found == ["edited-tick at 12:00:40, as it was changed, has 2 rows"]


def test_a_fire_of_the_old_schedule_after_the_answer_is_one_too_many() -> None:
    found = said(story(*EDITED_FIRES, **changed_to_every_thirty(39.5)))
    assert found == ["edited-tick at 12:00:40 has 1 rows, and its schedule names no such fire"]


@pytest.mark.parametrize(
    "other",
    [
        entry("change", 37.9, 39, job="another"),
        entry("run", 37.9, 39, "new", job="edited-tick", execution="asked", mark="m"),
        entry("change", 38.5, 39, "refused: it was changed meanwhile", job="edited-tick"),
    ],
    ids=["of another job", "to another deed", "to what was asked later"],
)
def test_another_answer_does_not_end_the_time_of_the_old_schedule(other: Entry) -> None:
    change = changed_to_every_thirty(None)
    asked = [life("asked", "edited-tick", 40, mark="m")] if other.deed == "run" else []
    journal = [*change["journal"], other]
    assert said(story(*EDITED_FIRES, *asked, versions=change["versions"], journal=journal)) == []


def test_a_change_that_nobody_heard_of_is_over_at_last() -> None:
    later = UNTIL + NEVER_ANSWERED.total_seconds() + 20
    fires = [EDITED_FIRES[0], *(fired(second, "edited-tick") for second in range(60, int(later) + 1, 30))]
    late = fired(UNTIL + NEVER_ANSWERED.total_seconds() - 20, "edited-tick")  # at 100 s, 62 s after the change
    change = changed_to_every_thirty(None)
    assert said(story(*fires, until=at(later), **change)) == []
    assert speaking(story(*fires, late, until=at(later), **change)) == ["each fire once"]


@pytest.mark.parametrize("end", ["ARCHIVED", "COMPLETED"])
def test_a_job_that_is_over_fires_no_more(end: str) -> None:
    versions, journal = [TICK, version(2, end, 30, step=20)], [entry("archive", 29.9, 30.1, job="tick", version=2)]
    assert said(story(fired(20), versions=versions, journal=journal)) == []
    assert speaking(story(fired(20), fired(40), versions=versions, journal=journal)) == ["each fire once"]


def test_versions_are_taken_in_their_order_whatever_order_they_are_read_in() -> None:
    versions = [version(2, "CHANGED", 30, step=30), TICK]
    journal = [entry("change", 29.9, 30.1, job="tick", version=2)]
    assert said(story(fired(20), fired(60), versions=versions, journal=journal)) == []


# ── A pause is one ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("change", ["PAUSED", "RESUMED", "CHANGED"])
def test_a_pause_takes_no_fire_away_each_leaves_its_row(change: str) -> None:
    versions = [EDITED, version(2, change, 30, step=20, job="edited-tick")]
    assert said(story(EDITED_FIRES[0], skipped(40, 60), versions=versions)) == []
    assert said(story(*EDITED_FIRES[:2], versions=versions)) == ["edited-tick at 12:01:00 has 0 rows"]


def paused(*lives: Life, answered: float | None = 30.1, resumed: float | None = None) -> Evidence:
    """From 30 on, or a little later: who asked for it knows it since the answer."""
    versions = [EDITED, version(2, "PAUSED", 30, step=20, job="edited-tick")]
    journal = [entry("pause", 29.9, answered, job="edited-tick", version=2 if answered else None)]
    if resumed is not None:
        versions.append(version(3, "RESUMED", resumed, step=20, job="edited-tick"))
        journal.append(entry("resume", resumed - 0.1, resumed + 0.1, job="edited-tick", version=3))
    return story(*lives, versions=versions, journal=journal)


def test_a_paused_job_that_runs_on_is_found() -> None:
    assert said(paused(*EDITED_FIRES)) == [
        "edited-tick at 12:00:40 was paused, and its row is SUCCEEDED",
        "edited-tick at 12:01:00 was paused, and its row is SUCCEEDED",
    ]


def test_a_fire_within_a_pause_may_have_a_skipped_row_of_its_own() -> None:
    assert said(paused(EDITED_FIRES[0], skipped(40, None), skipped(60, None))) == []


@pytest.mark.parametrize("answered", [40.5, None], ids=["an answer came later", "no answer came"])
def test_a_fire_that_came_before_the_pause_was_known_may_run(answered: float | None) -> None:
    assert said(paused(*EDITED_FIRES[:2], skipped(60, None), answered=answered)) == []


def test_a_job_that_was_resumed_runs_again() -> None:
    assert said(paused(EDITED_FIRES[0], skipped(40, 40), EDITED_FIRES[2], resumed=50)) == []
    assert speaking(paused(*EDITED_FIRES, resumed=50)) == ["a pause is one"]


def test_a_run_that_somebody_asked_for_goes_through_a_pause() -> None:
    assert said(paused(EDITED_FIRES[0], skipped(40, 60), life("asked", "edited-tick", 40))) == []


# ── Nothing left out without leave ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "lives",
    [[skipped(20, 60, "tick")], [FIRES[0], skipped(40, None, "tick"), FIRES[2]]],
    ids=["all fires in one range", "one fire alone"],
)
def test_a_job_that_nobody_pauses_and_that_is_skipped_is_found(lives: list[Life]) -> None:
    assert speaking(story(*lives, versions=[TICK])) == ["nothing left out without leave"]


def test_what_was_left_out_is_told_with_the_reason_that_its_row_gives() -> None:
    silent, frank = skipped(40, None, "tick"), skipped(40, None, "tick").with_row(reason="expired")
    for one, why in ((silent, "no reason"), (frank, "expired")):
        found = said(story(FIRES[0], one, FIRES[2], versions=[TICK]))
        assert found == [f"tick tick@40 left out was skipped, and nothing allows that: {why}"]


@pytest.mark.parametrize("job", ["limited-queue", "limited-skip", "edited-rest-0", "made-python-0"])
def test_an_overlap_policy_and_whoever_edits_a_job_may_leave_fires_out(job: str) -> None:
    lives = [fired(20, job), skipped(40, None, job), fired(60, job)]
    assert said(story(*lives, versions=[version(job=job)])) == []


@pytest.mark.parametrize("job", ["limited-two", "limited-cancel", "doomed", "overtime", "call-later"])
def test_what_a_job_may_do_otherwise_is_no_leave_to_be_skipped(job: str) -> None:
    lives = [skipped(30, None, job), fired(60, job)]
    assert speaking(story(*lives, versions=[version(step=30, job=job)])) == ["nothing left out without leave"]


@pytest.mark.parametrize("job", ["asked", "limited-skip"])
def test_an_accepted_run_that_was_skipped_is_found(job: str) -> None:
    """A policy leaves out fires. Whoever asks for a run and is told that it is there gets it."""
    found = speaking(story(life(job=job, ends=(), state="SKIPPED")))
    assert found == ["nothing left out without leave"]


# ── Versions say what was asked for ──────────────────────────────────────────────────────────────────────────────────


def test_a_run_in_which_nothing_at_all_happened_is_not_clean() -> None:
    assert said(story(load={"tick": 20})) == ["tick was made to fire every 20 s, and its first version says otherwise"]


def test_a_job_of_the_load_that_says_something_else_is_found() -> None:
    evidence = story(fired(30), fired(60), versions=[version(step=30)])
    assert said(replace(evidence, load={"tick": 30})) == []
    assert speaking(replace(evidence, load={"tick": 20})) == ["versions say what was asked for"]


def test_an_interval_says_its_seconds_as_a_cron_expression_does() -> None:
    schedule = {"kind": "EVERY", "expression": "20", "anchor_at": at(0).isoformat()}
    assert said(story(*FIRES, versions=[replace(TICK, schedule=schedule)], load={"tick": 20})) == []


def test_the_first_version_is_compared_with_the_load_and_not_a_later_one() -> None:
    change: dict[str, Any] = {"journal": [entry("change", 59, 60, job="tick", version=2, step=30)]}
    both = [TICK, version(2, "CHANGED", 60, step=30)]
    assert said(story(*FIRES, versions=both, load={"tick": 20}, **change)) == []
    assert speaking(story(*FIRES, versions=both, load={"tick": 30}, **change)) == ["versions say what was asked for"]


@pytest.mark.parametrize("deed", ["create", "change"])
def test_a_version_that_says_another_step_than_its_caller_asked_for_is_found(deed: str) -> None:
    """The fires are those of the version, so that no other rule could find it."""
    told = entry(deed, -0.1, 0.1, job="tick", version=1, step=5)
    assert said(story(fired(30), fired(60), versions=[version(step=30)], journal=[told])) == [
        "rest let tick fire every 5 s, and its version 1 does not"
    ]


@pytest.mark.parametrize(
    "told",
    [
        entry("create", -0.1, 0.1, job="tick", version=1, step=20),
        entry("pause", -0.1, 0.1, job="tick", version=1),
        entry("change", 1, 2, "refused: it was changed meanwhile", job="tick", step=5),
        entry("change", 1, None, job="tick", step=5),
        entry("create", -0.1, 0.1, job="other", version=1, step=5),
    ],
    ids=["the same", "no step was asked for", "it was refused", "no answer came", "of another job"],
)
def test_a_version_says_what_its_own_caller_asked_for_and_nobody_else(told: Entry) -> None:
    others = [version(job="other", step=5), version(2, "ARCHIVED", 1, job="other")]
    assert said(story(*FIRES, versions=[TICK, *others], journal=[told])) == []


@pytest.mark.parametrize(
    ("versions", "numbers"),
    [
        ([TICK, version(3, "CHANGED", UNTIL, step=20)], "[1, 3]"),
        ([version(2, "CHANGED", 0, step=20)], "[2]"),
        ([TICK, version(2, "CHANGED", UNTIL), version(2, "CHANGED", UNTIL)], "[1, 2, 2]"),
        ([TICK, version(1, "CHANGED", UNTIL), version(3, "CHANGED", UNTIL)], "[1, 1, 3]"),
    ],
    ids=["one is missing in between", "the first is missing", "one is there twice", "one is there for another"],
)
def test_versions_are_counted_from_one_without_a_gap(versions: list[Version], numbers: str) -> None:
    assert said(story(*FIRES, versions=versions)) == [f"tick has the versions {numbers}"]
