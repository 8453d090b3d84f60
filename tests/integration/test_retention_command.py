"""`retention`: it tells what is kept for how long and what is past that, and removes it now, with an entry."""

import json
import sys
from datetime import datetime, timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django_celery_results.models import TaskResult

from access import audit
from access.models import AuditEntry, IdempotentAnswer
from beat import kept
from executions import lifecycle, partitions, retention
from executions.clock import database_now
from executions.models import DeadMessage, Execution, HourlyCount, HourlyTotal, RunKey
from executions.states import Trigger
from jobs import runs
from jobs.models import Job
from terminal.frame import Exit
from terminal.management.commands.retention import Command
from tests.at_terminal import Terminal
from tests.making import a_job, claimed, planned, seconds, succeeded

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_old_months")]
DAY = timedelta(days=1)


@pytest.fixture(autouse=True)
def _no_month_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitions, "_DROPPER_PATIENCE_MS", 1)


@pytest.fixture
def now() -> datetime:
    return database_now()


@pytest.fixture
def job(now: datetime) -> Job:
    """With an open run in the old month, which is why on PostgreSQL that is not dropped whole."""
    long_ago = now - 200 * DAY
    job = a_job(now=long_ago, key="billing", max_attempts=1)
    lifecycle.plan([job.new_execution(long_ago, trigger=Trigger.MANUAL, now=long_ago)])
    return job


@pytest.fixture
def old(job: Job, now: datetime) -> datetime:
    """Something of each kind that is past its time, and something that is not; when the old ones were."""
    long_ago = now - 200 * DAY
    for number in (1, 2, 3):
        succeeded(job, long_ago + seconds(number))
    lifecycle.fail(claimed(planned(job, long_ago + seconds(9)), now=long_ago), error="no", now=long_ago)
    succeeded(job, now - seconds(5))
    facts = {"queue": "q", "body": b"", "error": "no", "fingerprint": "f"}
    DeadMessage.objects.create(digest="old", collected_at=long_ago, **facts)
    DeadMessage.objects.create(digest="new", collected_at=now, **facts)
    sums = {"queue": "q", "state": "DEAD", "count": 1, "started": 0, "run_seconds": 0, "delay_seconds": 0}
    for hour in (now - 400 * DAY, now - DAY):
        HourlyCount.objects.create(job=job, hour=hour, longest_delay_seconds=0, **sums)
        HourlyTotal.objects.create(hour=hour, longest_delay_seconds=0, **sums)
    audit.record(who="ada", through="rest", action="job.run", subject="job:x", now=now - 400 * DAY)
    audit.record(who="ada", through="rest", action="job.run", subject="job:x", now=now)
    for key, created_at in (("old", now - 2 * DAY), ("new", now)):
        IdempotentAnswer.objects.create(
            owner="o", key=key, fingerprint="f", status=201, body="{}", created_at=created_at
        )
    for name, done in (("old", now - 2 * DAY), ("new", now)):
        TaskResult.objects.create(task_id=name)
        TaskResult.objects.filter(task_id=name).update(date_done=done)
    asked = runs.run(job, run_key="k", delay=timedelta(0), now=now - seconds(60))
    lifecycle.cancel([asked.execution_id], reason="x", now=now)
    runs.run(job, run_key="open", delay=timedelta(hours=1), now=now)
    return long_ago


PAST = {
    "executions": 3,
    "dead letters": 2,
    "statistics": 2,
    "audit trail": 1,
    "idempotent answers": 1,
    "results": 1,
    "run keys": 1,
}


def run(*arguments: str) -> list[str]:
    output = StringIO()
    call_command("retention", *arguments, stdout=output)
    return output.getvalue().splitlines()


def document(*arguments: str) -> Any:
    (line,) = run(*arguments, "--json")
    return json.loads(line)


def test_each_kind_is_told_with_its_time_its_setting_and_what_is_past(old: datetime, settings: Any) -> None:
    settings.ONBEAT_EXECUTIONS_RETENTION_DAYS = 20
    told = document("show")
    assert {kind["name"]: kind["past"] for kind in told["kinds"]} == PAST
    lines = run("show")
    assert lines[0].split() == ["KIND", "KEPT", "FOR", "PAST", "THAT", "SETTING"]
    assert lines[1].split() == ["executions", "20", "days", "3", "ONBEAT_EXECUTIONS_RETENTION_DAYS"]
    assert lines[5].split() == ["idempotent", "answers", "1", "d", "1", "fixed"]
    assert lines[7].split()[:7] == ["run", "keys", "until", "their", "run", "is", "over"]


@pytest.mark.embedded
def test_on_sqlite_there_are_no_months_and_that_is_told() -> None:
    assert run("show")[-1] == "This database has no partitions: executions are removed row by row."
    assert document("show")["months"] == []


@pytest.mark.full
def test_months_tell_when_they_go_and_why_not(old: datetime, job: Job, now: datetime) -> None:
    months = {month["name"]: month for month in document("show")["months"]}
    past, present = (months[f"onbeat_execution_{partitions.Month.of(moment)}"] for moment in (old, now))
    assert (past["can_go"], past["stays_for"]) == (False, "executions in it are not over")
    assert (present["can_go"], present["stays_for"]) == (False, "")
    assert datetime.fromisoformat(present["goes_from"]) == partitions.Month.of(now).following.start + 30 * DAY
    lines = run("show")
    (line,) = [line for line in lines if line.startswith(f"{old:%Y-%m}  ")]
    assert line.endswith("not yet: executions in it are not over")
    Execution.objects.filter(state="SCHEDULED", fire_time__lt=now - 100 * DAY).delete()
    months = {month["name"]: month for month in document("show")["months"]}
    assert months[past["name"]]["can_go"] is True


def test_what_is_past_its_time_is_removed_until_nothing_is_left(
    old: datetime, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention.prune, "__kwdefaults__", {"batch_size": 2, "most_batches": 1})
    told = document("run", "--yes", "--by", "ops")
    assert told == {
        "is_run": True,
        "removed": {"executions": 4, "dead messages": 1, **{n: PAST[n] for n in list(PAST)[2:]}},
    }
    assert {kind.name: kind.past for kind in kept.kinds(now)} == dict.fromkeys(PAST, 0)
    assert (RunKey.objects.count(), TaskResult.objects.count(), DeadMessage.objects.count()) == (1, 1, 1)
    entry = AuditEntry.objects.get(action="retention.run")
    assert (entry.who, entry.through, entry.subject) == ("ops", "command", "retention")
    assert entry.after["executions"] == 4
    assert document("run", "--yes") == {"is_run": False, "removed": {}}
    assert run("run") == ["Nothing is past its time."]


def test_a_dry_run_and_a_no_remove_nothing(
    old: datetime, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first = "Past their time: " + ", ".join(f"{name} {number}" for name, number in PAST.items()) + "."
    assert run("run", "--dry-run") == [first, "Nothing was done."]
    monkeypatch.setattr(sys, "stdin", Terminal("n\n"))
    assert run("run") == [first, "Nothing was done."]
    assert capsys.readouterr().err == "Remove it? [y/N] "
    assert not AuditEntry.objects.filter(action="retention.run").exists()
    monkeypatch.setattr(sys, "stdin", StringIO())
    with pytest.raises(CommandError, match="add --yes"):
        run("run")


def test_what_was_removed_before_it_was_stopped_is_told_in_the_audit_trail(old: datetime, now: datetime) -> None:
    parts = kept.remove_past(now, by="ops", through="command")
    assert next(parts) == ("months", 0)
    assert next(parts) == ("executions", 4)
    parts.close()
    assert AuditEntry.objects.get(action="retention.run").after == {"months": 0, "executions": 4}


@pytest.mark.parametrize("words", [[], ["--json"]])
def test_without_a_verb_it_shows(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    Command().run_from_argv(["./onbeat", "retention", *words])
    said = capsys.readouterr().out
    assert said.startswith('{"kinds"' if words else "KIND ")


def test_the_help_is_that_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        Command().run_from_argv(["./onbeat", "retention", "--help"])
    assert ended.value.code == Exit.DONE
    assert "`retention run` removes" in " ".join(capsys.readouterr().out.split())
