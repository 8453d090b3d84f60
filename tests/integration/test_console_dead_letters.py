"""Dead letters in the admin: groups by job and error, replayed or discarded with a note; messages of nobody."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.test import Client

from access.models import AuditEntry
from access.roles import Role
from executions import lifecycle, queues
from executions.clock import database_now
from executions.models import DeadMessage, Execution
from executions.states import State, Trigger
from jobs.models import Job
from tests.inhabited import dead_messages
from tests.integration.conftest import Queues
from tests.making import a_job, claimed, planned
from tests.rows import everything
from tests.tiers import once_full
from tests.visiting import Page, a_visitor, beside, confirm, said, text

pytestmark = [pytest.mark.django_db, once_full]
LETTERS = "/admin/dead-letters/"


@pytest.fixture
def now() -> datetime:
    return database_now()


@pytest.fixture
def client() -> Client:
    return a_visitor(Role.OPERATOR)


def gave_up(job: Job, count: int, error: str, now: datetime) -> list[Execution]:
    rows = []
    for number in range(count):
        one = planned(job, now - timedelta(minutes=Execution.objects.count() + 1))
        lifecycle.fail(claimed(one, now=now), error=error, now=now - timedelta(minutes=number))
        rows.append(Execution.objects.get(pk=one.pk))
    assert {row.state for row in rows} == {State.DEAD}
    return rows


@pytest.fixture
def billing(now: datetime) -> list[Execution]:
    """Three of one error, and of another one."""
    job = a_job(now=now, key="billing", max_attempts=1)
    return [*gave_up(job, 3, "KeyError: 'customer'", now), *gave_up(job, 1, "ValueError: no", now)]


@pytest.fixture
def mail(now: datetime) -> list[Execution]:
    return gave_up(a_job(now=now, key="mail", max_attempts=1), 2, "KeyError: 'customer'", now)


def group(one: Execution, **says: Any) -> dict[str, Any]:
    return {"job": one.job_id, "fingerprint": one.fingerprint, **says}


def test_groups_are_by_job_and_error_the_largest_first(
    client: Client, billing: list[Execution], mail: list[Execution], now: datetime
) -> None:
    response = client.get(LETTERS)
    groups = response.context["groups"]
    assert [(each.job, each.count, each.example) for each in groups] == [
        ("billing", 3, "KeyError: 'customer'"),
        ("mail", 2, "KeyError: 'customer'"),
        ("billing", 1, "ValueError: no"),
    ]
    assert (groups[0].first_at, groups[0].last_at) == (now - timedelta(minutes=2), now)
    page = Page(response.content.decode())
    assert f"/admin/onbeat_executions/execution/{groups[0].example_id}/change/" in page.links
    assert "No dead letter waits" not in page.text


def test_where_nothing_waits_that_is_said(client: Client) -> None:
    assert "No dead letter waits for a person." in text(client, LETTERS)


def test_a_group_is_replayed_at_a_pace_and_no_other(
    client: Client, billing: list[Execution], mail: list[Execution]
) -> None:
    page = Page(text(client, f"{LETTERS}replay/?job={billing[0].job_id}&fingerprint={billing[0].fingerprint}"))
    assert "Replay 3 dead letters of billing" in page.text
    response = confirm(client, f"{LETTERS}replay/", **group(billing[0], per_second="1", note="the bank is back"))
    new = list(Execution.objects.filter(trigger=Trigger.REPLAY).order_by("available_at"))
    assert [row.job_id for row in new] == [billing[0].job_id] * 3
    assert {row.replay_of for row in new} == {row.pk for row in billing[:3]}
    assert new[2].available_at - new[0].available_at == timedelta(seconds=2)
    assert "3 dead letters run again as new executions; the last comes in 2.0 s." in said(response)
    handled = Execution.objects.exclude(handled_at=None)
    assert {(row.pk, row.handled_note) for row in handled} == {(row.pk, "the bank is back") for row in billing[:3]}
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.subject, entry.after, entry.note) == (
        "dead_letter.replay",
        "job:billing",
        {"replayed": 3},
        "the bank is back",
    )


def test_a_group_is_discarded_with_a_note(client: Client, billing: list[Execution]) -> None:
    before = everything()
    assert beside(confirm(client, f"{LETTERS}discard/", **group(billing[0]))) == {"note": "This field is required."}
    assert "note" in beside(confirm(client, f"{LETTERS}discard/", **group(billing[0], note="  ")))
    assert everything() == before
    response = confirm(client, f"{LETTERS}discard/", **group(billing[0], note="a test"))
    assert said(response) == "3 dead letters discarded."
    assert [row.count for row in client.get(LETTERS).context["groups"]] == [1]
    assert not Execution.objects.filter(trigger=Trigger.REPLAY).exists()
    entry = AuditEntry.objects.get()
    assert (entry.who, entry.action, entry.note) == ("ada", "dead_letter.discard", "a test")


def test_more_than_can_be_done_at_once_are_told_to_be_left(
    client: Client, billing: list[Execution], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("console.dead_letters._MOST_AT_ONCE", 2)
    page = Page(text(client, f"{LETTERS}discard/?job={billing[0].job_id}&fingerprint={billing[0].fingerprint}"))
    assert "Up to 2 at once, the oldest first." in page.text
    response = confirm(client, f"{LETTERS}discard/", **group(billing[0], note="a test"))
    assert said(response) == "2 dead letters discarded. 1 of this group are left: do it again."


@pytest.mark.parametrize("verb", ["replay", "discard"])
@pytest.mark.parametrize(
    "named",
    [
        {},
        {"job": "", "fingerprint": ""},
        {"job": "999999", "fingerprint": ""},
        {"job": "nonsense", "fingerprint": "0" * 16},
        {"job": "9" * 30},
        {"job": "-1"},
    ],
)
def test_a_group_that_is_not_there_is_not_everything(
    client: Client, billing: list[Execution], mail: list[Execution], verb: str, named: dict[str, str]
) -> None:
    before = everything()
    assert client.get(f"{LETTERS}{verb}/", named).status_code == 200
    confirm(client, f"{LETTERS}{verb}/", **named, note="n", per_second="10")
    assert everything() == before


@pytest.mark.parametrize("pace", ["0", "1001", "many", ""])
def test_a_pace_that_cannot_be_is_told_beside_its_field(client: Client, billing: list[Execution], pace: str) -> None:
    before = everything()
    wrong = beside(confirm(client, f"{LETTERS}replay/", **group(billing[0], per_second=pace)))
    assert list(wrong) == ["per_second"]
    assert everything() == before


# ── Messages of nobody ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def messages(broker: Queues, now: datetime) -> list[int]:
    return [message.pk for message in dead_messages(2, now)]


def test_chosen_messages_are_published_again_into_their_queue(
    client: Client, messages: list[int], broker: Queues
) -> None:
    queues.work_queue("default").bind(broker.channel).declare()
    page = Page(client.post(f"{LETTERS}messages/replay/", {"selected": messages[:1]}).content.decode())
    assert "Replay 1 message" in page.text
    assert broker.take() is None
    response = client.post(f"{LETTERS}messages/replay/", {**page.hidden, "note": "the app is back"})
    assert said(response) == "1 message published again."
    assert broker.take().headers["id"] == "1"
    assert broker.take() is None
    (handled,) = DeadMessage.objects.exclude(handled_at=None)
    assert (handled.pk, handled.handled_note) == (messages[0], "the app is back")
    entry = AuditEntry.objects.get()
    assert (entry.who, entry.action, entry.before) == ("ada", "dead_message.replay", {"messages": messages[:1]})


def test_chosen_messages_are_discarded_with_a_note(client: Client, messages: list[int]) -> None:
    assert "note" in beside(confirm(client, f"{LETTERS}messages/discard/", selected=messages))
    response = confirm(client, f"{LETTERS}messages/discard/", selected=messages, note="foreign")
    assert said(response) == "2 messages discarded."
    assert not DeadMessage.objects.filter(handled_at=None).exists()
    assert AuditEntry.objects.get().action == "dead_message.discard"


def test_a_message_that_cannot_be_published_stays_and_is_told(
    client: Client, messages: list[int], no_broker: None
) -> None:
    response = confirm(client, f"{LETTERS}messages/replay/", selected=messages)
    assert "stays" in said(response)
    assert DeadMessage.objects.filter(handled_at=None).count() == 2


@pytest.mark.parametrize("verb", ["explode", "Replay", "discarded"])
def test_there_is_nothing_else_to_do_with_a_message(client: Client, messages: list[int], verb: str) -> None:
    before = everything()
    response = confirm(client, f"{LETTERS}messages/{verb}/", selected=messages, note="n")
    assert response.status_code == 404
    assert everything() == before


@pytest.mark.parametrize("chosen", [[], ["x"], ["9" * 30], ["999999"]])
@pytest.mark.parametrize("verb", ["replay", "discard"])
def test_messages_that_are_not_there_change_nothing(
    client: Client, messages: list[int], verb: str, chosen: list[str]
) -> None:
    before = everything()
    confirm(client, f"{LETTERS}messages/{verb}/", selected=chosen, note="n")
    assert everything() == before
