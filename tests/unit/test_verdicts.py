"""What an answer means, and what of it is kept."""

from datetime import UTC, datetime, timedelta

import pytest

from callbacks.redaction import REDACTED, Redactor
from callbacks.sending import Answer
from callbacks.verdicts import BODY_CHARACTERS, HEADER_NAME_CHARACTERS, Verdict, kept, retry_after, verdict
from jobs.http_target import HttpTarget

PLAIN = HttpTarget("https://example.com")
NOW = datetime(2026, 11, 17, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
NO_SECRETS = Redactor(())


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        ((200, 201, 202, 204, 299), Verdict.SUCCEEDED),
        ((408, 425, 429, 500, 502, 503, 504, 599), Verdict.TRY_AGAIN),
        ((300, 301, 302, 304, 307, 308, 400, 401, 403, 404, 409, 422, 451), Verdict.GIVE_UP),
        ((410,), Verdict.GONE),
    ],
)
def test_each_class_of_status_has_its_meaning(statuses: tuple[int, ...], expected: Verdict) -> None:
    assert {verdict(status, PLAIN) for status in statuses} == {expected}


def test_expected_statuses_replace_the_2xx() -> None:
    target = HttpTarget("https://example.com", expected=(201, 404))
    found = [verdict(status, target) for status in (201, 404, 200, 503)]
    assert found == [Verdict.SUCCEEDED, Verdict.SUCCEEDED, Verdict.GIVE_UP, Verdict.TRY_AGAIN]


def test_a_202_is_a_promise_only_where_that_was_agreed() -> None:
    assert verdict(202, HttpTarget("https://example.com", is_asynchronous=True)) is Verdict.ACCEPTED
    assert verdict(200, HttpTarget("https://example.com", is_asynchronous=True)) is Verdict.SUCCEEDED


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("120", timedelta(minutes=2)),
        ("0", timedelta(0)),
        ("999999999", HOUR),
        ("Tue, 17 Nov 2026 12:05:00 GMT", timedelta(minutes=5)),
        ("Tue, 17 Nov 2026 11:05:00 GMT", timedelta(0)),
        ("Sun, 17 Nov 2999 11:05:00 GMT", HOUR),
        ("soon", timedelta(0)),
        ("-5", timedelta(0)),
        ("1.5", timedelta(0)),
        ("9" * 400, timedelta(0)),
        ("", timedelta(0)),
    ],
)
def test_retry_after_is_read_up_to_a_limit(value: str, expected: timedelta) -> None:
    assert retry_after([("retry-after", value)], now=NOW, most=HOUR) == expected


def an_answer(body: bytes = b"", **headers: str) -> Answer:
    return Answer(200, tuple((name.replace("_", "-"), value) for name, value in headers.items()), body, False, 0.1234)


def test_headers_whose_names_tell_of_secrets_are_not_kept() -> None:
    answer = an_answer(set_cookie="a", x_auth_token="b", x_api_key="c", www_authenticate="d", server="e")
    kept_headers = kept(answer, asked="", redactor=NO_SECRETS)["headers"]
    assert kept_headers.pop("server") == "e"
    assert set(kept_headers.values()) == {REDACTED}


def test_a_secret_that_a_receiver_echoes_is_not_kept() -> None:
    answer = an_answer(b"you sent hunter2.", x_echo="hunter2", x_hunter2="yes")
    said = kept(answer, asked="", redactor=Redactor({"hunter2"}))
    assert said["body"] == f"you sent {REDACTED}."
    assert said["headers"] == {"x-echo": REDACTED, f"x-{REDACTED}": "yes"}


def test_long_names_of_headers_are_cut() -> None:
    said = kept(an_answer(**{"x" * 1000: "1"}), asked="", redactor=NO_SECRETS)
    assert said["headers"] == {"x" * HEADER_NAME_CHARACTERS: "1"}


def test_a_long_body_is_cut_and_says_so() -> None:
    said = kept(an_answer(b"x" * (BODY_CHARACTERS + 1)), asked="", redactor=NO_SECRETS)
    assert (len(said["body"]), said["is_cut"]) == (BODY_CHARACTERS, True)


def test_what_is_no_text_can_be_stored() -> None:
    assert kept(an_answer(b"\xff\x00a"), asked="", redactor=NO_SECRETS)["body"] == "\ufffd␀a"
