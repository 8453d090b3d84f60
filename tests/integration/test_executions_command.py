"""`executions`: it lists, shows, cancels, retries and replays, as text and as JSON, with its exit codes."""

import json
import re
import sys
import uuid
from datetime import datetime, timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from access.models import AuditEntry
from executions import lifecycle
from executions.clock import database_now
from executions.models import Execution
from executions.states import State, Trigger
from jobs.models import Job
from tests import at_terminal, rows
from tests.at_terminal import Terminal, ended, typed
from tests.making import a_job, asked_for, claimed, given_up, planned, seconds, succeeded
from tests.tiers import once_full

pytestmark = [pytest.mark.django_db, once_full]
ID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"


@pytest.fixture
def now() -> datetime:
    return database_now()


@pytest.fixture
def job(now: datetime) -> Job:
    return a_job(now=now, key="billing.daily", max_attempts=3)


@pytest.fixture
def dead(job: Job, now: datetime) -> Execution:
    return given_up(job, now - seconds(60), error="ValueError: no\x1b[31m bank {attempt}\n  at line 1")


def executions(*arguments: str) -> list[str]:
    return typed("executions", *arguments)


def document(*arguments: str) -> Any:
    return at_terminal.document("executions", *arguments)


def exit_code(*arguments: str) -> tuple[int, list[str]]:
    return ended("executions", *arguments)


def refusal(*arguments: str) -> str:
    """What would be done may have been shown before."""
    before, entries = rows.everything(), AuditEntry.objects.count()
    with pytest.raises(CommandError) as error:
        call_command("executions", *arguments, stdout=StringIO())
    assert error.value.returncode == 2
    assert (rows.everything(), AuditEntry.objects.count()) == (before, entries)
    text = str(error.value)
    assert text.isprintable()
    assert text.endswith((".", "?"))
    return text


# ── List and show ────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_list_has_the_latest_fire_first_and_is_never_wrapped(job: Job, dead: Execution, now: datetime) -> None:
    new = planned(job, now)
    heads, first, second = executions("list")
    assert heads.split() == ["FIRE", "TIME", "JOB", "STATE", "TRIGGER", "ATTEMPT", "TOOK", "ID", "WHY"]
    assert re.fullmatch(rf"\S+ \S+ UTC  billing.daily  SCHEDULED  schedule  1 of 3   -       {new.pk}", first)
    assert re.sub(" +", " ", second).endswith(
        f" billing.daily DEAD schedule 3 of 3 500 ms {dead.pk} ValueError: no�[31m bank 3"
    )


def test_the_list_as_json_is_what_rest_answers(job: Job, dead: Execution) -> None:
    listed = document("list")
    assert listed["has_more"] is False
    assert [(item["id"], item["job"], item["state"]) for item in listed["items"]] == [
        (str(dead.pk), "billing.daily", "DEAD")
    ]


def test_filters_find_what_they_say(job: Job, dead: Execution, now: datetime) -> None:
    other = planned(a_job(now=now, key="other", queue="mail"), now - timedelta(hours=3))

    def ids(*options: str) -> list[str]:
        return [item["id"] for item in document("list", *options)["items"]]

    assert ids("--job", "other") == ids("--queue", "mail") == ids("--state", "scheduled") == [str(other.pk)]
    assert ids("--fingerprint", dead.fingerprint) == ids("--worker", "worker@here") == [str(dead.pk)]
    assert ids("--since", "2h") == [str(dead.pk)]
    assert ids("--until", "2h") == [str(other.pk)]
    assert ids("--state", "DEAD", "--state", "SCHEDULED") == [str(dead.pk), str(other.pk)]
    assert ids("--trigger", "manual") == []


def test_more_than_the_limit_is_told_with_how_to_see_it(job: Job, now: datetime) -> None:
    asked_for(job, 3, now=now - timedelta(hours=1))
    *_, last = executions("list", "--limit", "2")
    until = re.fullmatch(r"There may be older ones; --until (\S+) goes on from here\.", last)
    assert until
    assert len(document("list", "--until", until[1])["items"]) == 2  # the last of those before, and the rest
    assert document("list", "--limit", "2")["has_more"] is True


def test_pages_that_hold_little_are_followed(job: Job, now: datetime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("executions.finding.LOOKED_AT", 2)
    planned(a_job(now=now, key="rare", queue="mail"), now - timedelta(hours=2))
    asked_for(job, 8, now=now - timedelta(hours=1))
    assert len(document("list", "--queue", "mail")["items"]) == 1


def test_an_empty_list_says_so() -> None:
    assert executions("list") == ["There is no execution yet."]
    assert executions("list", "--queue", "mail") == ["No execution matches."]
    assert document("list") == {"items": [], "has_more": False}


def test_an_execution_is_shown_with_why_first_and_no_command_for_the_terminal(dead: Execution) -> None:
    lines = executions("show", str(dead.pk))
    assert lines[0].startswith("It was given up after attempt 3")
    assert next(line.split() for line in lines if line.startswith("3 "))[:2] == ["3", "FAILED"]
    assert "Error of attempt 2" in lines
    assert lines[-2:] == ["  ValueError: no�[31m bank 3", "    at line 1"]
    assert "\x1b" not in "".join(lines)


def test_shown_as_json_it_is_what_rest_answers_in_full(dead: Execution) -> None:
    shown = document("show", str(dead.pk))
    assert (shown["id"], shown["state"], len(shown["attempts"]), shown["args"]) == (str(dead.pk), "DEAD", 3, [])
    assert shown["timeline"][-1]["what"] == "DEAD"


def test_an_id_may_be_shortened_if_no_other_begins_so(dead: Execution, job: Job) -> None:
    whole = str(dead.pk)
    for short in (whole[:30], whole[:30].upper(), dead.pk.hex[:25]):
        assert document("show", short)["id"] == whole
    twin = Execution.objects.get(pk=dead.pk)
    twin.pk = uuid.UUID(int=dead.pk.int ^ 1)
    twin.trigger = Trigger.MANUAL
    twin.save(force_insert=True)
    assert refusal("show", whole[:30]).startswith(f"Several executions have an id that begins with {whole[:30]}, as ")
    assert document("show", whole)["id"] == whole


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("0199", "'0199' is no id of an execution; `./onbeat executions list` shows them."),
        ("nonsense", "'nonsense' is no id of an execution"),
        ("01" * 17, "is no id of an execution"),
        ("٣٣٣٣٣٣٣٣", "is no id of an execution"),
        ("01999999-0000", "No execution has an id that begins with 01999999-0000; old ones are removed"),
        ("ffffffff", "No execution has an id that begins with ffffffff"),
        (str(uuid.UUID(int=5)), "There is no execution 00000000-0000-0000-0000-000000000005; old ones are removed"),
        ("f" * 32, "There is no execution ffffffff"),
    ],
)
def test_a_wrong_id_is_one_sentence(dead: Execution, text: str, says: str) -> None:
    assert says in refusal("show", text)


# ── Cancel, retry, replay ────────────────────────────────────────────────────────────────────────────────────────


def test_executions_are_cancelled_by_id_each_for_itself(job: Job, dead: Execution, now: datetime) -> None:
    waiting, running = planned(job, now), planned(job, now + seconds(1))
    claimed(running, now=now)
    gone = uuid.UUID(int=waiting.pk.int ^ 1)
    ids = [str(pk) for pk in (waiting.pk, running.pk, dead.pk, gone, waiting.pk)]
    assert executions("cancel", *ids, "--reason", "the customer left", "--by", "ops") == [
        f"{waiting.pk}  cancelled",
        f"{running.pk}  asked to stop",
        f"{dead.pk}  It is DEAD and can no longer be cancelled.",
        f"{gone}  There is no execution {gone}; old ones are removed after their days.",
    ]
    waiting.refresh_from_db()
    assert (waiting.state, waiting.reason) == (State.CANCELLED, "the customer left")
    entries = AuditEntry.objects.order_by("pk")
    assert [(e.who, e.through, e.action, e.subject, e.note) for e in entries] == [
        ("ops", "command", "execution.cancel", f"execution:{pk}", "the customer left")
        for pk in (waiting.pk, running.pk)
    ]


def test_if_nothing_could_be_done_the_exit_code_is_1_and_there_is_no_entry(dead: Execution) -> None:
    code, (line,) = exit_code("cancel", str(dead.pk), "--json")
    assert code == 1
    problem = "It is DEAD and can no longer be cancelled."
    assert json.loads(line) == {"done": 0, "items": [{"id": str(dead.pk), "problem": problem}]}
    assert exit_code("retry", str(dead.pk))[1] == [
        f"{dead.pk}  It is DEAD at attempt 3: no retry waits for its time here."
    ]
    assert not AuditEntry.objects.exists()


def test_a_dry_run_by_id_tells_the_states_and_does_nothing(job: Job, now: datetime) -> None:
    row = planned(job, now)
    before = rows.everything()
    assert executions("cancel", str(row.pk), "--dry-run") == [
        f"{row.pk}  billing.daily, SCHEDULED",
        "Would cancel 1 execution, if it can.",
    ]
    assert rows.everything() == before


def test_a_retry_that_waits_comes_now(job: Job, now: datetime) -> None:
    row = planned(job, now)
    lifecycle.fail(claimed(row, now=now), error="no", now=now)
    assert document("retry", str(row.pk)) == {
        "done": 1,
        "items": [{"id": str(row.pk), "outcome": "its next attempt comes now"}],
    }
    row.refresh_from_db()
    assert row.available_at < now + seconds(10)
    assert AuditEntry.objects.get().action == "execution.retry_now"


def test_a_dead_execution_is_replayed_with_another_payload(dead: Execution) -> None:
    (line,) = executions("replay", str(dead.pk), "--args", "[1]", "--kwargs", '{"n": 2}', "--note", "mended")
    new = Execution.objects.get(trigger=Trigger.REPLAY)
    assert line == f"{dead.pk}  runs again as {new.pk}"
    assert (new.replay_of, new.args, new.kwargs) == (dead.pk, [1], {"n": 2})
    dead.refresh_from_db()
    assert dead.handled_note == "mended"
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.after, entry.note) == ("execution.replay", {"replay": str(new.pk)}, "mended")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["replay", "ID", "--args", "nope"], "--args is no JSON; write a list, such as [1, 2]."),
        (["replay", "ID", "--args", "{}"], "--args must be a list, such as [1, 2]."),
        (["replay", "ID", "--kwargs", "[]"], '--kwargs must be an object, such as {"name": "value"}.'),
        (
            ["replay", "ID", "--kwargs", "[" * 100_000],
            '--kwargs is no JSON; write an object, such as {"name": "value"}.',
        ),
        (["replay", "--job", "billing.daily", "--args", "[]"], "Another payload is for executions that are named"),
        (["cancel"], "Name executions by their ids, or say which by a filter such as --job KEY --state QUEUED."),
        (["cancel", "ID", "--job", "billing.daily"], "or say which by a filter; not both."),
        (["cancel", "ID", "nonsense"], "'nonsense' is no id of an execution"),
        (["cancel", "--job", "biling.daily", "--yes"], "did you mean 'billing.daily'?"),
        (["cancel", "--since", "soon", "--yes"], "--since 'soon' is no moment"),
        (["list", "--limit", "0"], "--limit must be 1 to 200, not 0."),
    ],
)
def test_what_cannot_be_is_refused_and_changes_nothing(dead: Execution, arguments: list[str], says: str) -> None:
    words = [str(dead.pk) if word == "ID" else word for word in arguments]
    assert says in refusal(*words)


# ── All that match ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def waiting(job: Job, now: datetime) -> list[Execution]:
    succeeded(job, now - seconds(90))
    return asked_for(job, 5, now=now)


def test_a_dry_run_counts_and_does_nothing(waiting: list[Execution]) -> None:
    before = rows.everything()
    assert executions("cancel", "--job", "billing.daily", "--dry-run") == [
        "5 executions match and are not over.",
        "Nothing was done.",
    ]
    assert document("cancel", "--job", "billing.daily", "--dry-run") == {
        "is_done": False,
        "matching": 5,
        "done": 0,
        "asked_to_stop": 0,
    }
    assert rows.everything() == before


def test_all_that_match_are_cancelled_a_batch_at_a_time(
    waiting: list[Execution], now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    claimed(waiting[0], now=now)
    monkeypatch.setattr("terminal.executions.sweeping.BATCH", 2)
    assert executions("cancel", "--job", "billing.daily", "--reason", "closed", "--yes") == [
        "5 executions match and are not over.",
        "4 executions cancelled, 1 asked to stop.",
    ]
    assert set(Execution.objects.filter(state=State.CANCELLED).values_list("reason", flat=True)) == {"closed"}
    entries = AuditEntry.objects.order_by("pk")
    assert [(e.through, e.action, e.after["done"], e.note) for e in entries] == [
        ("command", "execution.cancel", done, "closed") for done in (1, 2, 1)
    ]
    assert entries[0].before == {"filter": {"job": "billing.daily"}}


@pytest.mark.parametrize(("answer", "count"), [("y\n", 5), ("n\n", 0), ("", 0)])
def test_on_a_terminal_it_asks(
    waiting: list[Execution],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    answer: str,
    count: int,
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    lines = executions("cancel", "--state", "SCHEDULED")
    assert Execution.objects.filter(state=State.CANCELLED).count() == count
    assert lines[-1] == ("5 executions cancelled." if count else "Nothing was done.")
    assert capsys.readouterr().err == "Cancel them? [y/N] "


def test_what_is_stored_after_it_was_counted_is_left_alone(
    waiting: list[Execution], job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Slow(Terminal):
        def readline(self, _size: int = -1) -> str:
            asked_for(job, 1, now=database_now())
            return "y\n"

    monkeypatch.setattr(sys, "stdin", Slow())
    assert executions("cancel", "--job", "billing.daily")[-1] == "5 executions cancelled."
    assert len(rows.of(job, state=State.SCHEDULED)) == 1


def test_where_nobody_can_be_asked_it_needs_a_yes(waiting: list[Execution], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", StringIO("y\n"))
    assert "add --yes" in refusal("cancel", "--job", "billing.daily")


def test_all_that_match_are_replayed_once(job: Job, waiting: list[Execution]) -> None:
    told = document("replay", "--job", "billing.daily", "--state", "SUCCEEDED", "--yes")
    assert told == {"is_done": True, "matching": 1, "done": 1, "asked_to_stop": 0}
    assert Execution.objects.filter(trigger=Trigger.REPLAY).count() == 1


def test_a_filter_that_matches_nothing_is_exit_code_1(job: Job) -> None:
    assert exit_code("cancel", "--job", "billing.daily", "--yes") == (1, ["0 executions match and are not over."])
    assert executions("cancel", "--job", "billing.daily", "--dry-run") == ["0 executions match and are not over."]


def test_every_verb_shows_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    for verb in ("list", "show", "watch", "cancel", "retry", "replay"):
        with pytest.raises(SystemExit):
            executions(verb, "--help")
        assert f"./onbeat executions {verb}" in capsys.readouterr().out
