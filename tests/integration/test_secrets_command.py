"""`secrets`: it keeps, lists, removes and reseals, shows a new signing key once, and refuses in a sentence."""

import io
import json
import sys
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from access.models import AuditEntry
from executions.clock import database_now
from jobs import definitions, kept_secrets, vault
from jobs.http_target import HttpTarget
from jobs.models import Secret, SecretPart
from tests.tiers import once_embedded

pytestmark = [pytest.mark.django_db, once_embedded]
SIGNED = HttpTarget("https://example.com/", secret="billing")
WITH_TOKEN = HttpTarget("https://example.com/", headers={"Authorization": {"secret": "token"}})


@pytest.fixture(autouse=True)
def _as_anna(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "anna")


def run(*arguments: str) -> list[str]:
    output = StringIO()
    call_command("secrets", *arguments, stdout=output, stderr=StringIO())
    return output.getvalue().splitlines()


def refusal(*arguments: str) -> str:
    with pytest.raises(CommandError) as error:
        run(*arguments)
    assert error.value.returncode == 2
    return str(error.value)


def material(target: HttpTarget) -> Any:
    return kept_secrets.material(target, "example.com", now=database_now())


def test_a_signing_key_is_made_and_shown_once() -> None:
    told, once, key = run("keep", "billing", "--use", "signing")
    assert told == "Kept the secret billing, for signing."
    assert "shown only this once" in once
    assert material(SIGNED).signing_keys == (key,)
    assert key not in "".join(run("list") + run("list", "--json"))


def test_a_signing_key_is_replaced_with_an_overlap() -> None:
    *_, old = run("keep", "billing", "--use", "signing")
    told, _, new = run("keep", "billing", "--use", "signing")
    assert told == "Replaced the secret billing, for signing."
    assert material(SIGNED).signing_keys == (new, old)
    *_, newest = run("keep", "billing", "--use", "signing", "--overlap-hours", "0")
    assert material(SIGNED).signing_keys == (newest,)


def test_a_value_is_read_from_a_file_without_its_last_line_end(tmp_path: Path) -> None:
    file = tmp_path / "value"
    file.write_text("Bearer 7b1f\n")
    assert run("keep", "token", "--use", "header", "--value-from", str(file)) == ["Kept the secret token, for header."]
    assert dict(material(WITH_TOKEN).headers) == {"Authorization": "Bearer 7b1f"}


def test_a_value_is_read_from_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("Bearer 7b1f\n"))
    run("keep", "token", "--use", "header", "--value-from", "-")
    assert dict(material(WITH_TOKEN).headers) == {"Authorization": "Bearer 7b1f"}


def test_a_value_is_asked_for_and_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr("getpass.getpass", lambda words: asked.append(words) or "Bearer 7b1f")
    assert run("keep", "token", "--use", "header") == ["Kept the secret token, for header."]
    assert asked == ["The value, which is not shown: "]


def test_json_has_the_new_key_and_nothing_that_was_given(tmp_path: Path) -> None:
    (line,) = run("keep", "billing", "--use", "signing", "--json")
    said = json.loads(line)
    assert said.pop("key").startswith("whsec_")
    assert said == {"name": "billing", "use": "signing", "is_new": True}
    file = tmp_path / "value"
    file.write_text("hunter2")
    (line,) = run("keep", "token", "--use", "header", "--value-from", str(file), "--json")
    assert json.loads(line) == {"name": "token", "use": "header", "is_new": True}


def test_the_list_tells_names_uses_keys_and_hosts() -> None:
    assert run("list") == ["There is no secret; `./onbeat secrets keep NAME --use signing` makes one."]
    run("keep", "billing", "--use", "signing", "--host", "Example.com", "--host", "b.example")
    run("keep", "billing", "--use", "signing")
    heads, row = run("list")
    assert heads.split() == ["NAME", "USE", "KEYS", "HOSTS", "CHANGED", "BY"]
    assert row.split()[:5] == ["billing", "signing", "2", "b.example,", "example.com"]
    assert row.endswith(" anna")
    (line,) = run("list", "--json")
    assert json.loads(line)["secrets"][0]["hosts"] == ["b.example", "example.com"]


def test_the_audit_trail_tells_who_did_what_and_no_value() -> None:
    *_, key = run("keep", "billing", "--use", "signing")
    run("keep", "billing", "--use", "signing")
    run("remove", "billing")
    entries = AuditEntry.objects.order_by("pk")
    assert [(entry.who, entry.through, entry.action, entry.subject) for entry in entries] == [
        ("anna", "command", f"secret.{action}", "secret:billing") for action in ("create", "replace", "remove")
    ]
    assert key[6:] not in str(list(entries.values()))


def test_every_verb_has_json(settings: Any) -> None:
    run("keep", "billing", "--use", "signing")
    settings.ONBEAT_CALLBACKS_SECRET_KEYS = ["n" * 32]
    assert [json.loads(line) for line in run("reseal", "--json")] == [{"sealed": 1}]
    assert [json.loads(line) for line in run("remove", "billing", "--json")] == [{"removed": "billing"}]


def test_sealing_anew_is_told_in_the_audit_trail(settings: Any) -> None:
    run("keep", "billing", "--use", "signing")
    settings.ONBEAT_CALLBACKS_SECRET_KEYS = ["n" * 32]
    run("reseal", "--by", "ops")
    entry = AuditEntry.objects.get(action="secret.reseal")
    assert (entry.who, entry.through, entry.subject, entry.after) == ("ops", "command", "secrets", {"sealed": 1})


def test_what_a_job_names_is_not_removed() -> None:
    run("keep", "billing", "--use", "signing")
    definitions.create(key="invoices", http=SIGNED)
    assert refusal("remove", "billing") == ("The secret 'billing' is used by invoices; change or archive them first.")
    assert Secret.objects.count() == 1


def test_what_is_sealed_anew_opens_with_the_new_key_alone(settings: Any) -> None:
    *_, key = run("keep", "billing", "--use", "signing")
    settings.ONBEAT_CALLBACKS_SECRET_KEYS = ["n" * 32]
    assert run("reseal") == ["Sealed 1 values anew with the first key."]
    settings.SECRET_KEY = "another"
    assert material(SIGNED).signing_keys == (key,)
    settings.ONBEAT_CALLBACKS_SECRET_KEYS = []
    with pytest.raises(vault.CannotOpen):
        material(SIGNED)
    assert refusal("reseal") == (
        "Nothing was changed: 'billing' cannot be opened, it was sealed with another key; "
        "see ONBEAT_CALLBACKS_SECRET_KEYS."
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["keep", "a b", "--use", "signing"], "The name 'a b' must be 1 to 100 letters"),
        (["keep", "x", "--use", "signing", "--overlap-hours", "-1"], "The overlap must be a number of hours from 0"),
        (["keep", "x", "--use", "signing", "--overlap-hours", "nan"], "The overlap must be a number of hours from 0"),
        (["keep", "x", "--use", "signing", "--host", "https://a.example"], "The host 'https://a.example' must be"),
        (["keep", "x", "--use", "header", "--value-from", "/nowhere"], "cannot be read from /nowhere: No such file"),
        (["keep", "x", "--use", "signing", "--value-from", "/dev/null"], "cannot be read from /dev/null: it is empty"),
        (["remove", "x"], "There is no secret 'x'"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(words: list[str], said: str) -> None:
    assert said in refusal(*words)
    assert SecretPart.objects.count() == 0


def test_an_old_key_that_has_ended_is_not_counted() -> None:
    run("keep", "billing", "--use", "signing")
    run("keep", "billing", "--use", "signing", "--overlap-hours", "1")
    SecretPart.objects.exclude(ends_at=None).update(ends_at=database_now() - timedelta(seconds=1))
    assert run("list")[1].split()[2] == "1"
