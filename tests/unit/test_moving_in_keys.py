"""The same name leads to the same job, whatever comes and goes beside it."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.moving_in.keys import hashed_key, keys_of, plain_key

_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@/-]{0,199}")


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("billing.daily", "billing.daily"),
        ("Send Mail (daily) ✉", "send-mail-daily"),
        ("Überweisung prüfen", "uberweisung-prufen"),
        ("  --  a", "a"),
        ("app/tasks:run@eu", "app/tasks:run@eu"),
    ],
)
def test_a_name_becomes_a_key_that_a_person_can_read(name: str, key: str) -> None:
    assert keys_of([name]) == [key]
    assert keys_of([name], prefix="shop.") == [f"shop.{key}"]


@given(st.lists(st.text(max_size=220), unique=True, max_size=6), st.sampled_from(["", "shop."]))
def test_every_name_has_a_key_of_its_own(names: list[str], prefix: str) -> None:
    keys = keys_of(names, prefix=prefix)
    assert all(key is not None and _KEY.fullmatch(key) and key.startswith(prefix) for key in keys)
    assert len(set(keys)) == len(names)
    assert keys_of(names[::-1], prefix=prefix) == keys[::-1]


def test_names_that_look_alike_get_a_hash_and_one_that_is_a_key_stays_as_it_is() -> None:
    first, second, exact = keys_of(["Send mail", "send_mail!".replace("_", " "), "send-mail"])
    assert exact == "send-mail"
    assert first == hashed_key("Send mail")
    assert second == hashed_key("send mail!")
    assert first != second


@pytest.mark.parametrize("name", ["✉" * 200, "", "...", "a" * 201])
def test_a_name_without_letters_or_with_too_many_has_a_hash(name: str) -> None:
    assert plain_key(name) == ""
    assert keys_of([name]) == [hashed_key(name)]


def test_who_was_alone_and_is_stored_has_no_answer_when_another_looks_like_it() -> None:
    assert keys_of(["Send mail", "send mail!"], stored={"send-mail"}) == [None, None]


def test_who_has_a_hash_and_is_stored_keeps_it_when_the_other_is_gone() -> None:
    hashed = hashed_key("Send mail")
    assert keys_of(["Send mail"], stored={hashed}) == [hashed]
