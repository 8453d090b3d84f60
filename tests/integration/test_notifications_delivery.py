"""What a receiver gets of a notification, signed or in its own form, and what of it stays in the house."""

import json
import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.apps import apps
from django.urls import reverse
from standardwebhooks import Webhook

from executions.models import Attempt, Execution
from executions.states import State
from jobs import kept_secrets, runs
from jobs.models import JobState
from notifications import receivers
from notifications.kinds import EVENTS, Kind
from notifications.models import Notice
from tests.delivering import deliver
from tests.making import a_job, seconds, succeeded
from tests.notifying import ROUTING_KEY, a_receiver, body, delivered, delivery_of, fails, look
from tests.receiver import Receiver as Listening
from tests.receiver import answer, receiving

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("loopback_may_be_called")]

MINUTE = timedelta(minutes=1)
PATH = "/services/T0PSECRET/B0PSECRET/xYz123SecretPart"


def told(*acts: Any, now: datetime, template: str = "standard", **fields: Any) -> tuple[Listening, list[Execution]]:
    """A job fails for good and is well again; what was sent about it."""
    with receiving(*acts) as listening:
        a_receiver(now=now, template=template, url=listening.url(PATH), **fields)
        job = a_job(key="daily", now=now, max_attempts=1)
        fails(job, now)
        made = look(now + MINUTE)
        succeeded(job, now + 2 * MINUTE)
        made += look(now + 3 * MINUTE)
        return listening, [delivered(notice) for notice in made]


def test_the_standard_template_is_signed_and_says_what_happened(noon: datetime) -> None:
    with receiving() as listening:
        made = receivers.create("ops", url=listening.url(), events=EVENTS, now=noon)
        execution = fails(a_job(key="daily", now=noon, max_attempts=1), noon)
        (notice,) = look(noon + MINUTE)
        delivery = delivered(notice)
    (sent,) = listening.sent
    Webhook(made.key).verify(sent.body, sent.headers)
    assert sent.headers["webhook-id"] == str(delivery.pk)
    said = body(sent)
    assert (said["type"], said["timestamp"]) == ("onbeat.dead_letter", (noon + MINUTE).isoformat())
    assert said["data"] == {
        "receiver": "ops",
        "title": "daily is given up",
        "text": "Attempt 1 failed, and was the last. It waits in the dead letters for a person.\n"
        "ValueError: no such row",
        "dedup_key": "daily",
        "source": "onbeat",
        "link": "",
        "job": "daily",
        "execution": str(execution.pk),
        "attempt": 1,
        "outcome": "FAILED",
        "error": "ValueError: no such row",
        "at": (noon + seconds(0.5)).isoformat(),
        "began_at": (noon + seconds(0.5)).isoformat(),
        "count": 1,
    }
    assert (delivery.state, delivery.result) == (State.SUCCEEDED, {"status": 200})


def test_a_new_key_signs_beside_the_old_one(noon: datetime) -> None:
    with receiving() as listening:
        old = receivers.create("ops", url=listening.url(), now=noon).key
        new = kept_secrets.replace("notifications.ops").key
        delivered(receivers.send_test("ops"))
    (sent,) = listening.sent
    for key in (old, new):
        Webhook(key).verify(sent.body, sent.headers)


def test_slack_gets_a_text_and_blocks(noon: datetime) -> None:
    listening, deliveries = told(answer(200, b"ok"), now=noon, template="slack")
    trouble, recovery = map(body, listening.sent)
    assert set(trouble) == {"text", "blocks"}
    assert trouble["text"] == "❌ daily is given up"
    assert [block["type"] for block in trouble["blocks"]] == ["header", "section", "context"]
    assert "`ValueError: no such row`" in trouble["blocks"][1]["text"]["text"]
    assert recovery["text"] == "✅ daily is well again"
    assert {each.state for each in deliveries} == {State.SUCCEEDED}


def test_pagerduty_gets_an_event_that_its_recovery_resolves(noon: datetime) -> None:
    listening, _ = told(answer(202, b"{}"), now=noon, template="pagerduty", routing_key=ROUTING_KEY)
    trouble, recovery = map(body, listening.sent)
    assert (trouble["routing_key"], trouble["event_action"], trouble["dedup_key"]) == (ROUTING_KEY, "trigger", "daily")
    payload = trouble["payload"]
    assert payload["summary"].startswith("daily is given up: Attempt 1 failed")
    assert (payload["source"], payload["severity"], payload["component"]) == ("onbeat", "error", "daily")
    assert recovery == {"routing_key": ROUTING_KEY, "event_action": "resolve", "dedup_key": "daily"}


def test_a_link_leads_to_the_page_of_the_execution(noon: datetime, settings: Any) -> None:
    settings.ONBEAT_CALLBACKS_URL = "https://onbeat.example.com"
    listening, _ = told(now=noon)
    trouble = body(listening.sent[0])["data"]
    page = reverse("admin:onbeat_executions_execution_change", args=[trouble["execution"]])
    assert trouble["link"] == f"https://onbeat.example.com{page}"
    assert trouble["source"] == "onbeat.example.com"


@pytest.mark.parametrize("template", ["standard", "slack", "pagerduty"])
def test_no_secret_is_in_a_row_or_a_log_line(noon: datetime, template: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    def echo(connection: Any, sent: Any) -> None:
        told_back = sent.line.encode() + b" " + sent.body
        answer(500, told_back, x_said=PATH)(connection, sent)

    key = {"routing_key": ROUTING_KEY} if template == "pagerduty" else {}
    _, deliveries = told(echo, now=noon, template=template, **key)
    assert {each.state for each in deliveries} == {State.SCHEDULED}  # tried again later
    assert (
        Attempt.objects.filter(execution__in=[each.pk for each in deliveries]).count() == 1
    )  # the recovery waits for it
    rows = [repr(row) for model in apps.get_models() for row in model._default_manager.values()]
    for secret in (PATH, "xYz123SecretPart", ROUTING_KEY):
        assert [row for row in rows if secret in row] == []
        assert secret not in caplog.text


@pytest.mark.parametrize(("template", "error"), [("slack", "404 Not Found"), ("slack", "403 Forbidden")])
def test_a_receiver_that_says_no_leaves_a_dead_letter_that_says_why(noon: datetime, template: str, error: str) -> None:
    listening, deliveries = told(answer(int(error[:3]), b"no_service"), now=noon, template=template)
    assert len(listening.sent) == 2
    assert deliveries[0].state == State.DEAD
    assert f"answered {error}" in deliveries[0].error
    assert PATH not in deliveries[0].error


def test_a_receiver_that_is_gone_is_told_nothing_more(noon: datetime) -> None:
    told(answer(410), now=noon, template="slack")
    receiver = receivers.find("ops")
    assert (receiver.job.state, receiver.is_active) == (JobState.PAUSED, False)
    fails(a_job(now=noon, max_attempts=1), noon + 5 * MINUTE)
    assert look(noon + 6 * MINUTE) == []


def test_a_private_address_is_refused_when_it_is_sent_to(noon: datetime, settings: Any) -> None:
    with receiving() as listening:
        a_receiver(now=noon, url=listening.url())
        settings.ONBEAT_CALLBACKS_NETWORKS = []
        delivery = delivered(receivers.send_test("ops"))
    assert listening.sent == []
    assert (delivery.state, "is not a public one" in delivery.error) == (State.DEAD, True)


def test_a_recovery_waits_for_the_trouble_before_it(noon: datetime) -> None:
    with receiving(answer(500), answer(200)) as listening:
        a_receiver(now=noon, url=listening.url())
        job = a_job(now=noon, max_attempts=1)
        fails(job, noon)
        succeeded(job, noon + MINUTE)
        trouble, recovery = look(noon + 2 * MINUTE)
        assert delivered(trouble).state == State.SCHEDULED
        early = delivered(recovery)
        assert (early.state, early.attempt, early.reason) == (
            State.SCHEDULED,
            1,
            "waits for the notification before it",
        )
        assert len(listening.sent) == 1
        assert delivered(trouble).state == State.SUCCEEDED
        assert delivered(recovery).state == State.SUCCEEDED
    assert [body(sent)["type"] for sent in listening.sent[1:]] == ["onbeat.dead_letter", "onbeat.recovery"]


def test_a_dead_delivery_can_be_replayed(noon: datetime) -> None:
    with receiving(answer(404), answer(200)) as listening:
        a_receiver(now=noon, url=listening.url())
        delivery = delivered(receivers.send_test("ops"))
        assert delivery.state == State.DEAD
        (again,) = runs.replay([delivery.pk])
        replay = Execution.objects.get(pk=again)

        deliver(replay)
    assert replay.state == State.SUCCEEDED
    assert body(listening.sent[1])["type"] == "onbeat.test"


@pytest.mark.parametrize("kwargs", [{}, {"notice": 0}, {"notice": "1"}, {"notice": None}])
def test_run_by_hand_it_delivers_nothing_and_says_so(noon: datetime, kwargs: dict[str, Any]) -> None:

    with receiving() as listening:
        receiver = a_receiver(now=noon, url=listening.url())
        execution = Execution.objects.get(pk=runs.run(receiver.job, kwargs=kwargs).execution_id)
        deliver(execution)
    assert listening.sent == []
    assert (execution.state, "there is no notification to deliver" in execution.error) == (State.DEAD, True)


def test_the_job_of_one_receiver_delivers_nothing_of_another(noon: datetime) -> None:

    with receiving() as listening:
        a_receiver("first", now=noon, url=listening.url())
        second = a_receiver("second", now=noon, url=listening.url())
        notice = receivers.send_test("first")
        execution = Execution.objects.get(pk=runs.run(second.job, kwargs={"notice": notice.pk}).execution_id)
        deliver(execution)
    assert (listening.sent, execution.state) == ([], State.DEAD)


def test_a_test_says_so_and_counts_for_no_limit(noon: datetime) -> None:
    with receiving() as listening:
        a_receiver(now=noon, url=listening.url(), most_per_hour=1)
        notice = receivers.send_test("ops", now=noon)
        assert notice.kind == Kind.TEST
        assert delivered(notice).state == State.SUCCEEDED
        fails(a_job(now=noon, max_attempts=1), noon + MINUTE)
        assert len(look(noon + 2 * MINUTE)) == 1
    assert body(listening.sent[0])["data"]["title"] == "Test of the notifications for ops"


def test_a_test_is_published_at_once(noon: datetime, django_capture_on_commit_callbacks: Callable[..., Any]) -> None:
    a_receiver(now=noon, url="https://127.0.0.1:4430/hook")
    with django_capture_on_commit_callbacks() as callbacks:
        notice = receivers.send_test("ops")
    assert len(callbacks) == 1
    assert delivery_of(notice).kwargs == {"notice": notice.pk}
    assert json.dumps(notice.said)
    assert Notice.objects.count() == 1
