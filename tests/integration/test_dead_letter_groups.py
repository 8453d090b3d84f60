"""Dead letters that wait for a person: grouped by what went wrong, run again at a pace, or discarded with a note."""

import uuid
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from executions import dead_letter_queue, lifecycle, queues
from executions import dead_letters as of_executions
from executions.fingerprint import of_error
from executions.models import DeadMessage, Execution
from executions.states import State, Trigger
from jobs import dead_letters
from jobs.dead_letters import Matching
from jobs.models import Job
from jobs.refusals import InvalidRun
from tests import rows
from tests.integration.conftest import Queues
from tests.integration.rejecting import PLAIN, Rejecting
from tests.making import a_job, claimed, planned, seconds

pytestmark = pytest.mark.django_db

BOOM = """Traceback (most recent call last):
  File "shop/orders.py", line 7, in send
    ship(order)
ValueError: order {number} is   gone"""


def dead(job: Job, fire_time: datetime, error: str = "boom", *, at: datetime | None = None) -> Execution:
    execution = planned(job, fire_time)
    lifecycle.fail(claimed(execution, now=fire_time), error=error, now=at or fire_time)
    execution.refresh_from_db()
    assert execution.state == State.DEAD
    return execution


@pytest.fixture
def job(noon: datetime) -> Job:
    return a_job(now=noon, key="orders", max_attempts=1, kwargs={"tenant": "acme"}, priority=7)


@pytest.fixture
def later(noon: datetime) -> datetime:
    return noon + timedelta(hours=1)


def a_message(noon: datetime, **more: Any) -> DeadMessage:
    facts = {"queue": queues.work_queue("default").name, "task": "their.task", "body": b"x", "error": "No worker …"}
    facts |= {"digest": uuid.uuid4().hex, "collected_at": noon, **more}
    return DeadMessage.objects.create(**facts, fingerprint=of_error(facts["error"]))


# ── Groups ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_errors_that_look_alike_are_one_group_and_the_largest_comes_first(job: Job, noon: datetime) -> None:
    other = a_job(now=noon, key="invoices", max_attempts=1, task="onbeat.sleep")
    for number in range(3):
        dead(job, noon + seconds(number), BOOM.format(number=number))
    dead(other, noon + seconds(0.5), BOOM.format(number=9))
    dead(job, noon + seconds(9), "KeyError: 'x'")
    first, second = dead_letters.groups()
    assert (first.count, first.executions, first.messages) == (4, 4, 0)
    assert first.fingerprint == of_error(BOOM.format(number=7))
    assert (first.jobs, first.tasks) == (("orders", "invoices"), ("onbeat.echo", "onbeat.sleep"))
    assert (first.first_at, first.last_at) == (noon, noon + seconds(2))
    assert first.example == "ValueError: order 2 is gone"  # the newest
    assert (second.count, second.jobs, second.example) == (1, ("orders",), "KeyError: 'x'")


def test_messages_that_belong_to_no_execution_are_groups_as_well(job: Job, noon: datetime) -> None:
    dead(job, noon, "No worker …")
    for number in range(2):
        a_message(noon + seconds(number))
    a_message(noon, task="", error="Foreign.")
    first, second = dead_letters.groups()
    assert (first.count, first.executions, first.messages) == (3, 1, 2)
    assert (first.tasks, first.last_at) == (("their.task", "onbeat.echo"), noon + seconds(1))
    assert (second.messages, second.tasks, second.jobs, second.example) == (1, (), (), "Foreign.")


def test_a_group_names_a_few_jobs_those_with_most_first(noon: datetime) -> None:
    for number in range(7):
        one = a_job(now=noon, key=f"job{number}", max_attempts=1)
        for fire in range(1 + (number == 6)):
            dead(one, noon + seconds(fire))
    (group,) = dead_letters.groups()
    assert (len(group.jobs), group.jobs[0], group.count) == (5, "job6", 8)


def test_what_was_handled_and_what_is_not_dead_is_in_no_group(job: Job, noon: datetime, later: datetime) -> None:
    dead(job, noon)
    handled = a_message(noon)
    dead_letters.discard(Matching(), note="known", now=later)
    dead_letters.discard_messages([handled.pk], note="known", now=later)
    lifecycle.succeed(claimed(planned(job, later), now=later), result=None, now=later)
    assert dead_letters.groups() == []


def test_many_dead_letters_cost_as_many_queries_as_few(job: Job, noon: datetime) -> None:
    counts = []
    for many in (1, 30):
        for number in range(many):
            dead(job, noon + seconds(100 * many + number), f"Error{chr(65 + number)}: x")
            a_message(noon, error=f"Foreign {chr(65 + number)}.")
        with CaptureQueriesContext(connection) as asked:
            assert sum(group.count for group in dead_letters.groups()) == 2 * (many + (many > 1))
        counts.append(len(asked))
    assert counts[0] == counts[1] == 3


# ── Which are meant ──────────────────────────────────────────────────────────────────────────────────────────────


def test_what_is_said_narrows_down_which_are_meant(job: Job, noon: datetime) -> None:
    other = a_job(now=noon, key="invoices", max_attempts=1, task="onbeat.sleep", queue="slow")
    one, two = dead(job, noon, "a"), dead(job, noon + seconds(10), "b")
    three = dead(other, noon + seconds(20), "a")
    said: dict[Matching, list[Execution]] = {
        Matching(): [one, two, three],
        Matching(job="orders"): [one, two],
        Matching(task="onbeat.sleep"): [three],
        Matching(queue="slow"): [three],
        Matching(fingerprint=of_error("a")): [one, three],
        Matching(since=noon + seconds(10)): [two, three],
        Matching(until=noon + seconds(10)): [one],
        Matching(ids=(two.pk, three.pk)): [two, three],
        Matching(ids=()): [],
        Matching(job="orders", fingerprint=of_error("a"), since=noon): [one],
    }
    for matching, meant in said.items():
        assert sorted(row.pk for row in matching.executions()) == [row.pk for row in meant], matching
        assert sum(group.executions for group in dead_letters.groups(matching)) == len(meant)


def test_messages_are_meant_by_what_they_have(noon: datetime, broker: Queues) -> None:
    a_message(noon)
    a_message(noon + seconds(10), task="other.task", queue="elsewhere")
    said = {
        Matching(): 2,
        Matching(task="other.task"): 1,
        Matching(queue="default"): 1,
        Matching(fingerprint=of_error("No worker …")): 2,
        Matching(fingerprint="none"): 0,
        Matching(since=noon + seconds(1)): 1,
        Matching(until=noon + seconds(1)): 1,
        Matching(job="orders"): 0,
        Matching(ids=()): 0,
    }
    assert {matching: matching.messages().count() for matching in said} == said


# ── Run again ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_replay_of_many_makes_a_new_execution_of_each_and_marks_it_as_handled(
    job: Job, noon: datetime, later: datetime
) -> None:
    originals = [dead(job, noon + seconds(number)) for number in range(3)]
    answer = dead_letters.replay(Matching(job="orders"), note="mended", now=later)
    assert (answer.count, answer.last_due_at) == (3, later + seconds(0.2))
    replays = rows.of(job, trigger=Trigger.REPLAY)
    assert {row.replay_of for row in replays} == {row.pk for row in originals}
    assert {(row.state, row.priority, row.kwargs["tenant"]) for row in replays} == {(State.SCHEDULED, 7, "acme")}
    for row in originals:
        row.refresh_from_db()
        assert (row.state, row.handled_at, row.handled_note) == (State.DEAD, later, "mended")
    assert dead_letters.replay(Matching(job="orders"), now=later).count == 0


def test_at_most_so_many_replays_come_each_second_in_the_order_of_their_fires(
    job: Job, noon: datetime, later: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(of_executions, "_PER_TRANSACTION", 4)
    originals = [dead(job, noon + seconds(number)) for number in range(10)]
    answer = dead_letters.replay(Matching(), per_second=3, now=later)
    replays = sorted(rows.of(job, trigger=Trigger.REPLAY), key=lambda row: row.available_at)
    assert [row.replay_of for row in replays] == [row.pk for row in originals]
    assert Counter((row.available_at - later) // seconds(1) for row in replays) == {0: 3, 1: 3, 2: 3, 3: 1}
    assert (answer.count, answer.last_due_at) == (10, later + seconds(3))
    assert [row.reason for row in replays[:2]] == ["", "waits for its turn: 3 replays a second"]


def test_replays_may_have_another_payload(job: Job, noon: datetime, later: datetime) -> None:
    dead(job, noon)
    dead_letters.replay(Matching(), args=[1], kwargs={"tenant": "other"}, now=later)
    (again,) = rows.of(job, trigger=Trigger.REPLAY)
    assert (again.args, again.kwargs) == ([1], {"tenant": "other"})


def test_a_replay_that_dies_in_turn_is_a_dead_letter_of_its_own(job: Job, noon: datetime, later: datetime) -> None:
    dead(job, noon)
    dead_letters.replay(Matching(), now=later)
    (again,) = rows.of(job, trigger=Trigger.REPLAY)
    lifecycle.fail(claimed(again, now=later + seconds(1)), error="boom", now=later + seconds(1))
    assert dead_letters.replay(Matching(), now=later).count == 0  # by a call that began before it died
    assert dead_letters.replay(Matching(), now=later + seconds(2)).count == 1


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("per_second", {"per_second": 0}),
        ("per_second", {"per_second": 1001}),
        ("per_second", {"per_second": 2.5}),
        ("per_second", {"per_second": True}),
        ("note", {"note": None}),
        ("args", {"args": [float("nan")]}),
        ("kwargs", {"kwargs": {"a": "\x00"}}),
        ("matching", {"matching": "all"}),
        ("since", {"matching": Matching(since=datetime(2026, 1, 1))}),  # noqa: DTZ001 - that is what is wrong
        ("job", {"matching": Matching(job=7)}),  # type: ignore[arg-type]
        ("ids", {"matching": Matching(ids=["7"])}),  # type: ignore[list-item]
    ],
)
def test_a_replay_that_cannot_be_is_refused_and_changes_nothing(
    job: Job, noon: datetime, later: datetime, field: str, wrong: dict[str, Any]
) -> None:
    dead(job, noon)
    before = rows.everything()
    with pytest.raises(InvalidRun) as refused:
        dead_letters.replay(**{"matching": Matching(), "now": later, **wrong})
    assert refused.value.field == field
    assert rows.everything() == before


# ── Discarded ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_discarding_marks_with_the_note_and_runs_nothing(job: Job, noon: datetime, later: datetime) -> None:
    one, two = dead(job, noon, "a"), dead(job, noon + seconds(1), "b")
    assert dead_letters.discard(Matching(fingerprint=of_error("a")), note="too old by now", now=later) == 1
    one.refresh_from_db()
    two.refresh_from_db()
    assert (one.handled_at, one.handled_note, two.handled_at) == (later, "too old by now", None)
    assert dead_letters.discard(Matching(ids=(one.pk,)), note="again", now=later) == 0
    assert Execution.objects.count() == 2


@pytest.mark.parametrize("note", ["", "  "])
def test_discarding_without_a_note_is_refused(job: Job, noon: datetime, note: str) -> None:
    dead(job, noon)
    message = a_message(noon)
    for act in (
        lambda: dead_letters.discard(Matching(), note=note, now=noon),
        lambda: dead_letters.discard_messages([message.pk], note=note, now=noon),
    ):
        with pytest.raises(InvalidRun, match="The note must not be empty") as refused:
            act()
        assert refused.value.field == "note"
    with pytest.raises(ValueError, match="discarded with a note"):
        of_executions.discard(Matching(), note=note, now=noon)
    assert sum(group.count for group in dead_letters.groups()) == 2


def test_messages_are_discarded_by_their_numbers(noon: datetime, later: datetime) -> None:
    one, two = a_message(noon), a_message(noon)
    assert dead_letters.discard_messages([one.pk, 10**6], note="foreign", now=later) == 1
    one.refresh_from_db()
    two.refresh_from_db()
    assert (one.handled_at, one.handled_note, two.handled_at) == (later, "foreign", None)


# ── Published again ──────────────────────────────────────────────────────────────────────────────────────────────


def test_a_message_is_published_again_as_it_was_into_its_queue_and_then_handled(
    noon: datetime, later: datetime, rejecting: Rejecting
) -> None:
    headers = {"task": "their.task", "id": "7", "raw": b"\xff\x00", "nested": [{"a": None}]}
    rejecting.publish(b"\xff\x00 body", headers=headers, correlation_id="7", priority=4, reply_to="there", **PLAIN)
    rejecting.reject()
    of_executions.collect(noon)
    kept = DeadMessage.objects.get()
    answer = dead_letters.replay_messages([kept.pk], note="the worker is back", now=later)
    assert (answer.replayed, answer.left) == ([kept.pk], {})
    with dead_letter_queue.opened() as queue:
        queue._name = queues.work_queue("default").name
        (again,) = queue.take(5)
    assert again.body == b"\xff\x00 body"
    assert again.headers == {**headers, "onbeat_replay_of": kept.digest}
    assert {"correlation_id": "7", "priority": 4, "reply_to": "there", **PLAIN}.items() <= again.properties.items()
    kept.refresh_from_db()
    assert (kept.handled_at, kept.handled_note) == (later, "the worker is back")


def test_a_message_that_dies_again_after_its_replay_is_kept_again(
    noon: datetime, later: datetime, rejecting: Rejecting
) -> None:
    rejecting.publish_task()
    rejecting.reject()
    for number in (1, 2, 3):
        of_executions.collect(noon)
        assert DeadMessage.objects.count() == number
        newest = DeadMessage.objects.latest("pk")
        assert dead_letters.replay_messages([newest.pk], now=later).replayed == [newest.pk]
        rejecting.reject()


def test_a_message_that_was_handled_or_is_not_there_is_left_out(
    noon: datetime, later: datetime, rejecting: Rejecting
) -> None:
    handled = a_message(noon, handled_at=noon)
    answer = dead_letters.replay_messages([handled.pk, 10**6], now=later)
    assert (answer.replayed, list(answer.left)) == ([], [handled.pk, 10**6])
    assert rejecting.work() == []


def test_a_message_whose_queue_nobody_knows_is_left(noon: datetime, later: datetime, rejecting: Rejecting) -> None:
    message = a_message(noon, queue="")
    answer = dead_letters.replay_messages([message.pk], now=later)
    assert answer.left == {message.pk: "nobody knows which queue it came from; send it anew, and discard this one"}


def test_a_message_that_could_not_be_kept_as_it_was_is_not_sent_as_something_else(
    noon: datetime, later: datetime, rejecting: Rejecting
) -> None:
    rejecting.publish(b"{}", headers={"task": "nul\x00task"}, **PLAIN)
    rejecting.reject()
    of_executions.collect(noon)
    (kept,) = DeadMessage.objects.all()
    answer = dead_letters.replay_messages([kept.pk], now=later)
    assert (answer.replayed, rejecting.work()) == ([], [])
    assert "could not be stored as it was" in answer.left[kept.pk]


@pytest.mark.full
def test_a_message_whose_queue_is_gone_stays_a_dead_letter_and_the_others_go(
    noon: datetime, later: datetime, rejecting: Rejecting
) -> None:
    before, lost, after = a_message(noon), a_message(noon, queue="nowhere.at.all"), a_message(noon)
    answer = dead_letters.replay_messages([before.pk, lost.pk, after.pk], now=later)
    assert answer.replayed == [before.pk, after.pk]
    assert "the broker does not take it for the queue 'nowhere.at.all'" in answer.left[lost.pk]
    assert len(rejecting.work()) == 2
    lost.refresh_from_db()
    assert lost.handled_at is None


@pytest.mark.full
def test_a_message_that_its_queue_refuses_stays_a_dead_letter(
    noon: datetime, later: datetime, broker: Queues, rejecting: Rejecting
) -> None:
    rejecting.declare("full", {"x-max-length": 0, "x-overflow": "reject-publish"})
    try:
        message = a_message(noon, queue=queues.work_queue("full").name)
        assert "is full" in dead_letters.replay_messages([message.pk], now=later).left[message.pk]
    finally:
        broker.delete("full")
    message.refresh_from_db()
    assert message.handled_at is None


def test_while_the_broker_is_away_messages_stay_dead_letters(
    noon: datetime, later: datetime, broker: Queues, no_broker: None
) -> None:
    message = a_message(noon)
    answer = dead_letters.replay_messages([message.pk], now=later)
    assert (answer.replayed, list(answer.left)) == ([], [message.pk])
    assert "the broker is away" in answer.left[message.pk]
    message.refresh_from_db()
    assert message.handled_at is None


def test_without_a_moment_the_databases_time_is_taken(job: Job) -> None:
    then = datetime(2026, 1, 1, tzinfo=UTC)
    for number in range(2):
        dead(job, then + seconds(number), str("ab"[number]))
    message, other = a_message(then), a_message(then)
    dead_letters.replay(Matching(fingerprint=of_error("a")))
    dead_letters.discard(Matching(), note="x")
    dead_letters.discard_messages([message.pk], note="x")
    handled = [*Execution.objects.filter(state=State.DEAD), DeadMessage.objects.get(pk=message.pk)]
    assert all(row.handled_at is not None and row.handled_at > then for row in handled)
    other.refresh_from_db()
    assert other.handled_at is None
