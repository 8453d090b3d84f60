"""`jobs backfill`: it says what would be done, asks, does it, and refuses in one sentence."""

import json
import sys
from datetime import UTC, datetime, timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from access.models import AuditEntry
from executions import lifecycle
from executions.models import Execution
from executions.states import State
from jobs import definitions
from jobs.models import Job, Schedule
from jobs.recurrence import Cron
from tests import rows
from tests.at_terminal import Terminal
from tests.making import a_job, planned
from tests.tiers import once_embedded

pytestmark = [pytest.mark.django_db, once_embedded]
MADE_AT = datetime(2026, 6, 1, tzinfo=UTC)  # past, whatever the clock of the database says


@pytest.fixture
def job() -> Job:
    job = a_job(now=MADE_AT, key="billing.daily", schedule=Cron("30 7 * * *", timezone="Europe/Berlin"))
    Schedule.objects.update(next_fire_at=MADE_AT + timedelta(days=9))
    return job


def jobs(*arguments: str) -> list[str]:
    output = StringIO()
    call_command("jobs", *arguments, stdout=output)
    return output.getvalue().splitlines()


def backfill(*options: str, start: str = "2026-05-20", end: str = "2026-05-28") -> list[str]:
    return jobs("backfill", "billing.daily", "--from", start, "--to", end, *options)


def refusal(*arguments: str) -> str:
    with pytest.raises(CommandError) as error:
        jobs(*arguments)
    assert error.value.returncode == 2
    text = str(error.value)
    assert text.isprintable()
    assert text.endswith((".", "?"))
    return text


def test_a_dry_run_says_what_would_be_done_and_does_nothing(job: Job) -> None:
    lifecycle.skip([planned(job, datetime(2026, 5, 21, 5, 30, tzinfo=UTC)).pk], reason="expired", now=MADE_AT)
    planned(job, datetime(2026, 5, 27, 5, 30, tzinfo=UTC))
    before = rows.everything()
    *lines, pace, end = backfill("--dry-run", "--per-minute", "10")
    assert lines == [
        "9 fires of billing.daily from 2026-05-20 00:00:00 CEST (2026-05-19 22:00:00 UTC) "
        "to 2026-05-28 23:59:59 CEST (2026-05-28 21:59:59 UTC): 7 without a row, 1 skipped, 1 kept as they are.",
        "  2026-05-20 07:30:00 CEST (2026-05-20 05:30:00 UTC)  new",
        "  2026-05-21 07:30:00 CEST (2026-05-21 05:30:00 UTC)  revived",
        "  2026-05-22 07:30:00 CEST (2026-05-22 05:30:00 UTC)  new",
        "  … 4 more",
        "  2026-05-27 07:30:00 CEST (2026-05-27 05:30:00 UTC)  kept",
        "  2026-05-28 07:30:00 CEST (2026-05-28 05:30:00 UTC)  new",
    ]
    assert pace.startswith("At 10 a minute the last is published at 20")
    assert end == "Nothing was done."
    assert rows.everything() == before


def test_few_fires_are_all_shown_and_in_utc_only_once(job: Job) -> None:
    definitions.create(key="utc", task="onbeat.echo", schedule=Cron("0 7 * * *"), now=MADE_AT)
    lines = jobs("backfill", "utc", "--from", "2026-05-30T07:00", "--to", "2026-05-31T07:00", "--dry-run")
    assert lines[0].startswith("2 fires of utc from 2026-05-30 07:00:00 UTC to 2026-05-31 07:00:00 UTC: 2 without")
    assert lines[1:3] == ["  2026-05-30 07:00:00 UTC  new", "  2026-05-31 07:00:00 UTC  new"]


def test_with_yes_it_is_done_without_asking_and_told_as_json(job: Job) -> None:
    lines = backfill("--yes", "--json", "--by", "ops")
    assert len(lines) == 1
    facts = json.loads(lines[0])
    assert facts.pop("ends_at") > "2026-06"
    assert facts == {
        "job": "billing.daily",
        "from": "2026-05-19T22:00:00+00:00",
        "to": "2026-05-28T21:59:59.999999+00:00",
        "is_run": True,
        "fires": 9,
        "new": 9,
        "revived": 0,
        "kept": 0,
        "first": "2026-05-20T05:30:00+00:00",
        "last": "2026-05-28T05:30:00+00:00",
        "left_from": None,
        "per_minute": 60,
    }
    assert {row.reason for row in rows.of(job)} == {"backfill by ops"}
    assert len(rows.of(job, state=State.SCHEDULED)) == 9


def test_the_name_of_the_user_stands_in_the_reason(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "anna")
    backfill("--yes")
    assert {row.reason for row in rows.of(job)} == {"backfill by anna"}


@pytest.mark.parametrize(("answer", "count"), [("y\n", 9), ("YES\n", 9), ("n\n", 0), ("\n", 0), ("yeah\n", 0), ("", 0)])
def test_on_a_terminal_it_asks(
    job: Job, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], answer: str, count: int
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    lines = backfill()
    assert Execution.objects.count() == count
    assert lines[-1] == ("Planned 9 fires; the beats publish at this pace." if count else "Nothing was done.")
    assert capsys.readouterr().err == "Run these 9 fires? [y/N] "  # where it is in the way of no pipe


def test_who_asks_for_json_is_asked_beside_it(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal("n\n"))
    lines = backfill("--json")
    assert len(lines) == 1
    assert json.loads(lines[0])["is_run"] is False


def test_a_backfill_is_told_in_the_audit_trail(job: Job) -> None:
    backfill("--yes", "--by", "ops")
    entry = AuditEntry.objects.get()
    assert (entry.who, entry.through, entry.action, entry.subject) == (
        "ops",
        "command",
        "job.backfill",
        "job:billing.daily",
    )


def test_without_a_terminal_it_needs_a_yes(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", StringIO("y\n"))
    assert "add --yes" in refusal("backfill", "billing.daily", "--from", "2026-05-20", "--to", "2026-05-28")
    assert not Execution.objects.exists()


def test_what_has_its_rows_is_told_and_nobody_is_asked(job: Job) -> None:
    backfill("--yes")
    lines = backfill()
    assert lines[-1] == "There is nothing to run: each has its row, and runs again only by a replay."
    assert "0 without a row, 0 skipped, 9 kept" in lines[0]


def test_what_is_left_to_the_beats_is_told(job: Job) -> None:
    lines = backfill("--dry-run", end="2026-07-01")
    assert "From 2026-06-10 07:30:00 CEST (2026-06-10 05:30:00 UTC) on they are left to the beats." in lines


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["biling.daily", "--from", "2026-05-20", "--to", "2026-05-28"], "did you mean 'billing.daily'?"),
        (["billing.daily", "--from", "soon", "--to", "2026-05-28"], "--from 'soon' is no moment; write a date such as"),
        (["billing.daily", "--from", "2026-05-29", "--to", "2026-05-28"], "comes after the end"),
        (["billing.daily", "--from", "9000-01-01", "--to", "9000-01-02"], "is not past"),
        (["billing.daily", "--from", "2026-05-20", "--to", "2026-05-28", "--per-minute", "0"], "from 1 to 6000, not 0"),
    ],
)
def test_a_refusal_is_one_sentence_and_exit_code_2(job: Job, arguments: list[str], says: str) -> None:
    assert says in refusal("backfill", *arguments)
    assert not Execution.objects.exists()


def test_a_schedule_that_cannot_be_read_is_refused_as_such(job: Job) -> None:
    Schedule.objects.update(timezone="Mars/Olympus")
    says = refusal("backfill", "billing.daily", "--from", "2026-05-20", "--to", "2026-05-28")
    assert "cannot be read; give the job another one" in says


def test_the_help_says_what_a_date_alone_means(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        jobs("backfill", "--help")
    assert "the whole day is in the range" in capsys.readouterr().out
