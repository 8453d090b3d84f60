"""`dead_letters`: it lists groups, shows one, replays at a pace and discards with a note, and refuses in a sentence."""

import sys
from collections.abc import Sequence
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from django.core.management import CommandError

from access.models import AuditEntry
from executions import lifecycle, queues, words
from executions.clock import database_now
from executions.models import DeadMessage, Execution
from executions.states import Trigger
from jobs import definitions
from jobs.models import Job
from tests import at_terminal, rows
from tests.at_terminal import Terminal, ended, typed
from tests.inhabited import dead_messages
from tests.integration.conftest import Queues
from tests.making import a_job, claimed, planned, seconds
from tests.tiers import once_full

pytestmark = [pytest.mark.django_db, once_full]


@pytest.fixture
def dead() -> list[Execution]:
    """Four of one job with one error, two of another with another."""
    now = database_now() - timedelta(hours=1)
    made = []
    for key, count, error in (("bill", 4, "ValueError: no"), ("mail", 2, "OSError: away")):
        job = a_job(now=now, key=key, max_attempts=1)
        for number in range(count):
            row = planned(job, now + seconds(number))
            lifecycle.fail(claimed(row, now=now), error=error, now=now + seconds(number))
            made.append(Execution.objects.get(pk=row.pk))
    return made


@pytest.fixture
def messages(broker: Queues) -> list[int]:
    return [row.pk for row in dead_messages(2, database_now())]


def letters(*arguments: str) -> list[str]:
    return typed("dead_letters", *arguments)


def document(*arguments: str) -> Any:
    return at_terminal.document("dead_letters", *arguments)


def exit_code(*arguments: str) -> tuple[int, list[str]]:
    return ended("dead_letters", *arguments)


def replays() -> list[Execution]:
    return list(Execution.objects.filter(trigger=Trigger.REPLAY).order_by("available_at"))


def waiting() -> int:
    return Execution.objects.filter(state="DEAD", handled_at=None).count()


# ── Look ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_groups_are_listed_the_largest_first(dead: list[Execution]) -> None:
    heads, first, second = letters("list")
    assert heads.split() == ["COUNT", "FINGERPRINT", "JOBS", "LATEST", "ERROR"]
    assert first.split()[:3] == ["4", dead[0].fingerprint, "bill"]
    assert first.endswith("ago  ValueError: no")
    assert second.split()[:3] == ["2", dead[4].fingerprint, "mail"]


def test_the_list_as_json_has_the_groups_of_rest(dead: list[Execution]) -> None:
    listed = document("list")
    assert [(group["count"], group["jobs"]) for group in listed["groups"]] == [(4, ["bill"]), (2, ["mail"])]
    assert (listed["messages"], listed["has_more_messages"]) == ([], False)


def test_filters_find_what_they_say(dead: list[Execution]) -> None:
    def jobs(*options: str) -> list[str]:
        return [key for group in document("list", *options)["groups"] for key in group["jobs"]]

    assert jobs("--job", "mail") == ["mail"]
    assert jobs("--queue", "other") == jobs("--task", "other") == jobs("--since", "30m") == []
    assert jobs("--until", "30m") == ["bill", "mail"]
    assert letters("list", "--queue", "other") == ["No dead letter matches."]


def test_dead_letters_of_a_job_that_is_over_are_found(dead: list[Execution]) -> None:
    definitions.archive(Job.objects.get(key="mail"))
    assert document("list", "--job", "mail")["groups"][0]["count"] == 2


def test_where_there_is_none_it_says_so() -> None:
    assert letters("list") == ["No dead letter waits for a person."]
    assert document("list") == {"groups": [], "messages": [], "has_more_messages": False}


def test_messages_of_no_execution_are_listed(messages: list[int]) -> None:
    lines = letters("list")
    assert "no job" in lines[1]
    assert "Messages of no execution" in lines
    assert sorted(int(line.split()[0]) for line in lines[-2:]) == messages
    assert sorted(each["id"] for each in document("list")["messages"]) == messages


def test_a_group_is_shown_with_its_latest_executions(dead: list[Execution]) -> None:
    lines = letters("show", dead[0].fingerprint)
    assert lines[0] == "ValueError: no"
    assert "count        4 executions" in lines
    assert [str(row.pk) in "\n".join(lines) for row in dead] == [True] * 4 + [False] * 2
    assert f"`./onbeat dead_letters replay {dead[0].fingerprint}` runs them again" in lines[-1]
    shown = document("show", dead[0].fingerprint)
    assert [item["id"] for item in shown["items"]] == [str(row.pk) for row in reversed(dead[:4])]
    assert (shown["count"], shown["example"], shown["message_items"]) == (4, "ValueError: no", [])


def test_a_group_of_messages_is_shown_with_how_to_settle_them(messages: list[int]) -> None:
    lines = letters("show", document("list")["groups"][0]["fingerprint"])
    assert lines[0].startswith("No worker knows the task")
    assert "replay --message ID` publishes one again" in lines[-1]


# ── Replay ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_dry_run_counts_and_does_nothing(dead: list[Execution]) -> None:
    before = rows.everything()
    for verb in (["replay"], ["discard", "--note", "x"]):
        assert letters(*verb, dead[0].fingerprint, "--dry-run") == [
            "4 dead letters wait for a person.",
            "Nothing was done.",
        ]
    assert document("replay", "--all", "--dry-run") == {"matching": 6, "done": 0}
    assert rows.everything() == before


def test_a_group_is_replayed_at_its_pace_over_several_batches(
    dead: list[Execution], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("terminal.dead_letters.settling.BATCH", 3)
    options = ["--per-second", "2", "--note", "the bank is back", "--by", "ops", "--yes"]
    lines = letters("replay", dead[0].fingerprint, *options)
    assert lines[:2] == ["4 dead letters wait for a person.", "4 dead letters replayed."]
    moments = [row.available_at for row in replays()]
    assert lines[2] == f"The last comes at {words.clock(moments[-1])}."
    assert [later - earlier for earlier, later in pairwise(moments)] == [timedelta(seconds=0.5)] * 3
    assert {row.replay_of for row in replays()} == {row.pk for row in dead[:4]}
    assert waiting() == 2
    entries = AuditEntry.objects.order_by("pk")
    assert [(e.who, e.through, e.action, e.after, e.note) for e in entries] == [
        ("ops", "command", "dead_letter.replay", {"replayed": count}, "the bank is back") for count in (3, 1)
    ]
    assert entries[0].before["filter"]["fingerprint"] == dead[0].fingerprint


def test_chosen_ones_are_replayed_with_another_payload(dead: list[Execution]) -> None:
    ids = [word for row in dead[1:3] for word in ("--id", str(row.pk))]
    assert document("replay", *ids, "--kwargs", '{"n": 1}', "--yes") == {"matching": 2, "done": 2}
    assert [(row.replay_of, row.kwargs) for row in replays()] == [(row.pk, {"n": 1}) for row in dead[1:3]]


def test_what_is_handled_is_not_replayed_again(dead: list[Execution]) -> None:
    letters("replay", "--job", "bill", "--yes")
    assert exit_code("replay", "--job", "bill", "--yes") == (1, ["0 dead letters wait for a person."])
    assert len(replays()) == 4


@pytest.mark.parametrize(("answer", "count"), [("y\n", 2), ("n\n", 0), ("", 0)])
def test_on_a_terminal_it_asks(
    dead: list[Execution],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    answer: str,
    count: int,
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    lines = letters("replay", "--job", "mail")
    assert (len(replays()), lines[-1] == "Nothing was done.") == (count, not count)
    assert capsys.readouterr().err == "Replay them? [y/N] "


def test_what_gives_up_after_it_was_counted_is_left_alone(
    dead: list[Execution], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Slow(Terminal):
        def readline(self, _size: int = -1) -> str:
            now = database_now()
            row = planned(Job.objects.get(key="mail"), now)
            lifecycle.fail(claimed(row, now=now), error="OSError: away", now=now)
            return "y\n"

    for verb in (["replay"], ["discard", "--note", "x"]):
        monkeypatch.setattr(sys, "stdin", Slow())
        letters(*verb, "--job", "mail")
        assert Execution.objects.filter(state="DEAD", handled_at=None, job__key="mail").count() == 1


# ── Discard ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_group_is_discarded_with_a_note(dead: list[Execution]) -> None:
    assert letters("discard", "--job", "bill", "--note", "the tenant is gone", "--yes") == [
        "4 dead letters wait for a person.",
        "4 dead letters discarded.",
    ]
    dead[0].refresh_from_db()
    assert (dead[0].state, dead[0].handled_note, waiting(), replays()) == ("DEAD", "the tenant is gone", 2, [])
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.after, entry.note) == ("dead_letter.discard", {"discarded": 4}, "the tenant is gone")


def test_without_a_note_nothing_is_discarded(dead: list[Execution]) -> None:
    with pytest.raises(CommandError, match="--note"):
        letters("discard", "--job", "bill", "--yes")
    assert waiting() == 6


# ── Messages ─────────────────────────────────────────────────────────────────────────────────────────────────────


def named(messages: Sequence[int]) -> list[str]:
    return [word for pk in messages for word in ("--message", str(pk))]


def test_a_message_is_published_again(messages: list[int], broker: Queues) -> None:
    queues.work_queue("default").bind(broker.channel).declare()
    DeadMessage.objects.filter(pk=messages[1]).update(queue="")
    told = document("replay", *named(messages), "--yes")
    assert told["replayed"] == messages[:1]
    assert broker.take().headers["id"] == "1"
    assert "which queue it came from" in told["left"][str(messages[1])]
    entry = AuditEntry.objects.get()
    assert (entry.through, entry.action, entry.before) == ("command", "dead_message.replay", {"messages": messages})


def test_a_message_that_the_broker_does_not_take_stays_and_that_is_told(messages: list[int], no_broker: None) -> None:
    code, lines = exit_code("replay", *named(messages[:1]), "--yes")
    assert (code, lines[0]) == (1, "0 messages published again.")
    assert lines[1].startswith(f"Message {messages[0]} stays: the broker is away")


def test_messages_are_discarded_with_a_note(messages: list[int]) -> None:
    assert letters("discard", *named([*messages, 2**40]), "--note", "not ours", "--yes") == [
        "2 messages discarded.",
        "1 of them were handled already, or there are none of these ids.",
    ]
    assert exit_code("discard", *named(messages), "--note", "not ours", "--yes", "--json")[0] == 1
    assert AuditEntry.objects.filter(action="dead_message.discard").count() == 2


def test_a_dry_run_leaves_messages_alone(messages: list[int]) -> None:
    assert letters("discard", *named(messages), "--note", "x", "--dry-run") == ["Nothing was done."]
    assert DeadMessage.objects.filter(handled_at=None).count() == 2


# ── Refusals ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["show", "nope"], "No dead letter with the fingerprint 'nope' waits; `./onbeat dead_letters list` shows"),
        (["replay", "--yes"], "Say which dead letters: a fingerprint, --job, --task, --queue, --id or --message;"),
        (["replay", "--job", "bil", "--yes"], "did you mean 'bill'"),
        (["list", "--job", "bil"], "did you mean 'bill'"),
        (["replay", "--all", "--per-second", "0", "--yes"], "--per-second must be 1 to 1000, not 0."),
        (["replay", "--all", "--args", "{}", "--yes"], "--args must be a list"),
        (["replay", "--id", "nope", "--yes"], "'nope' is no id of an execution"),
        (["replay", "--all", "--since", "soon", "--yes"], "--since 'soon' is no moment"),
        (["replay", "--all", "--message", "1", "--yes"], "Name messages by --message, or dead letters of executions"),
        (["replay", "--message", "0", "--yes"], "--message must be the number of a message"),
        (["replay", "--message", "1", "--args", "[]", "--yes"], "A message is published as it is; leave --args"),
        (["discard", "--all", "--note", " ", "--yes"], "The note must not be empty"),
    ],
)
def test_what_cannot_be_is_refused_and_changes_nothing(dead: list[Execution], arguments: list[str], says: str) -> None:
    before = rows.everything()
    with pytest.raises(CommandError) as error:
        letters(*arguments)
    assert error.value.returncode == 2
    assert says in str(error.value)
    assert str(error.value).endswith((".", "?"))
    assert (rows.everything(), AuditEntry.objects.count()) == (before, 0)
