"""Execution ids carry their fire time."""

import uuid
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from executions.identity import (
    earliest_id,
    fire_time_of,
    ids_beginning,
    milliseconds,
    new_execution_id,
    new_execution_ids,
)

MILLISECOND = timedelta(milliseconds=1)


@pytest.mark.parametrize(
    "fire_time",
    [
        datetime(1970, 1, 1, tzinfo=UTC),
        datetime(2026, 6, 15, 12, 0, tzinfo=UTC),
        datetime(2026, 6, 15, 12, 0, 0, 123_000, tzinfo=UTC),
        datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Berlin")),
        datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC),
    ],
)
def test_the_fire_time_can_be_read_back(fire_time: datetime) -> None:
    assert fire_time_of(new_execution_id(fire_time)) == fire_time.astimezone(UTC)


def test_what_is_finer_than_a_millisecond_is_cut_off(noon: datetime) -> None:
    assert fire_time_of(new_execution_id(noon + timedelta(microseconds=1999))) == noon + MILLISECOND


@pytest.mark.parametrize("form", [lambda id: id, str, lambda id: id.bytes], ids=["uuid", "text", "bytes"])
def test_ids_sort_by_fire_time(form, noon: datetime) -> None:
    ids = [new_execution_id(noon + n * MILLISECOND) for n in range(-500, 500)]
    assert sorted(ids, key=form) == ids


def test_all_that_begin_with_some_digits_lie_between_two_ids(noon: datetime) -> None:
    one = new_execution_id(noon)
    for count in range(33):
        first, last = ids_beginning(one.hex[:count])
        assert first <= one <= last
        assert first.hex[:count] == last.hex[:count] == one.hex[:count]
        assert count == 32 or first < last


def test_an_id_is_a_uuid_of_version_7(noon: datetime) -> None:
    for _ in range(100):
        execution_id = new_execution_id(noon)
        assert execution_id.version == 7
        assert execution_id.variant == uuid.RFC_4122


def test_many_ids_of_one_instant_differ(noon: datetime) -> None:
    assert len({new_execution_id(noon) for _ in range(10_000)}) == 10_000


def test_ids_that_are_made_together_stand_in_the_order_of_their_fire_times(noon: datetime) -> None:
    fire_times = [noon + n * MILLISECOND for n in (5, 0, 5, 3)]
    ids = new_execution_ids(fire_times)
    assert [fire_time_of(execution_id) for execution_id in ids] == fire_times
    assert len(set(ids)) == 4
    assert new_execution_ids([]) == []


def test_all_other_bits_are_random(noon: datetime) -> None:
    ids = [execution_id.int for execution_id in new_execution_ids([noon] * 200)]
    ones, zeros = 0, 0
    for number in ids:
        ones, zeros = ones | number, zeros | ~number
    varying = ones & zeros & ((1 << 80) - 1)
    assert varying.bit_count() == 74


def test_the_earliest_id_is_below_all_of_its_millisecond_and_above_all_before(noon: datetime) -> None:
    bound = earliest_id(noon)
    assert all(bound <= new_execution_id(noon) for _ in range(100))
    assert all(new_execution_id(noon - MILLISECOND) < bound for _ in range(100))
    assert earliest_id(datetime(1960, 1, 1, tzinfo=UTC)) == uuid.UUID(int=0)


@pytest.mark.parametrize(
    "fire_time", [datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), datetime(1, 1, 1, tzinfo=UTC)]
)
def test_a_fire_time_before_1970_is_refused(fire_time: datetime) -> None:
    with pytest.raises(ValueError, match="must lie between 1970") as refusal:
        new_execution_id(fire_time)
    assert fire_time.isoformat() in str(refusal.value)


def test_milliseconds_are_counted_from_1970_in_any_zone() -> None:
    assert milliseconds(datetime(1970, 1, 1, 1, 0, 1, tzinfo=ZoneInfo("Europe/Berlin"))) == 1000
