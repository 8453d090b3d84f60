"""Who guesses passwords in the admin is stopped for a while, and nobody else is."""

import re
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.test import Client

from access import logins
from access.logins import LIMITS, Refused, Try
from access.models import LoginBucket
from console import site
from tests.visiting import LOGIN

pytestmark = pytest.mark.django_db
PASSWORD = "correct horse battery staple"
PAIR, ADDRESS, USER = (LIMITS[name] for name in ("user from this address", "address", "user"))
BROWSER = LIMITS["known browser"]


@pytest.fixture(autouse=True)
def now(noon: datetime, monkeypatch: pytest.MonkeyPatch) -> "Now":
    time = Now(noon)
    monkeypatch.setattr(site, "database_now", lambda: time.is_)
    return time


class Now:
    def __init__(self, moment: datetime) -> None:
        self.is_ = moment

    def passes(self, **time: float) -> None:
        self.is_ += timedelta(**time)


@pytest.fixture(autouse=True)
def ada() -> User:
    return User.objects.create_superuser("ada", password=PASSWORD)


def log_in(password: str = PASSWORD, *, user: str = "ada", client: Client | None = None, **meta: Any) -> Any:
    return (client or Client()).post(LOGIN, {"username": user, "password": password, "next": "/admin/"}, **meta)


def statuses(number: int, **more: Any) -> list[int]:
    return [log_in("a guess", **more).status_code for _ in range(number)]


def test_wrong_passwords_are_refused_after_a_few_and_the_page_says_for_how_long(now: Now) -> None:
    assert statuses(PAIR.most + 1) == [200] * PAIR.most + [429]
    refused = log_in()  # the right one: it is not looked at
    assert refused.status_code == 429
    assert refused.headers["Retry-After"] == "60"
    assert "The next one is taken in 60 s" in refused.content.decode()
    assert "sessionid" not in refused.cookies
    now.passes(seconds=59)
    assert log_in().headers["Retry-After"] == "1"
    now.passes(seconds=1)
    assert log_in().status_code == 302


def test_refused_tries_cost_nothing_so_that_the_wait_does_not_grow(now: Now) -> None:
    statuses(PAIR.most + 20)
    now.passes(seconds=60)
    assert statuses(2) == [200, 429]


def test_whoever_logs_in_has_all_tries_again(now: Now) -> None:
    for _ in range(5):
        assert statuses(PAIR.most - 1) == [200] * (PAIR.most - 1)
        assert log_in().status_code == 302


def test_logins_that_succeed_are_not_counted(now: Now) -> None:
    assert {log_in().status_code for _ in range(ADDRESS.most + 1)} == {302}
    assert not LoginBucket.objects.filter(full_at_us__gt=now.is_.timestamp() * 1_000_000).exists()


def test_a_user_without_a_role_is_counted_as_well() -> None:
    User.objects.create_user("nobody", password=PASSWORD)
    codes = [log_in(user="nobody").status_code for _ in range(PAIR.most + 1)]
    assert codes == [200] * PAIR.most + [429]


def test_one_address_may_not_try_many_names() -> None:
    codes = [log_in("a guess", user=f"user-{number}").status_code for number in range(ADDRESS.most + 1)]
    assert codes == [200] * ADDRESS.most + [429]
    assert log_in().status_code == 429
    assert log_in(REMOTE_ADDR="192.0.2.7").status_code == 302


def test_many_addresses_may_not_try_one_name_and_others_log_in_meanwhile(now: Now) -> None:
    User.objects.create_superuser("bob", password=PASSWORD)
    taken = [logins.begin("ada", f"192.0.2.{number}", known="", now=now.is_) for number in range(USER.most + 1)]
    assert [type(one) for one in taken] == [Try] * USER.most + [Refused]
    assert log_in().status_code == 429
    assert log_in(user="bob").status_code == 302


def test_who_logged_in_with_this_browser_before_is_not_kept_out_by_others(now: Now) -> None:
    browser = Client()
    assert log_in(client=browser).status_code == 302
    (cookie,) = [each for name, each in browser.cookies.items() if name == "onbeat_known"]
    assert (cookie["path"], cookie["httponly"], cookie["samesite"]) == (LOGIN, True, "Strict")
    browser.cookies.pop("sessionid")
    for number in range(USER.most):
        logins.begin("ada", f"192.0.2.{number}", known="", now=now.is_)
    for number in range(ADDRESS.most):  # of the person's own
        logins.begin(f"user-{number}", "127.0.0.1", known="", now=now.is_)
    assert log_in().status_code == 429
    assert log_in(client=browser).status_code == 302
    # It has a limit of its own, and is good for one user, and for a time.
    assert statuses(BROWSER.most + 1, client=browser)[-1] == 429
    assert log_in(user="somebody", client=browser).status_code == 429
    browser.cookies["onbeat_known"] = "made:up:things"
    assert log_in(client=browser).status_code == 429


def test_a_browser_is_recognised_for_a_while_only(now: Now, monkeypatch: pytest.MonkeyPatch) -> None:
    known = logins.recognition("ada")
    for _ in range(PAIR.most):
        logins.begin("ada", "192.0.2.1", known="", now=now.is_)
    assert isinstance(logins.begin("ada", "192.0.2.1", known=known, now=now.is_), Try)
    monkeypatch.setattr(logins, "KNOWN_FOR", timedelta(seconds=-1))
    assert isinstance(logins.begin("ada", "192.0.2.1", known=known, now=now.is_), Refused)


@pytest.mark.parametrize(
    ("proxies", "is_believed"), [(0, False), (1, True)], ids=["no proxy is declared", "one proxy is"]
)
def test_the_address_is_that_before_our_proxies(proxies: int, is_believed: bool, monkeypatch) -> None:
    from rest_framework.settings import api_settings

    monkeypatch.setattr(api_settings, "NUM_PROXIES", proxies, raising=False)
    for number in range(PAIR.most):
        log_in("a guess", HTTP_X_FORWARDED_FOR=f"198.51.100.{number}, 192.0.2.1")
    # Whoever guesses writes what they like before what the proxy adds.
    assert log_in(HTTP_X_FORWARDED_FOR="203.0.113.1, 192.0.2.1").status_code == 429
    other = log_in(HTTP_X_FORWARDED_FOR="203.0.113.1, 192.0.2.2")
    assert other.status_code == (302 if is_believed else 429)


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("2001:db8:1:2::1", "2001:db8:1:2:ffff::9", True),
        ("2001:db8:1:2::1", "2001:db8:1:3::1", False),
        ("192.0.2.1", "::ffff:192.0.2.1", True),
        ("192.0.2.1:5000", "192.0.2.1:6000", True),
        ("[2001:db8::1]:5000", "2001:db8::2", True),
        ("192.0.2.1", "192.0.2.2", False),
        ("unknown", "unknown", True),
        ("unknown", "", False),
    ],
)
def test_addresses_that_are_one_callers_count_as_one(one: str, other: str, is_same: bool, noon: datetime) -> None:
    for _ in range(PAIR.most):
        logins.begin("ada", one, known="", now=noon)
    assert isinstance(logins.begin("ada", other, known="", now=noon), Refused) == is_same


def test_the_log_tells_of_it_once_a_minute_without_what_was_typed(now: Now, caplog: pytest.LogCaptureFixture) -> None:
    statuses(PAIR.most + 5)
    said = "logins are refused: too many tries  by='user from this address' user=ada address=127.0.0.1"
    assert [line.partition(" request=")[0] for line in caplog.messages] == [said]
    now.passes(seconds=30)
    statuses(2)
    assert len(caplog.messages) == 1
    now.passes(seconds=31)
    statuses(3)
    assert [line.partition(" request=")[0] for line in caplog.messages] == [said, said]


def test_a_password_in_the_field_of_the_name_is_not_told_and_not_kept(caplog: pytest.LogCaptureFixture) -> None:
    typed = "hunter2-is-my-password"
    statuses(PAIR.most + 1, user=typed)
    assert len(caplog.messages) == 1
    assert typed not in caplog.messages[0]
    assert "user=" not in caplog.messages[0]
    kept = LoginBucket.objects.values_list("name", flat=True)
    assert all(re.fullmatch("[0-9a-f]{64}", name) for name in kept)


@pytest.mark.parametrize("user", ["", "a\nb\u202e", "x" * 5000, "ada'--", "%s"])
def test_any_name_may_be_typed(user: str, caplog: pytest.LogCaptureFixture) -> None:
    codes = statuses(PAIR.most + 1, user=user)
    assert codes[0] == 200
    assert codes[-1] in (200, 429)  # what cannot be a name is not looked at at all
    assert all(message.isprintable() for message in caplog.messages)


def test_what_counts_no_more_is_forgotten_and_so_are_sessions_that_have_ended(noon: datetime) -> None:
    logins.begin("ada", "192.0.2.1", known="", now=noon)
    Session.objects.create(session_key="over", session_data="", expire_date=noon)
    Session.objects.create(session_key="lives", session_data="", expire_date=noon + timedelta(days=1))
    assert logins.forget_old(noon) == 0
    # One try comes back in 12 s to an address, in 36 s to a user, in 60 s to both together; and a minute more.
    assert logins.forget_old(noon + timedelta(seconds=97)) == 3
    assert LoginBucket.objects.count() == 1
    assert logins.forget_old(noon + timedelta(seconds=121)) == 1
    assert list(Session.objects.values_list("session_key", flat=True)) == ["lives"]
