"""What the search for clock changes takes for granted, looked up in the files of the whole zone database."""

import struct
import zoneinfo
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from importlib import resources
from itertools import pairwise
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from jobs import dst

FIRST_YEAR, LAST_YEAR = 1970, 2040
BEGIN = datetime(FIRST_YEAR, 1, 1, tzinfo=UTC)
Found = tuple[datetime, timedelta, timedelta]


def file_of(zone: str) -> bytes:
    for folder in zoneinfo.TZPATH:
        if (path := Path(folder) / zone).is_file():
            return path.read_bytes()
    return resources.files("tzdata").joinpath("zoneinfo", zone).read_bytes()


def read(data: bytes) -> tuple[list[Found], bytes]:
    """The changes that a file (RFC 9636) lists, from 1970 on, and its rule for the time after them."""
    counts = struct.unpack(">4s c 15x 6l", data[:44])[2:]
    isutc, isstd, leap, times, types, characters = counts
    start = 44 + times * 5 + types * 6 + characters + leap * 8 + isstd + isutc  # the second part has 64 bits
    isutc, isstd, leap, times, types, characters = struct.unpack(">6l", data[start + 20 : start + 44])
    at = start + 44
    moments = struct.unpack_from(f">{times}q", data, at)
    kinds = data[at + 8 * times : at + 9 * times]
    offsets = [struct.unpack_from(">l", data, at + 9 * times + 6 * kind)[0] for kind in range(types)]
    rule = data[at + 9 * times + 6 * types + characters + leap * 12 + isstd + isutc :].strip()
    seen = [offsets[0], *(offsets[kind] for kind in kinds)]
    changes = [
        (datetime.fromtimestamp(moment, UTC), timedelta(seconds=before), timedelta(seconds=after))
        for moment, (before, after) in zip(moments, pairwise(seen), strict=True)
        if before != after and moment >= 0
    ]
    return changes, rule


def by_the_hour(zone: ZoneInfo, start: datetime, end: datetime) -> Iterator[datetime]:
    """The hours in which the offset changes: slow, and without any shortcut."""
    hours = (end - start) // timedelta(hours=1)
    offsets = [(start + timedelta(hours=n)).astimezone(zone).utcoffset() for n in range(hours + 1)]
    yield from (start + timedelta(hours=n) for n in range(hours) if offsets[n] != offsets[n + 1])


@pytest.fixture(scope="module")
def zones() -> dict[str, tuple[list[Found], bytes]]:
    """One zone per different file, without the names that mean the same."""
    files = {file_of(name): name for name in sorted(zoneinfo.available_timezones()) if name != "Factory"}
    assert len(files) > 250
    return {name: read(data) for data, name in files.items()}


def test_no_zone_has_changed_its_clocks_twice_within_six_days(zones: dict[str, tuple[list[Found], bytes]]) -> None:
    apart = [
        (later[0] - earlier[0], name) for name, (changes, _) in zones.items() for earlier, later in pairwise(changes)
    ]
    assert len(apart) > 10_000
    assert min(apart) > (dst._ONE_CHANGE_AT_MOST, "")


def test_no_rule_for_the_future_changes_clocks_twice_within_six_days(
    zones: dict[str, tuple[list[Found], bytes]],
) -> None:
    rules = {rule: name for name, (_, rule) in zones.items() if b"," in rule}
    assert len(rules) > 20
    for name in rules.values():
        hours = list(
            by_the_hour(ZoneInfo(name), datetime(2038, 1, 1, tzinfo=UTC), datetime(LAST_YEAR, 1, 1, tzinfo=UTC))
        )
        assert len(hours) == 4
        assert min(later - earlier for earlier, later in pairwise(hours)) > dst._ONE_CHANGE_AT_MOST


def test_all_changes_of_a_year_are_found(zones: dict[str, tuple[list[Found], bytes]]) -> None:
    for name, (changes, _) in zones.items():
        listed = [change for change in changes if change[0] > BEGIN]
        if not listed:
            continue
        last = min(listed[-1][0].year, LAST_YEAR)
        search = dst.changes_in_year.__wrapped__  # not to fill the memory with all the world's years
        found = [change for year in range(FIRST_YEAR, last + 1) for change in search(ZoneInfo(name), year)]
        expected = [dst.Change(*change) for change in listed if change[0].year <= last]
        assert found[: len(expected)] == expected, name
        assert len(found) <= len(expected) + 2, name  # the rule may go on within the year of the last one listed
