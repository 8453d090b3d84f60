"""Events are one log line each; addresses are told without their secrets."""

import logging
from uuid import UUID

import pytest

from executions import events
from executions.surroundings import without_secrets


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, int, str]]:
    return [(record.name, record.levelno, record.getMessage()) for record in caplog.records]


@pytest.fixture(autouse=True)
def _hear_everything(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="onbeat")


def test_an_event_is_an_info_line_with_its_fields_in_order(caplog: pytest.LogCaptureFixture) -> None:
    events.emit("execution succeeded", job="report", attempt=2, execution=UUID(int=7))
    assert lines(caplog) == [
        (
            "onbeat",
            logging.INFO,
            "execution succeeded  job=report attempt=2 execution=00000000-0000-0000-0000-000000000007",
        )
    ]


def test_a_warning_is_a_warning_line(caplog: pytest.LogCaptureFixture) -> None:
    events.warn("broker is away", error="refused")
    assert lines(caplog) == [("onbeat", logging.WARNING, "broker is away  error=refused")]


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({}, "ticked"),
        ({"worker": None, "reason": ""}, "ticked"),
        ({"worker": None, "count": 0}, "ticked  count=0"),
        ({"is_late": False}, "ticked  is_late=False"),
        ({"reason": "held by overlap"}, "ticked  reason='held by overlap'"),
        ({"reason": 'it\'s "late"'}, "ticked  reason='it\\'s \"late\"'"),
        ({"reason": "two\nlines of it"}, "ticked  reason='two\\nlines of it'"),
        ({"reason": "two\nlines"}, "ticked  reason='two\\nlines'"),
        ({"reason": "a\ttab"}, "ticked  reason='a\\ttab'"),
        ({"reason": "a\rreturn", "count": 1}, "ticked  reason='a\\rreturn' count=1"),
        ({"reason": "a\u2028separator"}, "ticked  reason='a\\u2028separator'"),
        ({"reason": "\x1b[31mred"}, "ticked  reason='\\x1b[31mred'"),
        ({"reason": ValueError("two\nlines")}, "ticked  reason='two\\nlines'"),
        ({"customer": "Jürgen✓"}, "ticked  customer=Jürgen✓"),
        ({"share": "100%", "other": "%s %d"}, "ticked  share=100% other='%s %d'"),
    ],
)
def test_empty_fields_are_left_out_and_spaced_or_unprintable_ones_quoted(
    fields: dict[str, object], line: str, caplog: pytest.LogCaptureFixture
) -> None:
    events.emit("ticked", **fields)
    assert [message for _, _, message in lines(caplog)] == [line]


def test_a_percent_sign_in_an_event_is_plain_text(caplog: pytest.LogCaptureFixture) -> None:
    events.emit("100% done %s")
    assert caplog.messages == ["100% done %s"]


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("", ""),
        ("amqp://guest:hunter2@rabbit:5672/vhost", "amqp://rabbit:5672/vhost"),
        ("amqp://hunter2@rabbit//", "amqp://rabbit//"),
        ("amqp://u:hunter2@a:5672/v;amqp://u:hunter2@b/v", "amqp://a:5672/v;amqp://…@b/v"),
        ("redis://:hunter2@redis:6379/0", "redis://redis:6379/0"),
        ("rediss://redis/0?password=hunter2", "rediss://redis/0"),
        ("redis://redis/0#hunter2", "redis://redis/0"),
        ("redis://u:hunter2%40x@redis/0", "redis://redis/0"),
        ("redis://:hunter2@[::1]:6379/0", "redis://[::1]:6379/0"),
        ("amqp://guest:hunter2@[2001:db8::7]/vhost?password=hunter2", "amqp://[2001:db8::7]/vhost"),
        ("redis://[::1]/0", "redis://[::1]/0"),
        ("amqp://u:hunter2@x@[::1]:5672//", "amqp://[::1]:5672//"),
        ("folder:///srv/onbeat/broker", "folder:///srv/onbeat/broker"),
        ("unix:///run/redis.sock?password=hunter2", "unix:///run/redis.sock"),
    ],
)
def test_an_address_is_shown_without_user_password_and_query(url: str, shown: str) -> None:
    assert without_secrets(url) == shown
