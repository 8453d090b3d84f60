"""Whatever is given for a field is taken or refused with a field: never another error.

None of these tests may use the database: a schedule whose only fire has passed stops what was taken before it.
"""

from dataclasses import fields
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from executions.retry import RetryPolicy
from jobs.definitions import create, pause
from jobs.recurrence import Cron, Every, Once, Within
from jobs.refusals import Refused
from jobs.specification import Specification
from tests.anything import ANYTHING

NOON = datetime(2026, 6, 15, 12, 0, tzinfo=UTC)
FIELDS = [field.name for field in fields(Specification)]
RETRY_FIELDS = [field.name for field in fields(RetryPolicy)]


def refused_field(**said: Any) -> str:
    with pytest.raises(Refused) as refusal:
        create(**{"key": "report", "task": "onbeat.echo", "schedule": Once(NOON), "now": NOON, **said})
    assert str(refusal.value)
    return refusal.value.field


@pytest.mark.parametrize("field", FIELDS)
@examples(max_examples=60)
@given(value=ANYTHING)
def test_any_value_of_any_field_is_taken_or_refused_by_its_name(field: str, value: Any) -> None:
    if field == "schedule" and value is None:
        return  # that is a job without one
    assert refused_field(**{field: value}) in (field, "schedule")


@pytest.mark.parametrize("field", RETRY_FIELDS)
@examples(max_examples=60)
@given(value=ANYTHING)
@example(value="ValueError")
@example(value=5)
def test_any_value_of_a_retry_policy_is_taken_or_refused_by_its_name(field: str, value: Any) -> None:
    assert refused_field(retry=RetryPolicy(**{field: value})) in (f"retry.{field}", "schedule")


@pytest.mark.parametrize("field", ["retry_on", "give_up_on"])
def test_one_name_of_an_error_is_no_list_of_names(field: str) -> None:
    """Its letters would each be taken for a name, and the policy would never match."""
    named: Any = {field: "ValueError"}
    assert refused_field(retry=RetryPolicy(**named)) == f"retry.{field}"


@examples(max_examples=60)
@given(name=st.text(max_size=30), value=ANYTHING)
def test_an_unknown_field_of_any_name_is_refused_by_its_name(name: str, value: Any) -> None:
    if name not in [*FIELDS, "task_lives_elsewhere", "by", "through", "now"]:
        assert refused_field(**{name: value}) == name


MOMENTS = ANYTHING | st.datetimes(timezones=st.none() | st.timezones()) | st.just(NOON)


@examples(max_examples=200)
@given(
    expression=st.text(max_size=20) | st.text("0123456789*/-,LH#()@ ?monjanfri", max_size=20),
    zone=st.text(max_size=10)
    | st.sampled_from(["UTC", "Europe/Berlin", "localtime", "/etc", "..", "Europe", "\0", "a/" * 3000]),
)
@example(expression="²/² * * * *", zone="UTC")
@example(expression="٣ * * * *", zone="UTC")
@example(expression="*/² * * * *", zone="UTC")
@example(expression="*/٣ * * * *", zone="UTC")
@example(expression="h(²-³) * * * *", zone="UTC")
@example(expression="0 0 * * 5#²", zone="UTC")
@example(expression="* * * * *", zone="\ud800")
def test_any_cron_expression_in_any_zone_is_read_or_refused(expression: str, zone: str) -> None:
    try:
        Cron(expression, zone).next_after(NOON)
    except Refused as refusal:
        assert refusal.field in ("cron", "timezone")  # noqa: PT017 - most are refused, and some are fine


@pytest.mark.parametrize(
    "value", [None, 5, b"* * * * *", ["UTC"], {}, object()], ids=lambda value: type(value).__name__
)
def test_a_cron_expression_or_a_zone_that_is_no_text_is_refused(value: Any) -> None:
    for make, field in ((lambda: Cron(value), "cron"), (lambda: Cron("* * * * *", value), "timezone")):
        with pytest.raises(Refused) as refusal:
            make()
        assert refusal.value.field == field


@examples(max_examples=100)
@given(seconds=ANYTHING, moment=MOMENTS)
def test_any_interval_and_any_instant_is_read_or_refused(seconds: Any, moment: Any) -> None:
    for make in (lambda: Every(seconds, moment), lambda: Every(60, moment), lambda: Once(moment)):
        try:
            make().next_after(NOON)
        except Refused as refusal:
            assert refusal.field in ("every", "anchor", "once")  # noqa: PT017


@examples(max_examples=100)
@given(start=MOMENTS, end=MOMENTS)
def test_any_bounds_are_read_or_refused(start: Any, end: Any) -> None:
    for pattern in (Cron("0 3 * * *", "Europe/Berlin"), Every(60, NOON), Once(NOON)):
        try:
            Within(pattern, start, end).next_after(NOON)
        except Refused as refusal:
            assert refusal.field in ("start", "end")  # noqa: PT017


@pytest.mark.parametrize("inner", [None, "0 3 * * *", 5, Within(Every(60, NOON))], ids=str)
def test_bounds_around_what_is_no_pattern_are_refused(inner: Any) -> None:
    with pytest.raises(Refused):
        Specification(key="k", task="onbeat.echo", schedule=Within(inner)).check()


@pytest.mark.parametrize(
    "until", ["tomorrow", 5, date(2030, 1, 1), timedelta(1), [], object()], ids=lambda v: type(v).__name__
)
def test_an_end_of_a_pause_that_is_no_moment_is_refused(until: Any) -> None:
    with pytest.raises(Refused) as refusal:
        pause("report", reason="x", until=until, now=NOON)
    assert refusal.value.field == "until"
