"""Many who guess at the same moment, by many web processes: no more tries are taken than the limit holds."""

from datetime import datetime, timedelta
from functools import partial

import pytest
from django.db import transaction

from access import logins
from access.logins import LIMITS, Refused, Try
from access.models import LoginBucket
from tests.races.connections import at_once, elsewhere, several, waits_for_us

pytestmark = [pytest.mark.full, pytest.mark.django_db(transaction=True)]
ROUNDS = 20


def guess(user: str, address: str, now: datetime, known: str = "") -> Try | Refused:
    return logins.begin(user, address, known=known, now=now)


def test_no_more_are_taken_at_once_than_the_limit_holds(noon: datetime) -> None:
    most = LIMITS["user from this address"].most

    def guesses() -> int:
        return sum(isinstance(guess("ada", "192.0.2.1", noon), Try) for _ in range(most))

    assert sum(at_once(*[guesses] * 6)) == most


def test_who_guesses_at_one_name_from_many_addresses_is_counted_over_all(noon: datetime) -> None:
    def guesses(number: int) -> int:
        return sum(isinstance(guess("ada", f"192.0.{number}.{n}", noon), Try) for n in range(30))

    assert sum(at_once(*[partial(guesses, number) for number in range(6)])) == LIMITS["user"].most


def test_the_last_try_is_had_by_one_of_two(noon: datetime) -> None:
    with several(2) as start_all:
        for number in range(ROUNDS):
            address = f"192.0.2.{number}"
            for _ in range(LIMITS["user from this address"].most - 1):
                guess(f"user-{number}", address, noon)
            one = partial(guess, f"user-{number}", address, noon)
            assert sorted(type(answer).__name__ for answer in start_all(one, one)) == ["Refused", "Try"]


def test_who_comes_second_waits_for_the_first_and_counts_it(noon: datetime) -> None:
    for _ in range(LIMITS["user from this address"].most - 1):
        guess("ada", "192.0.2.1", noon)
    with transaction.atomic():
        assert isinstance(guess("ada", "192.0.2.1", noon), Try)
        second = waits_for_us(partial(guess, "ada", "192.0.2.1", noon))
    assert isinstance(second.result(timeout=20), Refused)


def test_those_who_guess_at_the_same_names_crosswise_do_not_wait_for_one_another_for_ever(noon: datetime) -> None:
    """Each wants two rows of the other: a deadlock, if they took them in the order in which they name them."""
    people = [("ada", "192.0.2.1"), ("ada", "192.0.2.2"), ("bob", "192.0.2.1"), ("bob", "192.0.2.2")]

    def log_in(user: str, address: str) -> None:
        one = guess(user, address, noon)
        assert isinstance(one, Try)
        logins.succeeded(one)

    with several(len(people)) as start_all:
        for _ in range(ROUNDS):
            start_all(*[partial(log_in, *person) for person in people])


def test_who_knows_the_password_gets_back_what_was_paid_whatever_others_pay_meanwhile(noon: datetime) -> None:
    one = guess("ada", "192.0.2.1", noon)
    assert isinstance(one, Try)
    others = [elsewhere(partial(guess, "bob", "192.0.2.1", noon)) for _ in range(5)]
    assert all(isinstance(other, Try) for other in others)
    at_once(partial(logins.succeeded, one), partial(guess, "cid", "192.0.2.1", noon))
    taken = sum(isinstance(guess(f"user-{n}", "192.0.2.1", noon), Try) for n in range(100))
    assert taken == LIMITS["address"].most - 6


def test_a_row_that_is_used_while_it_is_forgotten_stays(noon: datetime) -> None:
    guess("ada", "192.0.2.1", noon)
    later = noon + timedelta(days=1)
    with transaction.atomic():
        guess("ada", "192.0.2.1", later)
        forgotten = waits_for_us(partial(logins.forget_old, later))
    assert forgotten.result(timeout=20) == 0
    assert LoginBucket.objects.count() == 3
    assert logins.forget_old(later + timedelta(days=1)) == 3
