"""Dead letters through the REST API: in groups, run again at a pace, discarded with a note."""

from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from access.models import AuditEntry
from api.executions import dead_letters
from executions import lifecycle
from executions.clock import database_now
from executions.models import DeadMessage, Execution
from executions.states import State, Trigger
from tests.calling import Caller, a_caller
from tests.making import a_job, claimed, planned

pytestmark = pytest.mark.django_db


@pytest.fixture
def api() -> Caller:
    return a_caller()


@pytest.fixture
def dead() -> list[Execution]:
    """Four of one job with one error, two of another with another."""
    now = database_now() - timedelta(hours=1)
    rows = []
    for key, count, error in (("bill", 4, "ValueError: no"), ("mail", 2, "OSError: away")):
        job = a_job(now=now, key=key, max_attempts=1)
        for number in range(count):
            row = planned(job, now + timedelta(seconds=number))
            lifecycle.fail(claimed(row, now=now), error=error, now=now)
            rows.append(row)
    return rows


def a_message(**more: Any) -> DeadMessage:
    facts = {"digest": "d", "queue": "q", "body": b"x", "error": "not ours", "fingerprint": "f"}
    return DeadMessage.objects.create(**{**facts, "collected_at": database_now(), **more})


def test_dead_letters_are_grouped_the_largest_first(api: Caller, dead: list[Execution]) -> None:
    groups = api.get("/dead-letters/groups").body["groups"]
    assert [(group["count"], group["jobs"], group["example"]) for group in groups] == [
        (4, ["bill"], "ValueError: no"),
        (2, ["mail"], "OSError: away"),
    ]
    assert len(api.get(f"/dead-letters/groups?fingerprint={groups[1]['fingerprint']}").body["groups"]) == 1
    assert api.get("/dead-letters/groups?job=other").body == {"groups": []}


def test_they_are_run_again_at_a_pace_over_several_calls(
    api: Caller, dead: list[Execution], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "_BATCH", 3)
    body = {"filter": {"job": "bill"}, "per_second": 2, "note": "the bank is back"}
    dry = api.post("/dead-letters/replay", body).body
    assert (dry["dry_run"], dry["remaining"], Execution.objects.filter(trigger=Trigger.REPLAY).count()) == (True, 4, 0)
    first = api.post("/dead-letters/replay", dry["next"]).body
    assert (first["done"], first["remaining"]) == (3, 1)
    last = api.post("/dead-letters/replay", first["next"]).body
    assert (last["done"], last["remaining"], last["next"]) == (1, 0, None)
    moments = sorted(Execution.objects.filter(trigger=Trigger.REPLAY).values_list("available_at", flat=True))
    assert min(later - earlier for earlier, later in pairwise(moments)) >= timedelta(seconds=0.5)
    assert {Execution.objects.get(pk=row.pk).handled_note for row in dead[:4]} == {"the bank is back"}
    assert AuditEntry.objects.filter(action="dead_letter.replay").count() == 2


def test_what_gives_up_after_the_first_call_is_left_alone(
    api: Caller, dead: list[Execution], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a sweep whose replays fail would never end."""
    monkeypatch.setattr(dead_letters, "_BATCH", 2)
    following = api.post("/dead-letters/replay", {"filter": {"job": "bill"}, "per_second": 1000}).body["next"]
    calls = 0
    while following is not None:
        calls += 1
        assert calls < 5
        following = api.post("/dead-letters/replay", following).body["next"]
        for row in Execution.objects.filter(trigger=Trigger.REPLAY, state=State.SCHEDULED):
            now = database_now()
            lifecycle.fail(claimed(row, now=now), error="ValueError: no", now=now)
    assert Execution.objects.filter(trigger=Trigger.REPLAY).count() == 4
    assert api.get("/dead-letters/groups?job=bill").body["groups"][0]["count"] == 4


def test_they_are_discarded_with_a_note_and_stay_dead(api: Caller, dead: list[Execution]) -> None:
    ids = [str(row.pk) for row in dead[:2]]
    assert api.post("/dead-letters/discard", {"filter": {"ids": ids}}).pointers == ["/note"]
    empty = api.post("/dead-letters/discard", {"filter": {"ids": ids}, "note": " ", "dry_run": False})
    assert (empty.status, empty.pointers) == (422, ["/note"])
    done = api.post("/dead-letters/discard", {"filter": {"ids": ids}, "note": "gone", "dry_run": False}).body
    assert (done["done"], done["remaining"]) == (2, 0)
    assert Execution.objects.filter(state=State.DEAD, handled_note="gone").count() == 2
    assert api.get("/dead-letters/groups").body["groups"][0]["count"] == 2


def test_an_id_of_nobody_finds_nothing(api: Caller, dead: list[Execution]) -> None:
    body = {"filter": {"ids": ["ffffffff-ffff-ffff-ffff-ffffffffffff"]}}
    assert api.post("/dead-letters/replay", body).body["remaining"] == 0
    assert api.post("/dead-letters/replay", {"filter": {"ids": ["7"]}}).pointers == ["/filter/ids/0"]


def test_messages_of_no_execution_are_listed_and_settled_by_id(api: Caller) -> None:
    messages = [a_message(digest=str(number)) for number in range(3)]
    page = api.get("/dead-letters/messages?limit=2").body
    assert [item["id"] for item in page["items"]] == [messages[2].pk, messages[1].pk]
    assert [item["id"] for item in api.get(page["next"]).body["items"]] == [messages[0].pk]
    body = {"ids": [messages[0].pk, 10**15], "note": "not ours"}
    assert api.post("/dead-letters/messages/discard", body).body == {"discarded": 1}
    left = api.post("/dead-letters/messages/replay", {"ids": [messages[0].pk]}).body["left"]
    assert "handled already" in left[str(messages[0].pk)]


def test_a_message_that_cannot_be_sent_again_says_why(api: Caller) -> None:
    message = a_message(queue="")
    answer = api.post("/dead-letters/messages/replay", {"ids": [message.pk]}).body
    assert answer["replayed"] == []
    assert "nobody knows which queue" in answer["left"][str(message.pk)]
