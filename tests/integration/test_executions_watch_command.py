"""`executions watch`, and whoever else waits: each change is told, until it is over."""

import json
import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest
from django.core.management import CommandError

from api.executions.named import found
from executions import lifecycle
from executions.clock import database_now
from executions.models import Execution
from jobs.models import Job
from terminal.executions import following
from terminal.executions.following import exit_of, wait_until_over
from terminal.frame import Exit
from tests.at_terminal import ended, refusal, typed
from tests.making import a_job, claimed, given_up, planned, seconds
from tests.tiers import once_full

pytestmark = [pytest.mark.django_db, once_full]


@pytest.fixture
def now() -> datetime:
    return database_now()


@pytest.fixture
def job(now: datetime) -> Job:
    return a_job(now=now, key="billing.daily", max_attempts=3)


@pytest.fixture
def dead(job: Job, now: datetime) -> Execution:
    return given_up(job, now - seconds(60), error="ValueError: no\x1b[31m bank {attempt}\n  at line 1")


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What happens in the pauses between two looks, one after the other; then Ctrl-C."""
    waiting: list[Any] = []

    def pause(_seconds: float, _deadline: float | None) -> bool:
        if not waiting:
            raise KeyboardInterrupt
        waiting.pop(0)()
        return True

    monkeypatch.setattr(following, "_pauses", pause)
    return waiting


def lived(job: Job, now: datetime) -> tuple[Execution, Iterator[Any]]:
    """An execution, and what becomes of it step by step."""
    row = planned(job, now)
    claims: list[Any] = []
    return row, iter(
        [
            lambda: lifecycle.mark_queued([row], now=now),
            lambda: claims.append(claimed(row, now=now)),
            lambda: None,
            lambda: lifecycle.succeed(claims[0], result=None, now=now + seconds(2)),
        ]
    )


def test_a_named_execution_is_watched_until_it_is_over(job: Job, now: datetime, steps: list[Any]) -> None:
    row, life = lived(job, now)
    steps += life
    lines = typed("executions", "watch", str(row.pk))
    assert [line.split()[3] for line in lines] == ["SCHEDULED", "QUEUED", "RUNNING", "SUCCEEDED"]
    assert lines[-1].endswith(f"SUCCEEDED  billing.daily  {row.pk}  attempt 1 of 3  took 2.0 s")
    assert lines[1].endswith("in default")
    assert lines[2].endswith("on worker@here")


def test_with_json_each_change_is_a_document_a_line(job: Job, now: datetime, steps: list[Any]) -> None:
    row, life = lived(job, now)
    steps += life
    told = [json.loads(line) for line in typed("executions", "watch", str(row.pk), "--json")]
    assert [each["state"] for each in told] == ["SCHEDULED", "QUEUED", "RUNNING", "SUCCEEDED"]
    assert {each["id"] for each in told} == {str(row.pk)}
    assert told[2]["why"].startswith("Attempt 1 runs on worker@here since")
    assert told[2]["at"] == told[2]["started_at"]


def test_what_did_not_succeed_is_exit_code_1_and_what_is_not_over_3(dead: Execution, job: Job, now: datetime) -> None:
    code, lines = ended("executions", "watch", str(dead.pk))
    assert (code, len(lines)) == (1, 1)
    assert lines[0].endswith("attempt 3 of 3  ValueError: no�[31m bank 3")
    open_one = planned(job, now + seconds(30))
    code, (line,) = ended("executions", "watch", str(open_one.pk), "--seconds", "0")
    assert code == 3
    assert re.search(r"SCHEDULED  billing.daily .* comes in (29|30) s$", line)
    lifecycle.cancel([open_one.pk], reason="not wanted", now=now)
    assert ended("executions", "watch", str(open_one.pk))[0] == 1


def test_changes_of_a_job_are_told_until_nothing_is_to_come(job: Job, now: datetime, steps: list[Any]) -> None:
    row, life = lived(job, now)
    planned(a_job(now=now, key="other"), now)
    steps += life
    lines = typed("executions", "watch", "--job", "billing.daily", "--until-over")
    assert [line.split()[3] for line in lines] == ["SCHEDULED", "QUEUED", "RUNNING", "SUCCEEDED"]
    assert all(str(row.pk) in line for line in lines)


def test_a_watch_for_so_many_seconds_ends_with_0(job: Job, now: datetime) -> None:
    planned(job, now)
    (line,) = typed("executions", "watch", "--seconds", "0")
    assert "SCHEDULED  billing.daily" in line
    assert typed("executions", "watch", "--state", "RUNNING", "--seconds", "0") == []


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--seconds", "-1"], "--seconds must be a number from 0 on, not -1."),
        (["--seconds", "nan"], "--seconds must be a number from 0 on, not nan."),
        (["--job", "biling.daily"], "did you mean 'billing.daily'?"),
        (["01999999-0000", "--job", "billing.daily"], "Name one execution, or say which by a filter; not both."),
        (["01999999-0000"], "No execution has an id that begins with"),
    ],
)
def test_a_watch_that_cannot_be_is_refused(job: Job, options: list[str], says: str) -> None:
    assert says in refusal("executions", "watch", *options)


def test_whoever_waits_learns_each_state_and_how_it_ended(job: Job, now: datetime, steps: list[Any]) -> None:
    row, life = lived(job, now)
    steps += life
    met: list[str] = []
    over = wait_until_over(row.pk, on_change=lambda each: met.append(each.state))
    assert met == ["SCHEDULED", "QUEUED", "RUNNING", "SUCCEEDED"]
    assert exit_of(over) is Exit.DONE
    assert exit_of(found(planned(job, now + seconds(9)).pk)) is Exit.NOT_YET


def test_an_execution_that_is_taken_back_meanwhile_is_told(job: Job, now: datetime, steps: list[Any]) -> None:
    row = planned(job, now)
    steps.append(Execution.objects.filter(pk=row.pk).delete)
    with pytest.raises(CommandError, match="was taken back, as when its job is paused"):
        typed("executions", "watch", str(row.pk))
