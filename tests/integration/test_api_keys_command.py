"""`api_keys`: it makes, lists and revokes keys, shows a secret once, and refuses in one sentence."""

import getpass
import json
import re
from datetime import UTC, datetime, timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from access import api_keys
from access.models import ApiKey, AuditEntry
from executions.clock import database_now
from tests.tiers import once_embedded

pytestmark = [pytest.mark.django_db, once_embedded]
SECRET = re.compile("onbeat_[a-z0-9]{12}_[a-zA-Z0-9]{43}")


@pytest.fixture(autouse=True)
def _as_anna(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "anna")


def run(*arguments: str) -> list[str]:
    output = StringIO()
    call_command("api_keys", *arguments, stdout=output, stderr=StringIO())
    return output.getvalue().splitlines()


def create(*options: str, name: str = "billing server", role: str = "editor") -> list[str]:
    return run("create", "--name", name, "--role", role, *options)


def refusal(*arguments: str) -> str:
    with pytest.raises(CommandError) as error:
        run(*arguments)
    assert error.value.returncode == 2
    text = str(error.value)
    assert text.isprintable()
    assert text.endswith(".")
    return text


# ── Create ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_secret_is_shown_once_and_the_output_says_so() -> None:
    told, warning, secret = create()
    key = ApiKey.objects.get()
    assert told == f"Made the API key billing server ({key.prefix}): editor, does not expire."
    assert "it is shown only this once" in warning
    assert SECRET.fullmatch(secret)
    assert api_keys.find(secret, now=database_now()) == key
    assert secret not in "".join(run("list", "--all")) + "".join(run("list", "--all", "--json"))


def test_who_and_through_what_is_kept() -> None:
    create()
    entry = AuditEntry.objects.get()
    assert (ApiKey.objects.get().created_by, entry.who, entry.through) == ("anna", "anna", "command")


def test_who_it_is_for_somebody_else_says_so() -> None:
    create("--by", "the deploy")
    assert ApiKey.objects.get().created_by == "the deploy"


def test_a_user_without_a_name_is_told_by_number(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> str:
        raise KeyError("getpwuid(): uid not found: 1234")

    monkeypatch.setattr(getpass, "getuser", fail)
    monkeypatch.setattr("os.getuid", lambda: 1234)
    create()
    assert ApiKey.objects.get().created_by == "user 1234"


def test_json_is_one_line_with_the_secret_and_the_warning_stands_beside_it() -> None:
    output, errors = StringIO(), StringIO()
    options = ["--name", "ci", "--role", "viewer", "--json"]
    call_command("api_keys", "create", *options, stdout=output, stderr=errors)
    facts = json.loads(output.getvalue())
    key = ApiKey.objects.get()
    assert output.getvalue().count("\n") == 1
    assert "it is shown only this once" in errors.getvalue()
    assert not SECRET.search(errors.getvalue())
    assert api_keys.find(facts.pop("secret"), now=database_now()) == key
    assert datetime.fromisoformat(facts.pop("created_at")) == key.created_at
    assert facts == {
        "prefix": key.prefix,
        "name": "ci",
        "role": "viewer",
        "state": "valid",
        "created_by": "anna",
        "expires_at": None,
        "revoked_at": None,
        "revoked_by": "",
        "last_used_at": None,
    }


@pytest.mark.parametrize(
    ("said", "end"),
    [
        ("2999-01-31", datetime(2999, 2, 1, tzinfo=UTC)),
        ("2999-01-31T18:00", datetime(2999, 1, 31, 18, tzinfo=UTC)),
        ("2999-01-31T18:00Z", datetime(2999, 1, 31, 18, tzinfo=UTC)),
        ("2999-01-31T18:00+02:00", datetime(2999, 1, 31, 16, tzinfo=UTC)),
    ],
)
def test_a_day_is_meant_whole_and_a_time_is_utc_unless_it_says_otherwise(said: str, end: datetime) -> None:
    told, *_ = create("--expires", said)
    assert ApiKey.objects.get().expires_at == end
    assert told.endswith(f"expires at {end:%Y-%m-%d %H:%M} UTC.")


def test_a_key_for_so_many_days_expires_then() -> None:
    create("--days", "90")
    key = ApiKey.objects.get()
    assert key.expires_at == key.created_at + timedelta(days=90)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--name", "", "--role", "viewer"], "The key needs a name"),
        (["--name", "n" * 101, "--role", "viewer"], "use at most 100"),
        (["--name", "a\x00", "--role", "viewer"], "cannot be shown"),
        (["--name", "ci", "--role", "root"], "There is no role 'root'; choose one of viewer, operator, editor, admin."),
        (["--name", "ci", "--role", "viewer", "--expires", "2020-01-01"], "is past; choose a later one, or none."),
        (["--name", "ci", "--role", "viewer", "--expires", "soon"], "--expires 'soon' is no date; write one such as"),
        (["--name", "ci", "--role", "viewer", "--expires", "9999-12-31"], "is too far; leave it out"),
        (["--name", "ci", "--role", "viewer", "--days", "0"], "is past; choose a later one, or none."),
        (["--name", "ci", "--role", "viewer", "--days", "-3"], "is past; choose a later one, or none."),
        (
            ["--name", "ci", "--role", "viewer", "--days", "9" * 12],
            "is too far; leave it out for a key without an end.",
        ),
    ],
)
def test_a_refusal_is_one_sentence_and_exit_code_2(options: list[str], says: str) -> None:
    assert says in refusal("create", *options)
    assert not ApiKey.objects.exists()


def test_a_date_and_days_are_not_taken_together() -> None:
    with pytest.raises(CommandError, match="--expires and --days exclude each other"):
        create("--days", "3", "--expires", "2999-01-01")
    assert not ApiKey.objects.exists()


# ── List ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def three(noon: datetime) -> tuple[str, str, str]:
    """The prefixes of a valid key, one that expired and one that was revoked."""
    valid = api_keys.make(name="valid one", role="viewer", now=noon).key
    expired = api_keys.make(name="expired one", role="operator", expires_at=noon + timedelta(hours=1), now=noon).key
    revoked = api_keys.make(name="revoked one", role="admin", now=noon).key
    api_keys.revoke(revoked.prefix, by="bob", now=noon)
    api_keys.note_use(valid, now=noon + timedelta(minutes=5))
    return valid.prefix, expired.prefix, revoked.prefix


def test_the_list_shows_what_is_valid(noon: datetime) -> None:
    valid, _, _ = three(noon)
    assert run("list") == [
        "PREFIX        ROLE    STATE  CREATED               EXPIRES  LAST USED             NAME",
        f"{valid}  viewer  valid  2026-06-15 12:00 UTC  never    2026-06-15 12:05 UTC  valid one",
    ]


def test_all_shows_also_what_is_over(noon: datetime) -> None:
    prefixes = three(noon)
    _, *lines = run("list", "--all")
    assert [line.split()[:3] for line in lines] == [
        [prefixes[0], "viewer", "valid"],
        [prefixes[1], "operator", "expired"],
        [prefixes[2], "admin", "revoked"],
    ]


def test_the_list_as_json_is_one_object(noon: datetime) -> None:
    prefixes = three(noon)
    (line,) = run("list", "--json")
    assert [key["prefix"] for key in json.loads(line)["api_keys"]] == [prefixes[0]]
    (line,) = run("list", "--all", "--json")
    keys = json.loads(line)["api_keys"]
    assert [(key["prefix"], key["state"]) for key in keys] == [
        *zip(prefixes, ("valid", "expired", "revoked"), strict=True)
    ]
    assert keys[0]["last_used_at"] == "2026-06-15T12:05:00+00:00"
    assert (keys[2]["revoked_at"], keys[2]["revoked_by"]) == ("2026-06-15T12:00:00+00:00", "bob")


def test_no_digest_is_listed(noon: datetime) -> None:
    three(noon)
    told = "".join(run("list", "--all") + run("list", "--all", "--json"))
    assert [digest for digest in ApiKey.objects.values_list("digest", flat=True) if digest in told] == []


def test_an_empty_list_says_how_to_make_one() -> None:
    assert run("list") == ["There is no valid API key; `./onbeat api_keys create` makes one."]
    assert run("list", "--all") == ["There is no API key; `./onbeat api_keys create` makes one."]
    assert run("list", "--json") == ['{"api_keys": []}']


# ── Revoke ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_key_is_revoked_by_its_prefix(noon: datetime) -> None:
    made = api_keys.make(name="ci", role="viewer", now=noon)
    assert run("revoke", made.key.prefix) == [
        f"Revoked the API key ci ({made.key.prefix}): it opens nothing from now on."
    ]
    assert api_keys.find(made.secret, now=noon) is api_keys.Denied.REVOKED
    entry = AuditEntry.objects.get(action="api_key.revoke")
    assert (ApiKey.objects.get().revoked_by, entry.who, entry.through) == ("anna", "anna", "command")


def test_a_key_that_was_revoked_before_is_told_as_such(noon: datetime) -> None:
    _, _, revoked = three(noon)
    assert run("revoke", revoked) == [
        f"The API key revoked one ({revoked}) was revoked by bob before, at 2026-06-15 12:00 UTC."
    ]


def test_revoking_as_json_is_one_object(noon: datetime) -> None:
    valid, _, _ = three(noon)
    (line,) = run("revoke", valid, "--json")
    facts = json.loads(line)
    assert (facts["prefix"], facts["state"], facts["revoked_by"]) == (valid, "revoked", "anna")


def test_an_unknown_prefix_is_refused_with_how_to_list_them() -> None:
    assert refusal("revoke", "nope") == "There is no API key 'nope'; `./onbeat api_keys list --all` shows all of them."


def test_the_help_says_what_each_role_may(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run("create", "--help")
    assert "operator: run, pause, cancel and replay" in " ".join(capsys.readouterr().out.split())
