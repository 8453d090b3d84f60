"""Whatever a message holds can be looked at and stored; and it is known whether it was stored as it was."""

import json
import uuid
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from executions.undelivered import Death, Undelivered, published_anew, restored, storable

ANY_TEXT = st.text(st.characters(exclude_categories=()))
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), ANY_TEXT, st.binary(), st.datetimes(), st.decimals()
)
KEYS = st.one_of(ANY_TEXT, st.binary(), st.integers())
ANYTHING = st.recursive(SCALARS, lambda some: st.one_of(st.lists(some), st.dictionaries(KEYS, some)), max_leaves=20)
HEADERS = st.dictionaries(st.one_of(KEYS, st.sampled_from(["x-death", "task", "onbeat_execution"])), ANYTHING)


def found(headers: dict[Any, Any] | None = None, body: bytes = b"{}", **properties: Any) -> Undelivered:
    return Undelivered(1, body, headers or {}, properties)


@given(HEADERS, st.binary(), ANYTHING)
def test_anything_can_be_looked_at_and_stored(headers: dict[Any, Any], body: bytes, content_type: Any) -> None:
    letter = found(headers, body, content_type=content_type, message_id=content_type)
    said = [letter.task, letter.why_not_taken, letter.death.queue, letter.death.reason]
    stored = json.dumps([letter.stored_headers, letter.stored_properties, *said], allow_nan=False, ensure_ascii=False)
    stored.encode()
    assert "\\u0000" not in json.dumps(json.loads(stored)).replace("\\\\", "")
    assert len(letter.digest) == 64
    assert isinstance(letter.is_stored_as_it_was, bool)


@given(HEADERS)
def test_what_is_said_to_be_stored_as_it_was_is(headers: dict[Any, Any]) -> None:
    letter = found(headers)
    if letter.is_stored_as_it_was:
        assert restored(letter.stored_headers) == headers


@pytest.mark.parametrize(
    "headers",
    [
        {"a": 1, "b": [None, True, 1.5, "x", {"c": "␀"}]},
        {"raw": b"\xff\x00", "then": datetime(2026, 1, 1), "exact": Decimal("1.50"), "id": uuid.UUID(int=7)},  # noqa: DTZ001
    ],
)
def test_ordinary_values_are_stored_as_they_were(headers: dict[str, Any]) -> None:
    assert found(headers).is_stored_as_it_was


@pytest.mark.parametrize(
    "headers",
    [
        {"nul": "\x00"},
        {"half": "\ud800"},
        {b"key": 1},
        {"nan": float("nan")},
        {"odd": object()},
        {"m": {"__type__": "datetime", "__value__": "no time"}},
        {"deep": json.loads("[" * 200 + "]" * 200)},
    ],
)
def test_what_a_database_cannot_keep_is_described_and_known_to_be_altered(headers: dict[Any, Any]) -> None:
    assert not found(headers).is_stored_as_it_was


def test_nesting_ends_somewhere() -> None:
    deep = storable(json.loads("[" * 200 + "]" * 200))
    assert len(json.dumps(deep)) < 150


def test_the_digest_does_not_count_deliveries() -> None:
    one, other = (found({"a": 1, "x-delivery-count": number}) for number in (1, 2))
    assert one.digest == other.digest != found({"a": 2}).digest


@pytest.mark.parametrize(
    "deaths", [None, "of old age", [], [7], [[]], [{"queue": 7, "routing-keys": "k"}], {"queue": 1}]
)
def test_a_death_that_cannot_be_read_says_nothing(deaths: Any) -> None:
    assert found({"x-death": deaths}).death == Death()


def test_the_last_death_counts() -> None:
    deaths = [{"reason": "rejected", "queue": "b", "exchange": "e", "routing-keys": ["k", "l"]}, {"queue": "a"}]
    assert found({"x-death": deaths}).death == Death("rejected", "b", "e", "k")


@pytest.mark.parametrize("reason", ["expired", "maxlen", "delivery_limit"])
def test_what_the_broker_did_goes_before_what_the_message_is(reason: str) -> None:
    letter = found({"x-death": [{"reason": reason, "queue": "q.default"}]}, b"junk")
    assert "the queue 'q.default'" in letter.why_not_taken


def test_a_body_that_is_compressed_is_not_opened() -> None:
    assert (
        "names no task" in found({"compression": "application/x-gzip"}, content_type="application/json").why_not_taken
    )


def test_what_is_published_anew_has_no_notes_of_the_broker_and_names_whom_it_repeats() -> None:
    headers = {"task": "t", "x-death": [], "x-first-death-queue": "q", "x-last-death-reason": "r", "x-own": 1}
    assert published_anew(headers, digest="d") == {"task": "t", "x-own": 1, "onbeat_replay_of": "d"}
