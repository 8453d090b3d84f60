"""Secrets by name: sealed, replaced with an overlap, never shown, and kept while a job names them."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection

from jobs import definitions, kept_secrets, signing, vault
from jobs.http_target import HttpTarget
from jobs.models import Secret, SecretPart, SecretUse
from jobs.refusals import InvalidSecret, NoSuchSecret, Refused, SecretInUse

pytestmark = pytest.mark.django_db
SIGNED = HttpTarget("https://example.com/hook", secret="billing")
DAY = timedelta(days=1)
HOST = "example.com"


def keys(now: datetime) -> tuple[str, ...]:
    return kept_secrets.material(SIGNED, HOST, now=now).signing_keys


def test_a_signing_key_is_made_told_once_and_sealed(noon: datetime) -> None:
    kept = kept_secrets.keep("billing", SecretUse.SIGNING, now=noon)
    assert len(signing.key_bytes(kept.key)) == 32
    assert keys(noon) == (kept.key,)
    with connection.cursor() as cursor:
        cursor.execute("SELECT * FROM onbeat_secret JOIN onbeat_secret_part ON secret_id = onbeat_secret.id")
        assert kept.key[6:] not in str(cursor.fetchall())
    assert kept.key not in repr(kept)


def test_the_value_of_a_header_is_opened_for_its_header_alone(noon: datetime) -> None:
    kept = kept_secrets.keep("token", SecretUse.HEADER, value="Bearer abc", now=noon)
    target = HttpTarget("https://example.com", headers={"Authorization": {"secret": "token"}, "X-A": "b"})
    found = kept_secrets.material(target, HOST, now=noon)
    assert (kept.key, dict(found.headers), found.signing_keys) == ("", {"Authorization": "Bearer abc"}, ())
    assert "abc" not in repr(found)


def test_the_key_before_a_new_one_is_used_beside_it_until_its_end(noon: datetime) -> None:
    old = kept_secrets.keep("billing", SecretUse.SIGNING, now=noon).key
    new = kept_secrets.replace("billing", overlap=DAY, now=noon).key
    assert keys(noon) == (new, old)
    assert keys(noon + DAY) == (new,)
    newest = kept_secrets.replace("billing", overlap=timedelta(0), now=noon + DAY).key
    assert keys(noon + DAY) == (newest,)
    assert SecretPart.objects.count() == 2  # what had ended before is gone


def test_another_value_of_a_header_takes_the_place_of_the_first(noon: datetime) -> None:
    kept_secrets.keep("token", SecretUse.HEADER, value="one", now=noon)
    kept_secrets.replace("token", value="two", now=noon)
    target = HttpTarget("https://example.com", headers={"X-Token": {"secret": "token"}})
    assert dict(kept_secrets.material(target, HOST, now=noon).headers) == {"X-Token": "two"}
    assert SecretPart.objects.count() == 1


def test_keys_do_not_pile_up(noon: datetime) -> None:
    kept_secrets.keep("billing", SecretUse.SIGNING, now=noon)
    for _ in range(kept_secrets.MOST_KEYS - 1):
        kept_secrets.replace("billing", now=noon)
    with pytest.raises(InvalidSecret, match="5 keys in use already"):
        kept_secrets.replace("billing", now=noon)


@pytest.mark.parametrize(
    ("use", "value"),
    [
        (SecretUse.HEADER, ""),
        (SecretUse.HEADER, "two\r\nX-Evil: lines"),
        (SecretUse.HEADER, "Zoë-s3cret"),
        (SecretUse.HEADER, "s3cret" * 1000),
        (SecretUse.SIGNING, "too-short-s3cret"),
        (SecretUse.SIGNING, "whsec_czNjcmV0"),
    ],
)
def test_a_value_that_cannot_be_is_refused_and_not_shown(use: SecretUse, value: str) -> None:
    with pytest.raises(InvalidSecret) as refused:
        kept_secrets.keep("billing", use, value=value)
    assert not value or value[:5] not in str(refused.value)
    assert Secret.objects.count() == 0


@pytest.mark.parametrize("name", ["", "a b", "-a", "é", "x" * 101, "a/b", "a\n"])
def test_a_name_that_cannot_be_is_refused(name: str) -> None:
    with pytest.raises(InvalidSecret, match="must be 1 to 100 letters"):
        kept_secrets.keep(name, SecretUse.SIGNING)


def test_a_name_is_kept_once(noon: datetime) -> None:
    first = kept_secrets.keep("billing", SecretUse.SIGNING, now=noon).key
    with pytest.raises(InvalidSecret, match="There is a secret 'billing' already"):
        kept_secrets.keep("billing", SecretUse.SIGNING)
    assert keys(noon) == (first,)


def test_a_job_that_names_no_secret_that_is_kept_is_refused_with_the_nearest(noon: datetime) -> None:
    kept_secrets.keep("billing", SecretUse.SIGNING, now=noon)
    kept_secrets.keep("token", SecretUse.HEADER, value="abc", now=noon)
    wrong: dict[str, Any] = {
        "There is no secret 'biling'; did you mean 'billing'?": {"secret": "biling"},
        "The secret 'token' is for header, not for signing; name another.": {"secret": "token"},
        "The secret 'billing' is for signing, not for header; name another.": {
            "headers": {"X-A": {"secret": "billing"}}
        },
    }
    for said, fields in wrong.items():
        with pytest.raises(Refused) as refused:
            definitions.create(key="x", http=HttpTarget("https://example.com", **fields), now=noon)
        assert str(refused.value) == said


def test_what_an_open_job_names_cannot_be_removed(noon: datetime) -> None:
    kept_secrets.keep("billing", SecretUse.SIGNING, now=noon)
    job = definitions.create(key="invoice", http=SIGNED, now=noon)
    with pytest.raises(SecretInUse, match="'billing' is used by invoice; change or archive them first"):
        kept_secrets.remove("billing")
    definitions.archive(job, now=noon)
    kept_secrets.remove("billing")
    assert SecretPart.objects.count() == 0
    with pytest.raises(NoSuchSecret):
        kept_secrets.remove("billing")


def test_keys_of_the_encryption_can_be_replaced(noon: datetime, settings: Any) -> None:
    kept = kept_secrets.keep("billing", SecretUse.SIGNING, now=noon)
    settings.ONBEAT_CALLBACKS_SECRET_KEYS = ["n" * 40]
    assert keys(noon) == (kept.key,)  # the one that follows from SECRET_KEY still opens
    assert kept_secrets.reseal() == 1
    settings.SECRET_KEY = "another"
    assert keys(noon) == (kept.key,)
    settings.ONBEAT_CALLBACKS_SECRET_KEYS = ["m" * 40]
    with pytest.raises(vault.CannotOpen, match="ONBEAT_CALLBACKS_SECRET_KEYS"):
        keys(noon)


def test_nothing_is_sealed_with_a_key_that_dies_with_the_process(settings: Any) -> None:
    settings.SECRET_KEY_IS_KEPT = False
    with pytest.raises(InvalidSecret, match="set ONBEAT_CALLBACKS_SECRET_KEYS"):
        kept_secrets.keep("billing", SecretUse.SIGNING)
    assert Secret.objects.count() == 0


def test_a_secret_may_be_for_some_hosts_alone(noon: datetime) -> None:
    kept_secrets.keep("billing", SecretUse.SIGNING, hosts=["Example.com", "[2606:4700::1111]"], now=noon)
    assert Secret.objects.get().hosts == ["2606:4700::1111", "example.com"]
    definitions.create(key="ours", http=SIGNED, now=noon)
    with pytest.raises(InvalidSecret, match=r"'billing' is not for evil\.example; an admin can add that host"):
        definitions.create(key="theirs", http=HttpTarget("https://evil.example/", secret="billing"), now=noon)
    with pytest.raises(LookupError, match=r"'billing' is not for evil\.example"):
        kept_secrets.material(SIGNED, "evil.example", now=noon)
    kept_secrets.replace("billing", now=noon)
    assert Secret.objects.get().hosts == ["2606:4700::1111", "example.com"]
    kept_secrets.replace("billing", hosts=[], now=noon)
    assert Secret.objects.get().hosts == []


@pytest.mark.parametrize("host", ["https://example.com", "example.com/x", "0x7f.1", "a b", "", "exämple.com"])
def test_a_host_that_cannot_be_is_refused(host: str, noon: datetime) -> None:
    with pytest.raises(InvalidSecret, match="The host"):
        kept_secrets.keep("billing", SecretUse.SIGNING, hosts=[host], now=noon)
    assert Secret.objects.count() == 0
