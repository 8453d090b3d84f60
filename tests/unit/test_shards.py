"""The beats that live share the shards: each shard has one owner, and who comes or goes moves only a share."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beat import shards
from beat.shards import ALL, COUNT, Shards, share_of
from tests.making import seconds

NAMES = st.text(st.characters(min_codepoint=45, max_codepoint=122), min_size=1, max_size=30)
MEMBERS = st.sets(NAMES, min_size=1, max_size=8)


def shares(members: set[str]) -> dict[str, frozenset[int]]:
    return {beat: share_of(beat, members) for beat in members}


@settings(max_examples=25)
@given(MEMBERS)
def test_every_shard_has_exactly_one_owner(members: set[str]) -> None:
    owned = [shard for share in shares(members).values() for shard in share]
    assert sorted(owned) == sorted(ALL)


@settings(max_examples=25)
@given(MEMBERS.filter(lambda members: len(members) > 1), st.data())
def test_a_beat_that_goes_moves_its_own_shards_and_no_others(members: set[str], data: st.DataObject) -> None:
    gone = data.draw(st.sampled_from(sorted(members)))
    before, after = shares(members), shares(members - {gone})
    for beat, share in after.items():
        assert before[beat] <= share
        assert share - before[beat] <= before[gone]


@pytest.mark.parametrize("count", [2, 3, 5])
def test_the_shares_are_of_about_the_same_size(count: int) -> None:
    for crowd in range(20):
        sizes = [len(share) for share in shares({f"host-{crowd}-{n}" for n in range(count)}).values()]
        assert COUNT / count / 3 < min(sizes)
        assert max(sizes) < COUNT / count * 2


def test_a_beat_that_is_no_member_counts_itself_in() -> None:
    assert share_of("me", {"other"}) == share_of("me", {"me", "other"})
    assert share_of("me", ()) == ALL


def test_all_releases_share_alike() -> None:
    """Two releases side by side must agree, so the weights may never change."""
    assert sorted(share_of("a", {"a", "b"}))[:8] == A_WITH_B


A_WITH_B = [0, 4, 5, 8, 10, 11, 12, 13]


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(shards.time, "monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_until_others_are_heard_of_a_beat_looks_after_everything() -> None:
    mine = Shards("me", linger=seconds(10))
    assert mine.planning == mine.publishing == ALL


def test_what_was_lost_is_published_for_as_long_as_the_leases_live(clock: Clock) -> None:
    mine = Shards("me", linger=seconds(10))
    assert not mine.share(frozenset({"me"}))
    assert mine.share(frozenset({"me", "other"}))
    assert mine.planning == share_of("me", {"me", "other"})
    assert mine.publishing == ALL
    clock.now += 9.9
    assert mine.publishing == ALL
    clock.now += 0.2
    assert mine.publishing == mine.planning


def test_to_hear_the_same_again_changes_nothing_and_prolongs_nothing(clock: Clock) -> None:
    mine = Shards("me", linger=seconds(10))
    mine.share(frozenset({"me"}))
    mine.share(frozenset({"me", "other"}))
    clock.now += 9
    assert not mine.share(frozenset({"me", "other"}))
    clock.now += 2
    assert mine.publishing == mine.planning


def test_a_beat_that_has_just_begun_has_planned_nothing_that_it_could_publish_for_others() -> None:
    mine = Shards("me", linger=seconds(10))
    assert mine.share(frozenset({"me", "other"}))
    assert mine.publishing == mine.planning == share_of("me", {"me", "other"})


def test_a_shard_that_comes_back_is_ours_at_once(clock: Clock) -> None:
    mine = Shards("me", linger=seconds(10))
    mine.share(frozenset({"me", "other"}))
    assert mine.share(frozenset({"me"}))
    assert mine.planning == mine.publishing == ALL
