"""What is sent: valid for whoever takes it, whatever a job is called and whatever its error says."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from notifications.bodies import Letter, body_of
from notifications.kinds import Kind, Template

NOON = datetime(2026, 6, 15, 12, 0, tzinfo=UTC)
TEXTS = st.text(max_size=400)
MOMENT = NOON.isoformat()


def letter(kind: Kind, **said: Any) -> Letter:
    facts: dict[str, Any] = {"job": "daily", "execution": "e", "attempt": 1, "outcome": "FAILED", "error": "no"}
    facts |= {"at": MOMENT, "is_dead": False, "next_at": MOMENT, "count": 1, "began_at": MOMENT, "since": MOMENT}
    facts |= {"why": "no beat has planned it", "after": [Kind.FAILURE], **said}
    return Letter(kind, str(facts["job"]), facts, NOON, "ops", "https://onbeat.example.com/x", "onbeat.example.com")


def check_slack(body: Any) -> None:
    """As Slack's reference has it: lengths of texts, kinds of blocks."""
    assert set(body) == {"text", "blocks"}
    assert body["text"]
    assert 1 <= len(body["blocks"]) <= 50
    for block in body["blocks"]:
        match block["type"]:
            case "header":
                assert block["text"]["type"] == "plain_text"
                assert 1 <= len(block["text"]["text"]) <= 150
            case "section":
                assert block["text"]["type"] == "mrkdwn"
                assert 1 <= len(block["text"]["text"]) <= 3000
            case "context":
                assert 1 <= len(block["elements"]) <= 10
            case other:
                pytest.fail(other)


def check_pagerduty(body: Any, kind: Kind) -> None:
    """As the Events API v2 has it."""
    assert body["routing_key"] == "K" * 32
    assert 1 <= len(body["dedup_key"]) <= 255
    assert body["event_action"] == ("resolve" if kind is Kind.RECOVERY else "trigger")
    if kind is not Kind.RECOVERY:
        payload = body["payload"]
        assert 1 <= len(payload["summary"]) <= 1024
        assert payload["source"]
        assert payload["severity"] in {"critical", "warning", "error", "info"}
        datetime.fromisoformat(payload["timestamp"])


@given(kind=st.sampled_from(Kind), error=TEXTS, count=st.integers(1, 10**6), more=st.integers(0, 10**6))
def test_every_body_is_one_that_its_receiver_takes(kind: Kind, error: str, count: int, more: int) -> None:
    one = letter(kind, error=error, count=count, more=more)
    for template in Template:
        body = body_of(one, template, routing_key="K" * 32)
        assert json.loads(json.dumps(body)) == body
        assert len(json.dumps(body)) < 16_000
        match template:
            case Template.SLACK:
                check_slack(body)
            case Template.PAGERDUTY:
                check_pagerduty(body, kind)
            case Template.STANDARD:
                assert set(body) == {"type", "timestamp", "data"}


def test_an_error_is_no_link_and_calls_nobody() -> None:
    body = body_of(letter(Kind.DEAD_LETTER, error="<!channel> `x` <https://evil.example|here> & so on"), Template.SLACK)
    text = body["blocks"][1]["text"]["text"]
    assert "<!channel>" not in text
    assert "&lt;!channel&gt; ˋxˋ &lt;https://evil.example|here&gt; &amp; so on" in text


@pytest.mark.parametrize(
    ("kind", "said", "text"),
    [
        (Kind.FAILURE, {}, "daily failed\nAttempt 1 failed. It is tried again at 2026-06-15 12:00:00 UTC.\nno"),
        (Kind.FAILURE, {"is_dead": True}, "daily failed\nAttempt 1 failed. It is given up.\nno"),
        (
            Kind.FAILURE,
            {"outcome": "WORKER_LOST", "next_at": None},
            "daily lost its worker\nAttempt 1 lost its worker. It is tried again.\nno",
        ),
        (
            Kind.DEAD_LETTER,
            {"outcome": "TIMED_OUT", "count": 7},
            "daily is given up\nAttempt 1 ran out of time, and was the last. It waits in the dead letters for a person."
            "\nno\n7 dead letters since 2026-06-15 12:00:00 UTC.",
        ),
        (
            Kind.DEAD_LETTER,
            {"outcome": "", "told_before_at": MOMENT},
            "daily is given up\nNo worker took it. It waits in the dead letters for a person.\nno\n"
            "1 dead letter since the last notification at 2026-06-15 12:00:00 UTC.",
        ),
        (
            Kind.LATENESS,
            {"more": 12},
            "daily is late\nIt was due at 2026-06-15 12:00:00 UTC and has not begun: no beat has planned it.\n"
            "And 12 more troubles, not told one by one: the limit per hour is reached.",
        ),
        (
            Kind.RECOVERY,
            {"count": 0},
            "daily is well again\nAttempt 1 succeeded at 2026-06-15 12:00:00 UTC, after trouble since "
            "2026-06-15 12:00:00 UTC.",
        ),
        (
            Kind.RECOVERY,
            {"count": 4},
            "daily is well again\nAttempt 1 succeeded at 2026-06-15 12:00:00 UTC, after trouble since "
            "2026-06-15 12:00:00 UTC.\n4 failures since the last notification.",
        ),
        (
            Kind.RECOVERY,
            {"after": ["lateness"]},
            "daily is on time again\nWhat was late since 2026-06-15 12:00:00 UTC has begun.",
        ),
    ],
)
def test_what_it_says(kind: Kind, said: dict[str, Any], text: str) -> None:
    assert letter(kind, **said).words.text == text
