"""What people do to executions in the admin: cancel, retry now, replay; one, a selection, or all that match."""

import uuid
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client

from access.models import AuditEntry
from access.roles import Role
from executions import lifecycle
from executions.clock import database_now
from executions.models import Execution
from executions.states import State, Trigger
from jobs import runs, sweeps
from jobs.models import Job
from tests.furnished import ROOT, Furniture
from tests.making import a_job, asked_for, planned
from tests.rows import everything
from tests.tiers import once_embedded
from tests.visiting import Page, a_visitor, beside, confirm, said

pytestmark = [pytest.mark.django_db, once_embedded]
LIST = f"{ROOT}onbeat_executions/execution/"
ACT = f"{LIST}act/"


@pytest.fixture
def now() -> datetime:
    return database_now()


@pytest.fixture
def client() -> Client:
    return a_visitor(Role.OPERATOR)


@pytest.fixture
def there(db: None, furniture: Furniture) -> Furniture:
    return furniture


def one(there: Furniture, name: str) -> Execution:
    return Execution.objects.get(pk=there.executions[name][0])


def entry() -> AuditEntry:
    return AuditEntry.objects.latest("pk")


# ── One ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["scheduled", "queued", "failing", "delayed"])
def test_what_has_not_begun_is_cancelled(client: Client, there: Furniture, name: str) -> None:
    response = confirm(client, there.execution(name, "cancel"), reason="not wanted")
    row = one(there, name)
    assert (row.state, row.reason) == (State.CANCELLED, "not wanted")
    assert (response["Location"], said(response)) == (there.execution(name), "It is cancelled.")
    assert (entry().who, entry().action, entry().subject, entry().note) == (
        *("ada", "execution.cancel"),
        f"execution:{row.pk}",
        "not wanted",
    )


@pytest.mark.parametrize("name", ["running", "awaited"])
def test_what_runs_is_asked_to_stop(client: Client, there: Furniture, name: str) -> None:
    page = client.get(there.execution(name, "cancel")).content.decode()
    assert "it is asked to stop, and killed after its grace" in page
    response = confirm(client, there.execution(name, "cancel"))
    row = one(there, name)
    assert row.state == State.RUNNING
    assert row.cancel_requested_at is not None
    assert "asked to stop" in said(response)


@pytest.mark.parametrize("name", ["succeeded", "dead", "cancelled", "skipped", "stretch"])
def test_what_is_over_cannot_be_cancelled_and_that_is_told(client: Client, there: Furniture, name: str) -> None:
    before, entries = everything(), AuditEntry.objects.count()
    assert "can no longer be cancelled" in beside(confirm(client, there.execution(name, "cancel")))[""]
    assert everything() == before
    assert AuditEntry.objects.count() == entries


def test_a_retry_that_waits_comes_now(client: Client, there: Furniture, now: datetime) -> None:
    assert one(there, "failing").available_at > now + timedelta(minutes=30)
    response = client.post(there.execution("failing", "retry"))
    assert one(there, "failing").available_at < now + timedelta(minutes=1)
    assert said(response) == "Its next attempt comes now."
    assert entry().action == "execution.retry_now"


@pytest.mark.parametrize("name", ["scheduled", "running", "dead", "succeeded"])
def test_where_no_retry_waits_there_is_nothing_to_hurry(client: Client, there: Furniture, name: str) -> None:
    before, entries = everything(), AuditEntry.objects.count()
    assert "no retry waits for its time here" in said(client.post(there.execution(name, "retry")))
    assert everything() == before
    assert AuditEntry.objects.count() == entries


@pytest.mark.parametrize("name", ["succeeded", "dead", "cancelled", "skipped"])
def test_what_is_over_is_replayed_as_a_new_execution(client: Client, there: Furniture, name: str) -> None:
    original = one(there, name)
    response = confirm(client, there.execution(name, "replay"), args="[]", kwargs='{"n": 1}', note="once more")
    new = Execution.objects.get(replay_of=original.pk)
    assert (new.trigger, new.state, new.args, new.kwargs) == (Trigger.REPLAY, State.SCHEDULED, [], {"n": 1})
    assert f"/admin/onbeat_executions/execution/{new.pk}/change/" in said(response)
    assert (entry().action, entry().after, entry().note) == ("execution.replay", {"replay": str(new.pk)}, "once more")
    assert (one(there, name).handled_at is not None) == (name == "dead")


def test_a_replay_may_have_another_payload_and_both_lead_to_each_other(client: Client, there: Furniture) -> None:
    confirm(client, there.execution("dead", "replay"), args='["other"]', kwargs='{"é": 2}')
    new = Execution.objects.get(replay_of=one(there, "dead").pk)
    assert (new.args, new.kwargs) == (["other"], {"é": 2})
    assert f"/{new.pk}/change/" in client.get(there.execution("dead")).content.decode()
    assert there.execution("dead") in client.get(f"{LIST}{new.pk}/change/").content.decode()


def test_the_form_of_a_replay_begins_with_the_payload_as_it_was(client: Client, there: Furniture) -> None:
    form = client.get(there.execution("dead", "replay")).context["form"]
    assert (form["args"].value(), form["kwargs"].value()) == ("[]", '{\n  "n": 1\n}')


@pytest.mark.parametrize("name", ["scheduled", "queued", "running", "failing", "stretch"])
def test_what_is_not_over_cannot_be_replayed(client: Client, there: Furniture, name: str) -> None:
    before = everything()
    told = beside(confirm(client, there.execution(name, "replay"), args="[]", kwargs="{}"))[""]
    assert "only what is over is replayed" in told
    assert everything() == before


@pytest.mark.parametrize(("says", "field"), [({"args": "{}"}, "args"), ({"kwargs": "nonsense"}, "kwargs")])
def test_a_payload_that_cannot_be_is_told_beside_its_field(
    client: Client, there: Furniture, says: dict[str, str], field: str
) -> None:
    before = everything()
    assert field in beside(confirm(client, there.execution("dead", "replay"), **says))
    assert everything() == before


@pytest.mark.parametrize("page", ["change", "cancel", "replay", "history"])
@pytest.mark.parametrize("pk", ["no-id", str(uuid.UUID(int=7)), "00000000-0000-7000-8000-000000000000"])
def test_an_execution_that_is_not_there_is_not_found(client: Client, page: str, pk: str) -> None:
    assert client.get(f"{LIST}{pk}/{page}/").status_code == 404


# ── A selection ──────────────────────────────────────────────────────────────────────────────────────────────────


def select(client: Client, deed: str, ids: Any, **says: Any) -> HttpResponse:
    return client.post(ACT, {"deed": deed, "selected": list(ids), "back": f"{LIST}?state=open", **says})


@pytest.fixture
def mixed(there: Furniture) -> list[str]:
    names = ("scheduled", "queued", "running", "failing", "succeeded", "dead", "stretch")
    return [there.executions[name][0] for name in names]


@pytest.mark.parametrize(
    ("deed", "words"),
    [
        ("cancel", ["7 executions selected", "4 executions will be cancelled", "3 others already over"]),
        ("retry", ["7 executions selected", "1 execution will be tried again now", "6 others without a retry"]),
        ("replay", ["7 executions selected", "2 executions will be run again", "5 others not over yet"]),
    ],
)
def test_a_selection_is_counted_before_anything_is_done(
    client: Client, mixed: list[str], deed: str, words: list[str]
) -> None:
    before = everything()
    response = select(client, deed, mixed)
    page = Page(response.content.decode())
    assert response.status_code == 200
    assert [each for each in words if each not in page.text] == [], page.text
    assert page.hidden["selected"] == mixed
    assert everything() == before


@pytest.mark.parametrize(
    ("deed", "told", "action"),
    [
        ("cancel", "3 executions cancelled, 1 asked to stop.", "execution.cancel"),
        ("retry", "1 retry comes now.", "execution.retry_now"),
        ("replay", "2 executions replayed.", "execution.replay"),
    ],
)
def test_the_button_does_it_to_those_that_it_fits(
    client: Client, mixed: list[str], deed: str, told: str, action: str
) -> None:
    count = AuditEntry.objects.count()
    page = Page(select(client, deed, mixed).content.decode())
    response = client.post(ACT, {**page.hidden, "reason": "because", "note": "because"})
    assert response["Location"] == f"{LIST}?state=open"
    assert told in said(response)
    assert AuditEntry.objects.count() == count + 1
    assert (entry().who, entry().action, entry().before) == ("ada", action, {"executions": mixed})
    assert entry().note == ("" if deed == "retry" else "because")


@pytest.mark.parametrize(
    "says",
    [
        {"deed": "cancel"},
        {"deed": "explode", "selected": "all"},
        {"deed": "cancel", "selected": ["no-id", ""], "confirmed": "yes"},
        {},
    ],
)
def test_without_a_selection_nothing_is_done_and_that_is_told(
    client: Client, there: Furniture, says: dict[str, Any]
) -> None:
    if says.get("selected") == "all":
        says = {**says, "selected": there.executions["scheduled"], "confirmed": "yes"}
    before = everything()
    response = client.post(ACT, says)
    assert (response["Location"], said(response)) == (LIST, "Select executions first.")
    assert everything() == before


# ── All that match ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def waiting(now: datetime) -> Job:
    """With seven runs that wait, the first of them due."""
    job = a_job(now=now, key="waiting")
    asked_for(job, 7, now=now)
    planned(a_job(now=now, key="other"), now)
    return job


def match(client: Client, deed: str, matching: str, **says: Any) -> HttpResponse:
    return client.post(ACT, {"deed": f"{deed}-matching", "matching": matching, **says})


def test_all_that_match_are_counted_and_then_cancelled(client: Client, waiting: Job) -> None:
    before = everything()
    page = Page(match(client, "cancel", "job=waiting").content.decode())
    assert "7 executions match and are not over." in page.text
    assert everything() == before
    response = client.post(ACT, {**page.hidden, "reason": "not wanted"})
    assert said(response) == "7 executions cancelled."
    rows = Execution.objects.filter(job=waiting)
    assert {(row.state, row.reason) for row in rows} == {(State.CANCELLED, "not wanted")}
    assert Execution.objects.get(job__key="other").state == State.SCHEDULED
    assert (entry().action, entry().before, entry().after) == (
        "execution.cancel",
        {"filter": "job=waiting"},
        {"done": 7, "asked_to_stop": 0},
    )


def test_all_that_match_are_replayed_once(client: Client, waiting: Job, now: datetime) -> None:
    lifecycle.cancel(list(Execution.objects.filter(job=waiting).values_list("pk", flat=True)), reason="r", now=now)
    response = match(client, "replay", "job=waiting&state=CANCELLED", confirmed="yes")
    assert said(response) == "7 executions replayed."
    assert Execution.objects.filter(job=waiting, trigger=Trigger.REPLAY).count() == 7


def test_who_gives_no_reason_has_the_usual_one(client: Client, waiting: Job) -> None:
    match(client, "cancel", "job=waiting", confirmed="yes")
    assert set(Execution.objects.filter(job=waiting).values_list("reason", flat=True)) == {"cancelled"}


def test_of_very_many_a_part_is_done_and_told(client: Client, waiting: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeps, "MOST_IN_A_BATCH", 5)
    for _ in range(2):
        response = match(client, "cancel", "job=waiting", confirmed="yes")
    assert said(response) == (
        "5 executions cancelled. There are more: do it again for the next 5. 2 executions cancelled."
    )


def test_more_than_a_part_is_not_replayed_since_doing_it_again_would_repeat_the_first(
    client: Client, waiting: Job, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    lifecycle.cancel(list(Execution.objects.filter(job=waiting).values_list("pk", flat=True)), reason="r", now=now)
    monkeypatch.setattr(sweeps, "MOST_IN_A_BATCH", 6)
    before = everything()
    response = match(client, "replay", "job=waiting&state=CANCELLED", confirmed="yes")
    assert "narrow the filters" in said(response)
    assert everything() == before


@pytest.mark.parametrize("matching", ["", "when=any", "cursor=x", "state=", "no-such-filter=1", "viewer_zone=UTC"])
def test_without_a_condition_everything_is_not_meant(client: Client, waiting: Job, matching: str) -> None:
    before = everything()
    response = match(client, "cancel", matching, confirmed="yes")
    assert response.status_code == 302
    assert "without any condition it would be everything" in said(response)
    assert everything() == before


@pytest.mark.parametrize("matching", ["state=NONSENSE", "job=no-such-job", "since=soon"])
def test_filters_that_cannot_be_read_do_nothing(client: Client, waiting: Job, matching: str) -> None:
    before = everything()
    assert match(client, "cancel", matching, confirmed="yes").status_code == 302
    assert everything() == before


def test_what_the_list_shows_is_what_its_buttons_mean(client: Client, waiting: Job, now: datetime) -> None:
    """Its filters go along, in the zone they were set in."""
    tokyo = now + timedelta(hours=9)
    query = f"job=waiting&since={tokyo - timedelta(minutes=1):%Y-%m-%dT%H:%M}&viewer_zone=Asia/Tokyo"
    page = Page(client.get(f"{LIST}?{query}").content.decode())
    (matching,) = page.hidden["matching"]
    assert "7 executions match" in Page(match(client, "cancel", matching).content.decode()).text


def test_what_is_stored_after_the_look_is_left_alone(client: Client, waiting: Job) -> None:
    page = Page(match(client, "cancel", "job=waiting&state=open").content.decode())
    (looked_at,) = page.hidden["looked_at"]
    later = runs.run(waiting, delay=timedelta(hours=9)).execution_id
    Execution.objects.filter(pk=later).update(created_at=database_now() + timedelta(seconds=1))
    match(client, "cancel", "job=waiting&state=open", confirmed="yes", looked_at=looked_at)
    assert [row.pk for row in Execution.objects.filter(job=waiting, state="SCHEDULED")] == [later]
