"""Receivers of notifications through the REST API: made, changed, tried, removed, and refused with the place."""

from datetime import datetime
from typing import Any

import pytest

from access.models import AuditEntry, IdempotentAnswer
from access.roles import Role
from executions.models import Execution
from jobs import vault
from notifications import receivers
from notifications.models import Receiver
from tests.calling import Caller, a_caller
from tests.integration.conftest import Queues
from tests.making import a_job
from tests.notifying import ROUTING_KEY, a_receiver, fails, look
from tests.tiers import once_embedded

pytestmark = [pytest.mark.django_db, once_embedded]
URL = "https://hooks.slack.com/services/T000/B000/xyzXYZxyz"


@pytest.fixture
def api() -> Caller:
    return a_caller(Role.ADMIN)


def test_a_receiver_is_made_and_its_key_answered_once(api: Caller) -> None:
    made = api.put("/notifications/ops", {"url": URL, "late_after": 60})
    assert made.status == 201
    key = made.body.pop("key")
    assert key.startswith("whsec_")
    told = {
        name: made.body[name] for name in ("name", "template", "to", "events", "jobs", "late_after", "active", "last")
    }
    assert told == {
        "name": "ops",
        "template": "standard",
        "to": "https://hooks.slack.com",
        "events": ["dead_letter", "recovery", "lateness"],
        "jobs": [],
        "late_after": 60,
        "active": True,
        "last": None,
    }
    again = api.put("/notifications/ops", {"most_per_hour": 5, "events": ["FAILURE"]})
    assert (again.status, again.body["most_per_hour"], again.body["events"]) == (200, 5, ["failure"])
    assert "key" not in again.body
    told_later = str([api.get("/notifications").body, api.get("/notifications/ops").body, again.body])
    kept = str([*AuditEntry.objects.values(), *IdempotentAnswer.objects.values()])
    for secret in (key, "xyzXYZxyz"):
        assert secret not in told_later + kept
    assert [entry.action for entry in AuditEntry.objects.filter(subject="receiver:ops").order_by("pk")] == [
        "receiver.create",
        "receiver.change",
    ]


def test_an_answer_that_is_sent_back_changes_nothing(api: Caller) -> None:
    body = {"template": "pagerduty", "routing_key": ROUTING_KEY, "jobs": ["billing.*"], "secret": None}
    assert api.put("/notifications/duty", body).status == 201
    said = api.get("/notifications/duty").body
    names = ("template", "events", "jobs", "late_after", "most_per_hour", "secret")
    assert api.put("/notifications/duty", {name: said[name] for name in names}).status == 200
    assert vault.opened(receivers.find("duty").sealed_key) == ROUTING_KEY
    assert AuditEntry.objects.filter(subject="receiver:duty").count() == 1


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/url"),
        ({"url": ["hunter2"]}, "/url"),
        ({"url": "https://10.0.0.1/hunter2"}, "/url"),
        ({"url": URL, "template": "teams"}, "/template"),
        ({"template": "pagerduty"}, "/routing_key"),
        ({"template": "pagerduty", "routing_key": "hunter2"}, "/routing_key"),
        ({"url": URL, "events": ["recovery"]}, "/events"),
        ({"url": URL, "events": []}, "/events"),
        ({"url": URL, "events": ["dead"]}, "/events/0"),
        ({"url": URL, "jobs": ["nightly"]}, "/jobs"),
        ({"url": URL, "late_after": 0}, "/late_after"),
        ({"url": URL, "most_per_hour": "5"}, "/most_per_hour"),
        ({"url": URL, "secret": "nobody"}, "/secret"),
        ({"url": URL, "colour": "red"}, "/colour"),
    ],
)
def test_what_cannot_be_is_refused_with_its_place(api: Caller, body: dict[str, Any], pointer: str) -> None:
    answer = api.put("/notifications/ops", body)
    assert (answer.status in (400, 422), answer.pointers) == (True, [pointer]), answer.body
    assert "hunter2" not in str(answer.body)
    assert not Receiver.objects.exists()


def test_one_that_is_not_there_is_not_found(api: Caller) -> None:
    for answer in (
        api.get("/notifications/ops"),
        api.delete("/notifications/ops"),
        api.post("/notifications/ops/test"),
    ):
        assert answer.status == 404
    assert api.put("/notifications/-x", {"url": URL}).pointers == ["/name"]


def test_what_it_was_told_is_answered_with_how_that_went(api: Caller, noon: datetime) -> None:
    a_receiver(now=noon)
    fails(a_job(key="daily", now=noon, max_attempts=1), noon)
    (notice,) = look(noon)
    (told,) = api.get("/notifications/ops").body["deliveries"]
    assert told == {
        "event": "dead_letter",
        "job": "daily",
        "title": "daily is given up",
        "made_at": told["made_at"],
        "execution": str(notice.execution_id),
        "state": "SCHEDULED",
    }
    (listed,) = api.get("/notifications").body["receivers"]
    assert listed["last"] == told


def test_a_test_is_sent_once_per_key(api: Caller, noon: datetime, broker: Queues) -> None:
    a_receiver(now=noon)
    first, again = (api.post("/notifications/ops/test", {}, Idempotency_Key="one") for _ in range(2))
    assert (first.status, again.body) == (201, first.body)
    assert str(Execution.objects.get().pk) == first.body["execution"]


def test_a_removed_receiver_is_gone(api: Caller, noon: datetime) -> None:
    a_receiver(now=noon)
    assert api.delete("/notifications/ops").body == {"removed": "ops"}
    assert api.get("/notifications").body == {"receivers": []}
