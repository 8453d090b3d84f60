"""What no line of a log shows, and what stays as it was said."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from executions.log_redaction import HIDDEN, redact, without_secrets

SECRET = "Hunter2Hunter2"
KEY = "onbeat_" + "k3y5k3y5k3y5" + "_" + "aB3" * 14 + "x"
SIGNING = "whsec_" + "MfKQ9r8GKYqrTwjU"


@pytest.mark.parametrize(
    "said",
    [
        f"amqp://onbeat:{SECRET}@rabbit:5672//",
        f"cannot reach redis://:{SECRET}@redis:6379/0: refused",
        f"postgresql://onbeat:{SECRET}%40x@db/onbeat",
        f"amqp://onbeat:p@{SECRET}@rabbit//",
        f"amqp://onbeat:p/{SECRET}@rabbit//",
        f"https://{SECRET}@example.com/hook",
        f"Authorization: Bearer {SECRET}",
        f"authorization: bearer {SECRET}",
        f"Authorization: Basic {SECRET}==",
        "Authorization: Basic Hunter2=",
        f"Authorization: Token {SECRET}",
        f"{{'Authorization': 'Bearer {SECRET}'}}",
        f"sent Bearer {SECRET} along",
        f"password={SECRET}",
        f"PASSWORD = {SECRET}, port=5432",
        f"db_password: {SECRET}",
        f"password='{SECRET} and more'",
        f'password="a\\"{SECRET}"',
        f'{{"password": "{SECRET}"}}',
        f"{{'api_key': '{SECRET}', 'n': 1}}",
        f"https://example.com/hook?token={SECRET}&n=1",
        f"client-secret={SECRET}",
        f"X-Api-Key: {SECRET}",
        f"connect(host='db', passwd='{SECRET}')",
    ],
)
def test_what_lets_somebody_in_is_hidden(said: str) -> None:
    shown = without_secrets(said)
    assert "Hunter2" not in shown
    assert HIDDEN in shown


@pytest.mark.parametrize("secret", [KEY, KEY[:-10], SIGNING, SIGNING + "+/a=="])
@pytest.mark.parametrize("around", ["{}", "key {} was sent", "['{}']", '"{}"', "{}.", "a:{}"])
def test_our_own_keys_are_hidden_but_for_what_tells_of_what_kind_they_are(secret: str, around: str) -> None:
    shown = without_secrets(around.format(secret))
    assert secret not in shown
    assert secret[-8:] not in shown
    assert shown == around.format((secret[:20] if secret.startswith("onbeat_") else "whsec_") + HIDDEN)


@pytest.mark.parametrize(
    "said",
    [
        "lease tokens are taken by 3 beats",
        "a token is 43 characters, a secret has none",
        "Basic authentication failed for this user",
        "Bearer certificates are not taken",
        "basic.consume: server channel error 404, message: NOT_FOUND",
        "it asks for the password of the database",
        "author: Ada, authored=yes",
        "http://127.0.0.1:8000/users/ada@example.com",
        "https://example.com/a?to=ada@example.com",
        "http://[::1]:9101/metrics",
        "ada@example.com was told",
        "0199e5a0-0000-7000-8000-0123456789ab",
        "job=report execution=0199e5a0-0000-7000-8000-0123456789ab attempt=2 tags=a,b",
        'duplicate key value violates unique constraint "onbeat_execution_job_id_fire_time_uniq"',
        'relation "onbeat_schedule" does not exist',
        "onbeat_beats_without_redis 0.0",
        "onbeat_api_key, onbeat_idempotent_answer",
        "sqlite:////srv/onbeat/onbeat.sqlite3",
        "folder:///srv/onbeat/broker",
        "2026-06-15 12:00:00+00:00",
        "Task examples.lively_demo.tasks.send_invoice succeeded in 0.01s",
    ],
)
def test_ordinary_text_stays_as_it_was_said(said: str) -> None:
    assert without_secrets(said) == said


def test_sentences_of_our_own_documents_and_code_stay_as_they_are() -> None:
    """Whole texts of the kind that logs are made of; what they show of logins is made up, and hidden all the same."""
    root = Path(__file__).resolve().parents[2]
    lines = [line for file in sorted((root / "docs" / "explanation").glob("*.md")) for line in file.open("rt")]
    assert len(lines) > 500
    mangled = [line for line in lines if without_secrets(line) != line]
    assert len(mangled) <= len(lines) / 500, mangled


def test_a_traceback_is_shown_without_the_secrets_in_it() -> None:
    shown = without_secrets(
        'Traceback (most recent call last):\n  File "tasks.py", line 7, in pay\n'
        f'    connect("amqp://me:{SECRET}@rabbit//", password="{SECRET}")\nOSError: {KEY} refused\n'
    )
    assert SECRET not in shown
    assert KEY not in shown
    assert 'File "tasks.py", line 7, in pay' in shown
    assert "OSError: " in shown
    assert shown.endswith(" refused\n")


@pytest.mark.parametrize(
    "name",
    [
        *("args", "kwargs", "payload", "body", "checkpoint", "result", "cookie", "headers", "environ"),
        *("password", "db_password", "client_secret", "access_token", "api_key", "apikey", "Authorization", "dsn"),
        *("credentials", "private_key"),
    ],
)
def test_a_field_of_such_a_name_is_hidden_whatever_it_holds(name: str) -> None:
    assert redact(None, "info", {name: {"n": SECRET}, "job": "report"}) == {name: HIDDEN, "job": "report"}


@pytest.mark.parametrize("name", ["job", "execution", "attempt", "worker", "queue", "reason", "error", "key", "schema"])
def test_a_field_of_another_name_is_shown(name: str) -> None:
    assert redact(None, "info", {name: "as it is"}) == {name: "as it is"}


def test_a_secret_within_a_value_is_hidden_and_the_rest_of_it_shown() -> None:
    shown = redact(None, "info", {"error": OSError(f"amqp://me:{SECRET}@rabbit refused"), "tags": [f"token={SECRET}"]})
    assert shown == {"error": f"amqp://{HIDDEN}@rabbit refused", "tags": f"['token={HIDDEN}']"}


@pytest.mark.parametrize("value", [0, 7, -1, 2.5, True, False])
def test_numbers_stay_numbers(value: object) -> None:
    shown = redact(None, "info", {"count": value})["count"]
    assert (type(shown), shown) == (type(value), value)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_json_cannot_say_is_text(value: float) -> None:
    assert json.dumps(redact(None, "info", {"count": value})["count"], allow_nan=False) == f'"{value}"'


@given(st.text(max_size=200))
def test_what_was_hidden_once_is_not_touched_again(text: str) -> None:
    once = without_secrets(text)
    assert without_secrets(once) == once


@pytest.mark.parametrize("part", ["a-", "token", "password=", "bearer ", "x://", "://a:", "onbeat_", '"', "token ="])
def test_a_text_of_any_length_is_gone_through_but_once(part: str) -> None:
    """A pattern that begins anew at each of its places would take minutes over this, and hold up who logs."""
    text = part * (200_000 // len(part))
    assert len(without_secrets(text)) > 0
