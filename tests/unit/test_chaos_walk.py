"""Which fires `./onbeat chaos` expects: by arithmetic of its own, compared with cron's meaning and with the product."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos import load
from chaos.evidence import Version
from chaos.load import EPOCH, cron_of
from chaos.walk import NEVER_ANSWERED, Expected, expected, step_of
from jobs.recurrence import Cron, Every
from tests.chaos_evidence import at, version

SECOND = timedelta(seconds=1)
MOMENTS = st.datetimes(datetime(2025, 1, 1), datetime(2027, 1, 1)).map(lambda moment: moment.replace(tzinfo=UTC))  # noqa: DTZ001
STEPS = st.sampled_from(load.STEPS)


def walked(*versions: Version, until: float = 60, answered: dict[int, float] | None = None) -> Expected:
    known = {number: at(seconds) for number, seconds in (answered or {}).items()}
    return expected(versions, until=at(until), answered_at=known)


def interval(seconds: int, anchor: datetime, changed_at: datetime) -> Version:
    schedule = {"kind": "EVERY", "expression": str(seconds), "anchor_at": anchor.isoformat()}
    return Version("interval", 1, "CREATED", changed_at, schedule)


def fires(*seconds: float) -> frozenset[datetime]:
    return frozenset(at(each) for each in seconds)


# ── One schedule ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_job_fires_after_it_was_made_and_up_to_the_end() -> None:
    assert walked(version(changed=5, step=10), until=40) == Expected(fires(10, 20, 30, 40), frozenset())


def test_the_moment_at_which_a_job_is_made_is_no_fire() -> None:
    assert walked(version(changed=10, step=10), until=25).must == fires(20)


def test_a_fraction_of_a_second_makes_no_difference_to_the_fires() -> None:
    assert walked(version(changed=9.999999, step=10), until=20.5).must == fires(10, 20)


@given(step=STEPS, began_at=MOMENTS, seconds=st.integers(0, 130))
def test_every_so_many_seconds_is_what_cron_means_by_it(step: int, began_at: datetime, seconds: int) -> None:
    until = began_at + seconds * SECOND
    whole = began_at.replace(microsecond=0)
    by_hand = {
        moment
        for moment in (whole + n * SECOND for n in range(seconds + 2))
        if began_at < moment <= until and moment.second % step == 0
    }
    one = Version("tick", 1, "CREATED", began_at, {"kind": "CRON", "expression": cron_of(step)})
    assert expected([one], until=until, answered_at={}).must == by_hand


@given(step=STEPS, began_at=MOMENTS)
def test_the_walk_and_the_product_agree_on_the_next_fire(step: int, began_at: datetime) -> None:
    """They share no line of code; where they differ, one of them is wrong."""
    until = began_at + 61 * SECOND
    one = Version("tick", 1, "CREATED", began_at, {"kind": "CRON", "expression": cron_of(step)})
    assert min(expected([one], until=until, answered_at={}).must) == Cron(cron_of(step)).next_after(began_at)


@given(seconds=st.integers(1, 90), anchor=MOMENTS, began_at=MOMENTS)
def test_an_interval_is_counted_from_its_anchor_also_from_a_later_one(
    seconds: int, anchor: datetime, began_at: datetime
) -> None:
    walk = expected([interval(seconds, anchor, began_at)], until=began_at + 91 * SECOND, answered_at={})
    assert all((fire - anchor) % (seconds * SECOND) == timedelta(0) for fire in walk.must)
    assert len(walk.must) in (91 // seconds, 91 // seconds + 1)
    if anchor <= began_at:
        assert min(walk.must) == Every(seconds, anchor).next_after(began_at)


@pytest.mark.parametrize(("once", "is_named"), [(0, False), (0.001, True), (60, True), (60.001, False)])
def test_a_single_moment_fires_if_it_lies_within(once: float, is_named: bool) -> None:
    one = Version("once", 1, "CREATED", at(0), {"kind": "ONCE", "expression": at(once).isoformat()})
    assert walked(one).must == (fires(once) if is_named else frozenset())


def test_kinds_are_known_in_either_case() -> None:
    """Rows are stored in capitals; a caller of the interface may write them small."""
    small = Version("tick", 1, "created", at(0), {"kind": "cron", "expression": "*/30 * * * * *"})
    assert walked(small).must == fires(30, 60)


def test_a_schedule_that_the_harness_never_makes_is_refused_and_not_guessed_at() -> None:
    strange = Version("tick", 1, "CREATED", at(0), {"kind": "CRON", "expression": "0 */5 * * * *"})
    with pytest.raises(AssertionError, match="no such schedule"):
        walked(strange)


def test_a_job_without_a_schedule_never_fires() -> None:
    assert walked(Version("asked", 1, "CREATED", at(0), None)) == Expected(frozenset(), frozenset())


# ── Changes ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_each_version_is_walked_up_to_the_next_change() -> None:
    walk = walked(version(step=20), version(2, "CHANGED", 30, step=15), answered={2: 30})
    assert walk == Expected(fires(20, 45, 60), frozenset())


def test_a_fire_at_the_moment_of_the_change_is_the_old_schedules_alone() -> None:
    walk = walked(version(step=20), version(2, "CHANGED", 40, step=10), answered={2: 40})
    assert walk == Expected(fires(20, 40, 50, 60), frozenset())
    assert walked(version(step=20), version(2, "CHANGED", 30, step=30), answered={2: 30}).must == fires(20, 60)


def test_what_the_old_schedule_names_until_the_change_was_answered_may_have_a_row() -> None:
    walk = walked(version(step=10), version(2, "CHANGED", 25, step=60), answered={2: 42})
    assert walk == Expected(fires(10, 20, 60), fires(30, 40))


def test_what_must_have_a_row_is_not_what_may_have_one() -> None:
    walk = walked(version(step=10), version(2, "CHANGED", 25, step=20), answered={2: 42})
    assert walk == Expected(fires(10, 20, 40, 60), fires(30))


def test_a_change_without_an_answer_may_have_taken_a_minute() -> None:
    walk = walked(version(step=10), version(2, "ARCHIVED", 5, step=10), until=90)
    longest = 5 + NEVER_ANSWERED.total_seconds()
    assert walk == Expected(frozenset(), fires(*(each for each in range(10, 90, 10) if each <= longest)))
    assert fires(80) & walk.may == frozenset()


def test_nothing_is_expected_after_the_end_whatever_changes_then() -> None:
    later = walked(version(step=10), version(2, "CHANGED", 45, step=5), until=30, answered={2: 46})
    assert later == Expected(fires(10, 20, 30), frozenset())
    not_answered_yet = walked(version(step=10), version(2, "ARCHIVED", 25, step=10), until=30, answered={2: 46})
    assert not_answered_yet == Expected(fires(10, 20), fires(30))


def test_a_pause_goes_on_naming_fires() -> None:
    """Each of them is to be told in the row of a stretch; a fire without any row is lost."""
    paused = [version(step=20), version(2, "PAUSED", 30, step=20), version(3, "RESUMED", 50, step=20)]
    assert walked(*paused, answered={2: 30, 3: 50}) == Expected(fires(20, 40, 60), frozenset(), fires(40))


@pytest.mark.parametrize(
    ("answered", "left_out"), [({2: 25}, (30, 40, 50)), ({2: 30}, (40, 50)), ({2: 42}, (50,)), ({}, ())], ids=str
)
def test_fires_are_left_out_from_the_answer_to_a_pause_on(
    answered: dict[int, float], left_out: tuple[int, ...]
) -> None:
    """Until then beats may not have known of it; where no answer came nobody can say since when."""
    versions = [version(step=10), version(2, "PAUSED", 25, step=10), version(3, "RESUMED", 55, step=10)]
    walk = walked(*versions, answered={**answered, 3: 55})
    assert walk.paused == fires(*left_out)
    assert walk.paused <= walk.must == fires(10, 20, 30, 40, 50, 60)


def test_a_pause_that_nobody_ends_goes_on_to_the_end() -> None:
    walk = walked(version(step=20), version(2, "paused", 30, step=20), answered={2: 30}, until=90)
    assert walk.paused == fires(40, 60, 80)


@pytest.mark.parametrize("change", ["RESUMED", "CHANGED", "ARCHIVED"])
def test_no_other_change_is_a_pause(change: str) -> None:
    assert walked(version(step=20), version(2, change, 30, step=20), answered={2: 30}).paused == frozenset()


@pytest.mark.parametrize("end", ["ARCHIVED", "COMPLETED", "archived"])
def test_a_job_that_is_over_names_no_fire(end: str) -> None:
    assert walked(version(step=20), version(2, end, 30, step=20), answered={2: 30}).must == fires(20)


def test_a_job_that_loses_its_schedule_and_gets_one_again_fires_before_and_after() -> None:
    none = Version("tick", 2, "CHANGED", at(25), None)
    walk = walked(version(step=10), none, version(3, "CHANGED", 45, step=10), answered={2: 25, 3: 45})
    assert walk.must == fires(10, 20, 50, 60)


def test_two_changes_in_one_moment_are_both_walked() -> None:
    """Beats may go on by the first schedule until the second change is known as well."""
    walk = walked(
        version(step=10),
        version(2, "CHANGED", 25, step=20),
        version(3, "CHANGED", 25, step=30),
        answered={2: 31, 3: 41},
    )
    assert walk == Expected(fires(10, 20, 30, 60), fires(40))


# ── Steps ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("step", load.STEPS)
def test_the_step_of_a_schedule_is_read_from_cron_and_from_an_interval(step: int) -> None:
    assert step_of({"kind": "CRON", "expression": cron_of(step)}) == step
    assert step_of({"kind": "every", "expression": str(step), "anchor_at": EPOCH.isoformat()}) == step


@pytest.mark.parametrize(
    "schedule",
    [
        None,
        {"kind": "CRON", "expression": "0 */5 * * * *"},
        {"kind": "CRON", "expression": "*/5 * * * *"},
        {"kind": "ONCE", "expression": "2026-06-15T12:00:00+00:00"},
        {"kind": "ONCE", "expression": "* * * * * *"},
    ],
    ids=["none", "minutes", "five fields", "a moment", "no cron by its kind"],
)
def test_a_schedule_of_another_kind_has_no_step(schedule: object) -> None:
    assert step_of(schedule) is None


# ── The load ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_each_schedule_of_the_load_can_be_walked() -> None:
    """A step that is no part of a minute begins anew with each minute in cron, and in the walk it does not."""
    for job in [*load.jobs(), *load.edited("rest"), *load.edited("python")]:
        if job.step is not None and not job.is_interval:
            assert 60 % job.step == 0, job.key
    assert all(60 % step == 0 for step in load.STEPS)


def test_the_epoch_is_a_whole_minute() -> None:
    assert EPOCH.timestamp() % 60 == 0
