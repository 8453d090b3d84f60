"""What the benchmarks of several beats make of the rows and messages that they find."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from beat.shards import COUNT, share_of
from benchmarks import failover, fired, lateness, scale_out, series
from benchmarks.__main__ import parser
from benchmarks.fired import Fired
from launcher.refusal import Refusal

DUE = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
BEATS = ["one", "two"]


def row(job_id: int, late_ms: float | None = 5, *, priority: int = 5, pk: int | None = None) -> Fired:
    """The row of a fire; without a lateness it is not queued."""
    queued_at = None if late_ms is None else DUE + timedelta(milliseconds=late_ms)
    state = "SCHEDULED" if late_ms is None else "QUEUED"
    return Fired(UUID(int=job_id if pk is None else pk), job_id, priority, state, DUE, queued_at)


def messages(*pks: int) -> dict[str, int]:
    return {str(UUID(int=pk)): pks.count(pk) for pk in pks}


def job_of(beat: str, number: int) -> int:
    """The id of a job in a shard of this beat, another one for each number."""
    return min(share_of(beat, BEATS)) + number * COUNT


def test_steady_fires_are_spread_evenly_to_the_millisecond() -> None:
    fires = series.steady(rate=3, seconds=2)
    spread = [timedelta(milliseconds=after) for after in (0, 333, 666, 1000, 1333, 1666)]
    assert [fire.after for fire in fires] == spread


def test_some_numbers_are_typed_with_commas_between_them() -> None:
    assert parser().parse_args(["scale_out", "--beats", "1,2,4"]).beats == [1, 2, 4]
    for typed in ("", "1,", "2,0", "two"):
        with pytest.raises(SystemExit):
            parser().parse_args(["scale_out", "--beats", typed])


def test_a_second_message_of_a_fire_is_counted() -> None:
    rows = [row(1), row(2), row(3)]
    assert fired.see_that_each_is_there_once(rows, messages(1, 2, 3), fires=3) == 0
    assert fired.see_that_each_is_there_once(rows, messages(1, 2, 2, 3, 3, 3), fires=3) == 3


@pytest.mark.parametrize(
    ("rows", "found", "said"),
    [
        ([row(1)], messages(1), "Of 2 fires 1 have no execution that is QUEUED, 0 have one too many"),
        ([row(1), row(2, None)], messages(1, 2), "Of 2 fires 1 have no execution that is QUEUED"),
        ([row(1), row(2), row(2, pk=3)], messages(1, 2, 3), "1 have one too many"),
        ([row(1), row(2)], messages(1, 1), "1 have no message"),  # as many messages as fires
        ([row(1), row(2)], messages(1, 2, 3), "1 messages are of no fire"),
    ],
    ids=["lost", "not queued", "doubled", "unsent", "strange"],
)
def test_fires_that_are_not_there_once_have_no_figure(rows: list[Fired], found: dict[str, int], said: str) -> None:
    with pytest.raises(Refusal, match=said):
        fired.see_that_each_is_there_once(rows, found, fires=2)


def test_a_fire_is_of_the_beat_that_has_its_shard() -> None:
    rows = [row(job_id) for job_id in range(1, 200)]
    found = fired.by_beat(rows, BEATS)
    assert sorted(one for each in found.values() for one in each) == sorted(rows)
    for beat, theirs in found.items():
        assert {one.job_id % COUNT for one in theirs} == share_of(beat, BEATS)


def test_lateness_is_told_of_all_steady_fires() -> None:
    rows = [row(job_id, late_ms=job_id) for job_id in range(1, 101)]
    figures = lateness.steady_figures(rows, cpu=0.05, names=BEATS)
    assert figures == {
        "fires": 100,
        "p50_ms": 50,
        "p95_ms": 95,
        "p99_ms": 99,
        "max_ms": 100,
        "beat_cpu_us_per_fire": 500,
        "batches": 100,
    }


def burst_of(beat: str, *published: tuple[int, float]) -> list[Fired]:
    """Priority and lateness of each."""
    return [row(job_of(beat, number), late, priority=priority) for number, (priority, late) in enumerate(published)]


@pytest.mark.parametrize(
    ("one", "two", "is_by_priority"),
    [
        ([(9, 100), (5, 200), (0, 300)], [(9, 400), (0, 500)], True),  # each for itself
        ([(9, 100), (0, 100)], [(9, 100), (0, 100)], True),  # in one batch
        ([(9, 100), (0, 99)], [(9, 100), (0, 200)], False),
        ([(9, 100), (9, 300), (0, 200)], [(0, 100)], False),
        ([(0, 100), (0, 200)], [(9, 300)], True),
    ],
)
def test_a_burst_is_by_priority_within_each_beat(
    one: Sequence[tuple[int, float]], two: Sequence[tuple[int, float]], is_by_priority: bool
) -> None:
    figures = lateness.burst_figures({"one": burst_of("one", *one), "two": burst_of("two", *two)})
    assert figures["burst_is_by_priority"] is is_by_priority


def test_a_burst_is_told_by_its_last_and_by_its_priorities() -> None:
    of_beats = {"one": burst_of("one", (9, 100), (5, 200), (0, 200)), "two": burst_of("two", (9, 400), (0, 500))}
    figures = lateness.burst_figures(of_beats)
    assert figures == {
        "burst_fires": 5,
        "burst_p50_s": 0.2,
        "burst_last_s": 0.5,
        "burst_is_by_priority": True,
        "burst_priority_9_last_s": 0.4,
        "burst_priority_0_first_s": 0.2,
        "burst_batches": 4,
        "burst_beats": [
            {"fires": 3, "priority_9_last_s": 0.1, "priority_0_first_s": 0.2, "out_of_order": 0},
            {"fires": 2, "priority_9_last_s": 0.4, "priority_0_first_s": 0.5, "out_of_order": 0},
        ],
    }


def test_after_a_kill_every_fire_counts_and_the_burst_is_over_with_its_last() -> None:
    burst, steady = [row(1, 100), row(2, 2500)], [row(3, 10), row(4, 2700)]
    figures = failover.figures_of(burst, steady, killed_at=DUE + timedelta(milliseconds=200))
    assert figures == {"fires": 4, "latest_s": 2.7, "latest_steady_s": 2.7, "takeover_s": 2.3}


def test_the_worst_of_several_kills_is_told() -> None:
    runs = [{"latest_s": 2.1, "sent_twice": 30}, {"latest_s": 2.6, "sent_twice": 0}]
    assert failover.worst_of(runs) == {"latest_s": 2.6, "sent_twice": 30}


def test_the_share_of_lost_leases_is_that_of_one_burst() -> None:
    before, after = scale_out.Leases(asked=100, refused=50), scale_out.Leases(asked=300, refused=60)
    assert after.since(before).lost_share == 0.05
    assert scale_out.Leases(0, 0).lost_share == 0  # without Redis
