"""What an error may tell outside of the house."""

import pytest

from notifications.masking import line_of, masked

SECRET = "s3cr3t-V4lue/9"


@pytest.mark.parametrize(
    "said",
    [
        f"could not connect to postgres://app:{SECRET}@db.example.com/app",
        f"GET https://api.example.com/v1?key={SECRET}&x=1 failed",
        f"login failed: password={SECRET}",
        f"login failed: password: '{SECRET}'",
        f'{{"api_key": "{SECRET}", "n": 1}}',
        f"DB_PASSWORD={SECRET} is wrong",
        f"Authorization: Bearer {SECRET}",
        f"sent Basic {SECRET}",
        f"token = {SECRET}",
        f"aws_secret_access_key={SECRET}",
        f"https://hooks.slack.com/services/{SECRET}",
        f"xoxb-{SECRET}",
    ],
)
def test_what_looks_like_a_secret_is_hidden(said: str) -> None:
    assert SECRET not in masked(said)
    assert "s3cr3t" not in masked(said)


@pytest.mark.parametrize(
    "said",
    [
        "ValueError: no such row",
        "KeyError: 'password'",
        "the author of the token is unknown",
        "POST https://api.example.com/v1/invoices answered 500",
        "basic arithmetic failed",
    ],
)
def test_what_does_not_is_told_as_it_is(said: str) -> None:
    assert masked(said) == said


def test_of_a_traceback_the_last_line_is_told() -> None:
    error = (
        "Traceback (most recent call last):\n  File \"x.py\", line 1, in y\n    raise ValueError('no')\nValueError: no"
    )
    assert line_of(error) == "ValueError: no"
    assert line_of("") == ""
