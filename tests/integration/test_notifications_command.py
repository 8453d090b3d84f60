"""`notifications`: it makes, changes, shows, tests and removes, shows a new key once, and refuses in a sentence."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from access.models import AuditEntry
from executions.clock import database_now
from executions.models import Execution
from executions.states import State
from jobs import vault
from notifications import receivers
from notifications.models import Receiver
from terminal.notifications import looking
from tests.at_terminal import document, refusal, typed
from tests.delivering import deliver
from tests.making import a_job
from tests.notifying import ROUTING_KEY, a_receiver, fails, look
from tests.receiver import answer, receiving
from tests.tiers import once_embedded

pytestmark = [pytest.mark.django_db, once_embedded]
URL = "https://hooks.slack.com/services/T000/B000/xyzXYZxyz"


@pytest.fixture(autouse=True)
def _as_anna(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "anna")


@pytest.fixture
def url(tmp_path: Path) -> str:
    file = tmp_path / "url"
    file.write_text(f"{URL}\n")
    return str(file)


@pytest.fixture
def key(tmp_path: Path) -> str:
    file = tmp_path / "key"
    file.write_text(f"{ROUTING_KEY}\n")
    return str(file)


def test_a_receiver_is_made_and_its_key_shown_once(url: str) -> None:
    told, once, shown, test = typed("notifications", "create", "ops", "--url-from", url)
    assert told == (
        "Made the receiver ops, for https://hooks.slack.com. It is told dead letter, recovery, lateness of all jobs."
    )
    assert "shown only this once" in once
    assert shown.startswith("whsec_")
    assert "notifications test ops" in test
    everything = "".join(
        typed("notifications", "list")
        + typed("notifications", "show", "ops")
        + [str(document("notifications", "list"))]
    )
    assert "xyzXYZxyz" not in everything
    assert shown not in everything
    assert vault.opened(Receiver.objects.get().sealed_url) == URL


def test_pagerduty_needs_its_key_alone(key: str) -> None:
    said = document("notifications", "create", "duty", "--template", "pagerduty", "--routing-key-from", key)
    assert (said["to"], said["template"], "key" in said) == ("https://events.pagerduty.com", "pagerduty", False)
    assert ROUTING_KEY not in json.dumps(said)


def test_what_is_secret_is_asked_for_and_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(sys, "stdin", type("Terminal", (io.StringIO,), {"isatty": lambda _: True})())
    monkeypatch.setattr("getpass.getpass", lambda words: asked.append(words) or URL)
    typed("notifications", "create", "ops", "--template", "slack")
    assert asked == ["The URL, which is not shown: "]


def test_where_nobody_can_be_asked_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    assert "name a file with --url-from" in refusal("notifications", "create", "ops")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--event", "dead_leter"], "--event: There is no event 'dead_leter'; did you mean 'dead_letter'?"),
        (["--job", "dayly"], "--job: There is no job 'dayly'; did you mean 'daily'?"),
        (["--late-after", "soon"], "--late-after"),
        (["--late-after", "99d"], "--late-after must be 1 to 2592000"),
        (["--most-per-hour", "0"], "--most-per-hour must be 1 to 1000"),
        (["--secret", "nobody"], "--secret: There is no secret 'nobody'"),
        (["--routing-key-from", "/nowhere"], "--routing-key-from: It cannot be read from /nowhere"),
        (["--template", "teams"], "--template 'teams' is none of standard, slack, pagerduty"),
    ],
)
def test_what_cannot_be_is_refused_with_the_option_to_correct(url: str, words: list[str], said: str) -> None:
    a_job(key="daily", now=database_now())
    sentence = refusal("notifications", "create", "ops", "--url-from", url, *words)
    assert said in sentence


def test_a_change_names_what_changes(url: str) -> None:
    typed("notifications", "create", "ops", "--url-from", url)
    told = typed("notifications", "change", "ops", "--event", "failure", "--job", "billing.*", "--late-after", "10m")
    assert told == ["Changed the receiver ops. It is told failure of billing.*."]
    assert receivers.find("ops").late_after_seconds == 600
    assert document("notifications", "change", "ops", "--all-jobs")["jobs"] == []
    assert "Nothing was named" in refusal("notifications", "change", "ops")
    assert "exclude each other" in refusal("notifications", "change", "ops", "--all-jobs", "--job", "x*")
    assert "did you mean 'ops'?" in refusal("notifications", "change", "opps", "--all-jobs")


def test_the_audit_trail_tells_who_did_what_and_nothing_secret(url: str, key: str) -> None:
    typed("notifications", "create", "ops", "--url-from", url)
    typed("notifications", "change", "ops", "--most-per-hour", "5", "--url-from", url)
    typed("notifications", "change", "ops", "--most-per-hour", "5")  # as it is
    typed("notifications", "test", "ops", "--by", "bob")
    typed("notifications", "remove", "ops")
    entries = list(AuditEntry.objects.filter(subject="receiver:ops").order_by("pk"))
    assert [(entry.who, entry.through, entry.action) for entry in entries] == [
        ("anna", "command", "receiver.create"),
        ("anna", "command", "receiver.change"),
        ("bob", "command", "receiver.test"),
        ("anna", "command", "receiver.remove"),
    ]
    assert (entries[1].before, entries[1].after) == ({"most_per_hour": 20}, {"most_per_hour": 5})
    assert entries[1].note == "with another url"
    assert "xyzXYZxyz" not in str(list(AuditEntry.objects.values()))


def test_the_list_tells_how_the_last_one_went(noon: Any) -> None:
    assert typed("notifications", "list") == ["There is no receiver; `./onbeat notifications create NAME` makes one."]
    a_receiver(now=noon, events=["dead_letter", "recovery"], jobs=["billing.*"])
    fails(a_job(key="billing.daily", now=noon, max_attempts=1), noon)
    (notice,) = look(noon)
    _, row = typed("notifications", "list")
    words = " ".join(row.split())
    assert words.startswith("ops standard https://hooks.example.com dead_letter, recovery of billing.* ACTIVE")
    assert words.endswith("billing.daily is given up SCHEDULED")
    shown = typed("notifications", "show", "ops")
    assert any("billing.daily (dead letter)" in line for line in shown)
    assert shown[-1].endswith(str(notice.execution_id))
    (delivery,) = document("notifications", "show", "ops")["deliveries"]
    assert (delivery["event"], delivery["job"], delivery["state"]) == ("dead_letter", "billing.daily", "SCHEDULED")


@pytest.mark.parametrize(("status", "code", "said"), [(200, 0, "succeeded"), (404, 1, "given up")])
def test_a_test_is_followed_to_its_end(
    status: int, code: int, said: str, monkeypatch: pytest.MonkeyPatch, loopback_may_be_called: None
) -> None:
    waited = looking.wait_until_over

    def once_delivered(execution_id: Any, **options: Any) -> Any:
        deliver(Execution.objects.get(pk=execution_id))
        return waited(execution_id, **options)

    monkeypatch.setattr(looking, "wait_until_over", once_delivered)
    with receiving(answer(status)) as listening:
        a_receiver(now=database_now(), url=listening.url())
        output = io.StringIO()
        try:
            call_command("notifications", "test", "ops", "--wait", stdout=output)
            ended = 0
        except SystemExit as end:
            ended = int(str(end.code))
    assert (ended, said in output.getvalue()) == (code, True), output.getvalue()
    assert Execution.objects.get().state == (State.SUCCEEDED if status == 200 else State.DEAD)
    assert len(listening.sent) == 1


def test_a_timeout_without_waiting_is_refused() -> None:
    assert "--timeout is for --wait" in refusal("notifications", "test", "ops", "--timeout", "5s")
