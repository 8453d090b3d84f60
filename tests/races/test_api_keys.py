"""A key that is used and revoked at the same moment: it ends up revoked, and nobody waits to note a use."""

from datetime import datetime, timedelta
from functools import partial

import pytest
from django.db import transaction

from access import api_keys
from access.models import ApiKey, AuditEntry
from tests.races.connections import elsewhere, several, waits_for_us

pytestmark = [pytest.mark.full, pytest.mark.django_db(transaction=True)]
ROUNDS = 40


def a_key(now: datetime) -> ApiKey:
    return api_keys.make(name="billing", role="viewer", now=now).key


def test_a_use_does_not_wait_for_whoever_revokes_and_takes_nothing_back(noon: datetime) -> None:
    key = a_key(noon)
    with transaction.atomic():
        api_keys.revoke(key.prefix, by="ada", now=noon)
        elsewhere(partial(api_keys.note_use, key, now=noon))
    key.refresh_from_db()
    assert (key.revoked_at, key.last_used_at) == (noon, None)
    api_keys.note_use(key, now=noon)
    key.refresh_from_db()
    assert (key.revoked_at, key.last_used_at) == (noon, noon)


def test_a_request_does_not_wait_for_another_of_the_same_key_that_noted_its_use(noon: datetime) -> None:
    key = a_key(noon)
    with transaction.atomic():
        api_keys.note_use(key, now=noon)
        elsewhere(partial(api_keys.note_use, key, now=noon + timedelta(seconds=1)))
    key.refresh_from_db()
    assert key.last_used_at == noon


def test_a_revoke_waits_for_a_use_and_then_holds(noon: datetime) -> None:
    key = a_key(noon)
    with transaction.atomic():
        api_keys.note_use(key, now=noon)
        revoked = waits_for_us(partial(api_keys.revoke, key.prefix, by="ada", now=noon))
    assert revoked.result(timeout=20).revoked_at == noon
    key.refresh_from_db()
    assert (key.revoked_at, key.revoked_by, key.last_used_at) == (noon, "ada", noon)


def test_a_key_that_is_used_and_revoked_at_once_is_revoked(noon: datetime) -> None:
    with several(3) as start_all:
        for _ in range(ROUNDS):
            key = a_key(noon)
            use = partial(api_keys.note_use, key, now=noon)
            start_all(use, partial(api_keys.revoke, key.prefix, now=noon), use)
            key.refresh_from_db()
            assert key.revoked_at == noon
            assert key.last_used_at in (noon, None)


def test_of_two_who_revoke_at_once_one_is_told_of(noon: datetime) -> None:
    with several(2) as start_both:
        for _ in range(ROUNDS):
            key = a_key(noon)
            answers = start_both(*(partial(api_keys.revoke, key.prefix, by=by, now=noon) for by in ("ada", "bob")))
            (entry,) = AuditEntry.objects.filter(action="api_key.revoke", subject=f"api_key:{key.prefix}")
            assert {answer.revoked_by for answer in answers} == {entry.who}
