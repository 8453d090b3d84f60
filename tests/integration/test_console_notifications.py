"""Receivers of notifications in the admin: made, changed, tried, removed; and nothing secret of them on any page."""

from datetime import datetime
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils.html import escape
from standardwebhooks import Webhook

from access.models import AuditEntry
from executions.models import Execution
from executions.states import State
from jobs import definitions, kept_secrets, vault
from jobs.models import SecretUse
from notifications import letters, receivers
from notifications.kinds import Template
from notifications.models import Notice, Receiver
from tests.integration.conftest import Queues
from tests.making import a_job
from tests.notifying import ROUTING_KEY, a_receiver, body, delivered, fails, look
from tests.receiver import receiving
from tests.tiers import once_embedded
from tests.visiting import Page, root, text

pytestmark = [pytest.mark.django_db, once_embedded]
LIST = "/admin/onbeat_notifications/receiver/"
URL = "https://hooks.slack.com/services/T000/B000/xyzXYZxyz"
SAID = {"confirmed": "yes", "name": "ops", "template": "slack", "url": URL, "dead_letter": "on", "recovery": "on"}
SAID |= {"jobs": "", "late_after_seconds": "60", "most_per_hour": "5"}


@pytest.fixture
def client() -> Client:
    return root()


def at(receiver: Receiver, page: str = "change") -> str:
    return f"{LIST}{receiver.pk}/{page}/"


def done(client: Client, address: str, **said: Any) -> str:
    """The page that follows."""
    response = client.post(address, said, follow=True)
    assert response.redirect_chain, Page(response.content.decode()).text
    return response.content.decode()


def refused(client: Client, address: str, **said: Any) -> str:
    response = client.post(address, said)
    assert response.status_code == 422
    return response.content.decode()


def test_a_receiver_is_made_and_its_url_is_on_no_page(client: Client) -> None:
    pages = [done(client, f"{LIST}add/", **SAID)]
    receiver = receivers.find("ops")
    assert receiver.events == ["dead_letter", "recovery"]
    assert (receiver.late_after_seconds, receiver.most_per_hour, receiver.changed_by) == (60, 5, "root")
    assert vault.opened(receiver.sealed_url) == URL
    assert receiver.secret is None
    pages += [text(client, address) for address in (LIST, at(receiver), at(receiver, "edit"))]
    assert "https://hooks.slack.com" in Page(pages[1]).text
    assert [page for page in pages if "xyzXYZxyz" in page] == []
    assert "xyzXYZxyz" not in str(list(AuditEntry.objects.values()))


def test_a_new_signing_key_is_shown_once(client: Client) -> None:
    page = done(client, f"{LIST}add/", **{**SAID, "template": "standard"})
    assert "shown only this once" in page
    key = page.split("Its signing key is ")[1].split()[0]
    assert key.startswith("whsec_")
    assert key not in text(client, LIST) + text(client, at(receivers.find("ops")))


@pytest.mark.parametrize(
    ("said", "field", "words"),
    [
        ({"url": ""}, "url", "The url to send notifications to is missing."),
        ({"url": "https://10.0.0.1/xyzXYZxyz"}, "url", "is not a public one"),
        ({"template": "pagerduty"}, "routing_key", "The routing key must be"),
        ({"jobs": "nightly"}, "jobs", "There is no job 'nightly'"),
        ({"most_per_hour": "0"}, "most_per_hour", "greater than or equal to 1"),
        ({"name": "a b"}, "name", "must be 1 to 100 letters"),
        ({"dead_letter": "", "recovery": ""}, None, "The events must be some of"),
    ],
)
def test_what_cannot_be_is_told_beside_its_field_and_secrets_are_typed_anew(
    client: Client, said: dict[str, str], field: str | None, words: str
) -> None:
    html = refused(client, f"{LIST}add/", **{**SAID, **said})
    assert escape(words) in html
    assert "xyzXYZxyz" not in html
    assert not Receiver.objects.exists()
    if field:
        after = html.split(f'id="id_{field}"')[1]
        assert escape(words) in after.split('class="ob-field')[0]


def test_a_change_keeps_what_is_not_typed(client: Client) -> None:
    kept_secrets.keep("billing", SecretUse.SIGNING)
    done(client, f"{LIST}add/", **{**SAID, "template": "pagerduty", "routing_key": ROUTING_KEY})
    receiver = receivers.find("ops")
    form = Page(text(client, at(receiver, "edit"))).values
    assert (form["late_after_seconds"], form.get("url"), form.get("routing_key")) == ("60", "", "")
    said = {**SAID, "template": "pagerduty", "url": "", "routing_key": "", "failure": "on", "secret": "billing"}
    page = done(client, at(receiver, "edit"), **said)
    assert "ops is changed." in page
    receiver = receivers.find("ops")
    assert receiver.events == ["failure", "dead_letter", "recovery"]
    assert (vault.opened(receiver.sealed_key), vault.opened(receiver.sealed_url)) == (ROUTING_KEY, URL)
    assert receiver.secret is not None
    assert receiver.secret.name == "billing"


def test_a_press_sends_a_test_and_leads_to_how_it_goes(
    client: Client, broker: Queues, loopback_may_be_called: None
) -> None:
    with receiving() as listening:
        made = receivers.create("ops", url=listening.url())
        page = done(client, at(made.receiver, "test"))
        notice = Notice.objects.get()
        assert reverse("admin:onbeat_executions_execution_change", args=[notice.execution_id]) in page
        assert "Test of the notifications for ops" in Page(page).text
        execution = delivered(notice)
    (sent,) = listening.sent
    Webhook(made.key).verify(sent.body, sent.headers)
    assert body(sent)["type"] == "onbeat.test"
    assert execution.state == State.SUCCEEDED
    assert "SUCCEEDED" in Page(text(client, at(made.receiver))).text


def test_to_look_at_the_button_sends_nothing(client: Client, noon: datetime) -> None:
    receiver = a_receiver(now=noon)
    assert client.get(at(receiver, "test")).status_code == 405
    assert Client(enforce_csrf_checks=True).post(at(receiver, "test")).status_code in (302, 403)
    assert not Execution.objects.exists()


def test_the_page_tells_what_was_told_and_what_is_in_trouble(client: Client, noon: datetime) -> None:
    receiver = a_receiver(now=noon)
    for _ in range(2):
        fails(a_job(now=noon, max_attempts=1), noon)
    fails(a_job(key="daily", now=noon, max_attempts=1), noon)
    look(noon)
    shown = Page(text(client, at(receiver))).text
    for words in ("daily is given up", "ValueError: no such row", "SCHEDULED", "dead letter", "onbeat.dead_letter"):
        assert words in shown, words
    assert "of job" not in shown  # what every page warns of is not what is in trouble here


@pytest.mark.parametrize(
    ("deed", "words"),
    [
        ("pause", "It is told nothing while its job is paused: lunch."),
        ("archive", "It is told nothing: its job is over"),
    ],
)
def test_the_page_says_why_nothing_is_told(client: Client, noon: datetime, deed: str, words: str) -> None:
    receiver = a_receiver(now=noon)
    getattr(definitions, deed)(receiver.job, reason="lunch")
    assert words in Page(text(client, at(receiver))).text


def test_a_removed_receiver_is_gone(client: Client, noon: datetime) -> None:
    receiver = a_receiver(now=noon)
    assert receivers.find("ops")
    assert "ops is removed." in done(client, at(receiver, "remove"), confirmed="yes")
    assert not Receiver.objects.exists()
    assert client.get(at(receiver)).status_code == 404


def test_the_form_previews_each_template_without_a_secret(client: Client, noon: datetime) -> None:
    shown = Page(text(client, f"{LIST}add/")).text
    for template in Template:
        example = letters.example(template, receiver="ops", now=noon)
        for name in example:
            assert f'"{name}"' in shown, (template, name)
    assert '"routing_key" : "…"' in shown


def test_a_link_of_a_notification_leads_to_the_page(
    noon: datetime, settings: Any, loopback_may_be_called: None
) -> None:
    settings.ONBEAT_CALLBACKS_URL = "https://onbeat.example.com"
    with receiving() as listening:
        receiver = a_receiver(now=noon, url=listening.url())
        delivered(receivers.send_test("ops"))
    page = reverse("admin:onbeat_notifications_receiver_change", args=[receiver.pk])
    assert body(listening.sent[0])["data"]["link"] == f"https://onbeat.example.com{page}"


def test_the_list_asks_the_same_for_many_as_for_one(client: Client, noon: datetime) -> None:
    asked = []
    for first, last in ((0, 1), (1, 20)):
        for number in range(first, last):
            a_receiver(f"r{number}", now=noon)
        text(client, LIST)
        with CaptureQueriesContext(connection) as captured:
            text(client, LIST)
        asked.append(len(captured))
    assert asked[0] == asked[1]
