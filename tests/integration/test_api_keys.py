"""API keys: the secret is known to its owner alone, and what is over opens nothing."""

import hashlib
import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from pytest_django import DjangoAssertNumQueries

from access import api_keys, audit
from access.api_keys import Denied, InvalidKey, Made
from access.models import ApiKey, AuditEntry
from access.roles import Role
from tests.tiers import once_embedded

pytestmark = [pytest.mark.django_db, once_embedded]
SECONDS = timedelta(seconds=1)


@pytest.fixture
def made(noon: datetime) -> Made:
    return api_keys.make(name="billing server", role=Role.EDITOR, by="ada", now=noon)


def stored() -> str:
    """All there is about keys in the database, as text."""
    return repr([list(ApiKey.objects.values()), list(AuditEntry.objects.values())])


def refusal(noon: datetime, **said: Any) -> InvalidKey:
    with pytest.raises(InvalidKey) as refused:
        api_keys.make(**{"name": "billing", "role": "viewer", "now": noon, **said})
    assert str(refused.value).isprintable()
    assert str(refused.value).endswith(".")
    assert not ApiKey.objects.exists()
    assert not AuditEntry.objects.exists()
    return refused.value


# ── Make ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_secret_names_its_key_and_has_256_bits_without_an_underscore(made: Made) -> None:
    product, prefix, random = made.secret.split("_")
    assert (product, prefix) == ("onbeat", made.key.prefix)
    assert re.fullmatch("[a-z0-9]{12}", prefix)
    assert re.fullmatch("[a-zA-Z0-9]{43}", random)
    assert 62**43 >= 2**256
    assert len(made.secret) <= 64


def test_what_was_asked_for_is_stored(made: Made, noon: datetime) -> None:
    key = ApiKey.objects.get()
    assert (key.name, key.role, key.created_at, key.created_by) == ("billing server", "editor", noon, "ada")
    assert key.digest == hashlib.sha256(made.secret.encode()).hexdigest()
    assert key.expires_at is key.revoked_at is key.last_used_at is None


def test_the_secret_is_nowhere_but_in_the_answer(made: Made, caplog: pytest.LogCaptureFixture) -> None:
    random = made.secret.split("_")[2]
    assert random not in stored()
    assert random not in repr(made)
    assert random not in str(made)
    assert random not in caplog.text


def test_the_audit_trail_tells_of_it_without_secret_and_digest(made: Made, noon: datetime) -> None:
    entry = AuditEntry.objects.get()
    assert (entry.at, entry.who, entry.through) == (noon, "ada", "python")
    assert (entry.action, entry.subject) == ("api_key.create", f"api_key:{made.key.prefix}")
    assert entry.before is None
    assert entry.after == {"name": "billing server", "role": "editor", "expires_at": None}
    assert made.key.digest not in repr(AuditEntry.objects.values())


def test_no_two_are_alike(noon: datetime) -> None:
    made = [api_keys.make(name="same", role="viewer", now=noon) for _ in range(20)]
    assert len({one.secret for one in made}) == len({one.key.prefix for one in made}) == 20


def test_spaces_around_a_name_are_taken_off(noon: datetime) -> None:
    assert api_keys.make(name="  Büro 1 ", role="viewer", now=noon).key.name == "Büro 1"


@pytest.mark.parametrize("name", ["n" * 100, "日本", "<script>alert(1)</script>", "O'Neill; DROP TABLE"])
def test_a_name_may_be_any_text_that_can_be_shown(noon: datetime, name: str) -> None:
    assert ApiKey.objects.get(pk=api_keys.make(name=name, role="viewer", now=noon).key.pk).name == name


@pytest.mark.parametrize(
    ("said", "field", "says"),
    [
        ({"name": ""}, "name", "needs a name; say what it is for"),
        ({"name": " \t\n"}, "name", "needs a name; say what it is for"),
        ({"name": "n" * 101}, "name", "has 101 characters; use at most 100"),
        ({"name": "a\x00b"}, "name", r"'a\x00b' holds characters that cannot be shown"),
        ({"name": "a\ud800b"}, "name", "cannot be shown; leave them out"),
        ({"name": "a\nb"}, "name", "cannot be shown; leave them out"),
        ({"name": None}, "name", "name must be text, not NoneType."),
        ({"by": 7}, "by", "by must be text, not int."),
        ({"role": "owner"}, "role", "There is no role 'owner'; choose one of viewer, operator, editor, admin."),
        ({"role": "Viewer"}, "role", "There is no role 'Viewer'"),
        ({"role": None}, "role", "There is no role None"),
        ({"role": []}, "role", "There is no role []"),
        ({"expires_at": datetime(2027, 1, 1)}, "expires_at", "must be a moment with a time zone"),  # noqa: DTZ001
        ({"expires_at": "2027-01-01"}, "expires_at", "must be a moment with a time zone, not '2027-01-01'."),
        ({"expires_at": datetime(2026, 6, 15, 12, tzinfo=UTC)}, "expires_at", "is past; choose a later one, or none."),
        ({"expires_at": datetime(1, 1, 1, tzinfo=timezone(14 * 3600 * SECONDS))}, "expires_at", "cannot be kept"),
        ({"expires_at": datetime(9999, 12, 31, 23, tzinfo=timezone(-SECONDS * 36000))}, "expires_at", "cannot be kept"),
    ],
)
def test_what_cannot_be_is_refused_with_the_remedy(noon: datetime, said: dict[str, Any], field: str, says: str) -> None:
    refused = refusal(noon, **said)
    assert refused.field == field
    assert says in str(refused)


def test_without_its_entry_in_the_audit_trail_no_key_is_made(noon: datetime, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_facts: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(audit, "record", fail)
    with pytest.raises(ZeroDivisionError):
        api_keys.make(name="billing", role="viewer", now=noon)
    assert not ApiKey.objects.exists()


def test_who_asked_may_have_an_odd_or_long_name(noon: datetime) -> None:
    made = api_keys.make(name="billing", role="viewer", by="a\x00\ud800" + "b" * 300, now=noon)
    assert ApiKey.objects.get().created_by == made.key.created_by == "a␀?" + "b" * 197


def test_left_out_the_time_is_the_databases() -> None:
    made = api_keys.make(name="billing", role="viewer")
    assert abs(made.key.created_at - datetime.now(UTC)) < timedelta(minutes=1)
    assert AuditEntry.objects.get().at == made.key.created_at


def test_no_key_has_a_role_that_is_not_known(made: Made) -> None:
    with pytest.raises(IntegrityError, match="onbeat_api_key_role_known"), transaction.atomic():
        ApiKey.objects.update(role="owner")


# ── Find ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_key_is_found_by_its_secret_with_one_query(
    made: Made, noon: datetime, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_num_queries(1):
        assert api_keys.find(made.secret, now=noon) == made.key


@pytest.mark.parametrize("place", [0, 7, 18, 19, 20, 40, 62])
def test_a_secret_that_differs_anywhere_is_not_known(made: Made, noon: datetime, place: int) -> None:
    other = "x" if made.secret[place] != "x" else "y"
    secret = made.secret[:place] + other + made.secret[place + 1 :]
    assert api_keys.find(secret, now=noon) is Denied.UNKNOWN


@pytest.mark.parametrize(
    "form",
    [
        "",
        "{}\n",
        " {}",
        "{}\x00",
        "\x00{}",
        "{}\ud800",
        "{}é",
        "{}x",
        "{}" * 2,
        "Bearer {}",
        "x" * 10_000_000,
        "onbeat_",
    ],
)
def test_odd_text_is_not_known_and_no_error(made: Made, noon: datetime, form: str) -> None:
    assert api_keys.find(form.replace("{}", made.secret), now=noon) is Denied.UNKNOWN


@pytest.mark.parametrize("letter", ["٣", "ａ", "ß", "_", "-", "\x00"])
def test_letters_that_no_secret_has_are_not_known(made: Made, noon: datetime, letter: str) -> None:
    for place in (7, 30):
        secret = made.secret[:place] + letter + made.secret[place + 1 :]
        assert api_keys.find(secret, now=noon) is Denied.UNKNOWN


def test_the_secret_of_one_key_does_not_open_another(made: Made, noon: datetime) -> None:
    other = api_keys.make(name="other", role="admin", now=noon)
    mixed = f"onbeat_{other.key.prefix}_{made.secret.split('_')[2]}"
    assert api_keys.find(mixed, now=noon) is Denied.UNKNOWN


def test_a_key_opens_until_its_end_and_no_longer(noon: datetime) -> None:
    end = noon + timedelta(days=30)
    made = api_keys.make(name="billing", role="viewer", expires_at=end, now=noon)
    assert api_keys.find(made.secret, now=end - timedelta(microseconds=1)) == made.key
    assert api_keys.find(made.secret, now=end) is Denied.EXPIRED
    assert [made.key.state(moment) for moment in (noon, end)] == ["valid", "expired"]
    assert [ApiKey.objects.valid(moment).count() for moment in (noon, end)] == [1, 0]


def test_a_revoked_key_opens_nothing_and_says_so_to_who_knows_the_secret(made: Made, noon: datetime) -> None:
    api_keys.revoke(made.key.prefix, now=noon)
    assert api_keys.find(made.secret, now=noon) is Denied.REVOKED
    assert api_keys.find(made.secret[:-1] + "_", now=noon) is Denied.UNKNOWN
    guess = made.secret[:20] + "A" * 43
    assert api_keys.find(guess, now=noon) is Denied.UNKNOWN


def test_a_key_that_is_both_over_and_revoked_says_that_it_was_revoked(noon: datetime) -> None:
    made = api_keys.make(name="billing", role="viewer", expires_at=noon + SECONDS, now=noon)
    key = api_keys.revoke(made.key.prefix, now=noon)
    assert api_keys.find(made.secret, now=noon + 2 * SECONDS) is Denied.REVOKED
    assert key.state(noon + 2 * SECONDS) == "revoked"


def test_each_denial_is_a_sentence_that_says_what_to_do() -> None:
    assert [*Denied] == [
        "The API key is not known; check that it was copied whole.",
        "The API key expired; ask for a new one.",
        "The API key was revoked; ask for a new one.",
    ]


# ── Note its use ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_use_is_noted_at_most_once_a_minute(made: Made, noon: datetime) -> None:
    noted = []
    for seconds in (0, 1, 59, 60, 61, 119, 120, 1000):
        api_keys.note_use(ApiKey.objects.get(), now=noon + seconds * SECONDS)
        moment = ApiKey.objects.get().last_used_at
        assert moment is not None
        noted.append((moment - noon).total_seconds())
    assert noted == [0, 0, 0, 60, 60, 60, 120, 1000]


def test_two_who_read_the_key_before_either_noted_its_use_note_it_once(made: Made, noon: datetime) -> None:
    one, other = ApiKey.objects.get(), ApiKey.objects.get()
    api_keys.note_use(one, now=noon)
    api_keys.note_use(other, now=noon + SECONDS)
    assert ApiKey.objects.get().last_used_at == noon


def test_a_use_that_need_not_be_noted_costs_no_query(
    made: Made, noon: datetime, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    api_keys.note_use(made.key, now=noon)
    key = ApiKey.objects.get()
    with django_assert_num_queries(0):
        api_keys.note_use(key, now=noon + 59 * SECONDS)


def test_the_use_of_a_key_that_is_gone_is_no_error(made: Made, noon: datetime) -> None:
    ApiKey.objects.all()._raw_delete("default")
    api_keys.note_use(made.key, now=noon)


def test_noting_a_use_changes_nothing_else(made: Made, noon: datetime) -> None:
    read_before = ApiKey.objects.get()
    api_keys.revoke(made.key.prefix, by="bob", now=noon)
    api_keys.note_use(read_before, now=noon)
    key = ApiKey.objects.get()
    assert (key.revoked_at, key.revoked_by, key.last_used_at) == (noon, "bob", noon)


# ── Revoke ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_revoking_is_told_once_with_who_and_when(made: Made, noon: datetime) -> None:
    key = api_keys.revoke(made.key.prefix, by="bob", through="rest", now=noon + SECONDS)
    assert (key.revoked_at, key.revoked_by) == (noon + SECONDS, "bob")
    entry = AuditEntry.objects.get(action="api_key.revoke")
    assert (entry.at, entry.who, entry.through) == (noon + SECONDS, "bob", "rest")
    assert entry.subject == f"api_key:{key.prefix}"
    assert (entry.before, entry.after) == ({"revoked_at": None}, {"revoked_at": "2026-06-15T12:00:01Z"})


def test_revoking_again_changes_nothing(made: Made, noon: datetime) -> None:
    api_keys.revoke(made.key.prefix, by="bob", now=noon)
    before = stored()
    key = api_keys.revoke(made.key.prefix, by="eve", now=noon + SECONDS)
    assert (key.revoked_at, key.revoked_by) == (noon, "bob")
    assert stored() == before


def test_a_key_can_be_revoked_by_its_secret_as_it_was_found(made: Made, noon: datetime) -> None:
    assert api_keys.revoke(made.secret, now=noon) == made.key
    assert made.secret.split("_")[2] not in stored()


def test_only_the_named_key_is_revoked(made: Made, noon: datetime) -> None:
    other = api_keys.make(name="other", role="viewer", now=noon)
    api_keys.revoke(other.key.prefix, now=noon)
    assert api_keys.find(made.secret, now=noon) == made.key


@pytest.mark.parametrize("prefix", ["", "nope", "a\x00b", "\ud800", "A" * 1000, "%", "' OR 1=1"])
def test_an_unknown_prefix_is_refused_with_how_to_list_them(made: Made, noon: datetime, prefix: str) -> None:
    before = stored()
    with pytest.raises(
        InvalidKey, match=r"There is no API key .*; `\./onbeat api_keys list --all` shows all"
    ) as refused:
        api_keys.revoke(prefix, now=noon)
    assert refused.value.field == "prefix"
    assert str(refused.value).isprintable()
    assert stored() == before


def test_a_refusal_does_not_repeat_a_secret_with_a_mistake_in_it(made: Made, noon: datetime) -> None:
    with pytest.raises(InvalidKey) as refused:
        api_keys.revoke(f"{made.secret}.", now=noon)
    assert made.secret.split("_")[2] not in str(refused.value)
    assert made.key.prefix in str(refused.value)


def test_without_its_entry_in_the_audit_trail_no_key_is_revoked(
    made: Made, noon: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(**_facts: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(audit, "record", fail)
    with pytest.raises(ZeroDivisionError):
        api_keys.revoke(made.key.prefix, now=noon)
    assert ApiKey.objects.get().revoked_at is None


def test_reports_of_errors_leave_the_secret_out(
    made: Made, noon: datetime, monkeypatch: pytest.MonkeyPatch, rf: Any
) -> None:
    from django.views.debug import ExceptionReporter

    def fail(_secret: str) -> str:
        raise ZeroDivisionError

    monkeypatch.setattr(api_keys, "_digest", fail)
    try:
        api_keys.find(made.secret, now=noon)
    except ZeroDivisionError as error:
        frames = ExceptionReporter(rf.get("/"), type(error), error, error.__traceback__).get_traceback_frames()
    (frame,) = [frame for frame in frames if frame["function"] == "find"]
    assert made.secret.split("_")[2] not in repr(frame["vars"])
