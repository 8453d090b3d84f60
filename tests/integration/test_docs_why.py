"""The page for whoever is on call: its commands are run as they stand, on a past like the one that it tells of."""

import re
import shlex
from datetime import UTC, datetime, timedelta
from io import StringIO

import pytest
from django.core.management import call_command

from executions import lifecycle
from jobs import definitions
from jobs.finding import find
from jobs.models import Schedule
from jobs.recurrence import Cron
from tests import rows
from tests.firing import plan
from tests.making import a_job, claimed
from tests.tiers import once_embedded
from tests.unit.doc_pages import page

pytestmark = [pytest.mark.django_db, once_embedded]
PAGE = page("how-to/find-out-why-it-did-not-run.md")
EXAMPLE = re.compile(r"^```sh\n\./onbeat ([^\n]+)\n```\n\n```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BERLIN = "Europe/Berlin"


def at(day: int, hour: int, minute: int = 0, second: int = 0) -> datetime:
    return datetime(2026, 2, day, hour, minute, second, tzinfo=UTC)


def end(moment: datetime, *, error: str = "") -> None:
    """The execution that was planned last runs from then on."""
    row = max(rows.of(find("billing.daily")), key=lambda one: one.fire_time)
    claim = claimed(row, now=moment, worker="mail-1")
    if error:
        lifecycle.fail(claim, error=error, now=moment + timedelta(seconds=10))
    else:
        lifecycle.succeed(claim, result=None, now=moment + timedelta(seconds=29))


def bill() -> None:
    """It runs, it fails, it is paused for two days, and then gets another schedule."""
    job = a_job(now=at(1, 12), key="billing.daily", schedule=Cron("30 7 * * *", BERLIN), max_attempts=1)
    plan(at(2, 6, 29, 55))
    end(at(2, 6, 30, 2))
    plan(at(3, 6, 29, 55))
    end(at(3, 6, 30, 2), error="ConnectionError: the ledger does not answer")
    definitions.pause(job, reason="the ledger moves", by="anna", now=at(3, 18))
    definitions.resume(job, by="anna", now=at(5, 18))
    definitions.change(job, version=3, schedule=Cron("0 8 * * *", BERLIN), by="ben", now=at(6, 12))


def digest() -> None:
    """A beat was down in the afternoon, and somebody stopped the last one of the day."""
    job = a_job(now=at(2, 6, 30), key="mail.digest", schedule=Cron("0 */3 * * *"))
    for planned_at in (at(2, 8, 59, 55), at(2, 18, 5), at(2, 20, 59, 55)):
        plan(planned_at)
        row = rows.of(job, state="SCHEDULED")[0]
        if planned_at.hour == 20:
            lifecycle.cancel([row.pk], reason="not today", now=at(2, 21))
            continue
        start = max(planned_at, row.fire_time)
        lifecycle.succeed(claimed(row, now=start), result=None, now=start + timedelta(seconds=1))


def scene() -> None:
    bill()
    Schedule.objects.update(next_fire_at=at(28, 0) + timedelta(days=36_500))  # what comes later is of no concern here
    digest()
    definitions.pause(
        a_job(now=at(1, 12), key="reports.weekly", schedule=Cron("0 9 * * 1", BERLIN)),
        reason="month end",
        by="anna",
        now=at(3, 12),
    )
    a_job(now=at(1, 12), key="nightly.close", schedule=Cron("30 2 * * *", BERLIN))


def test_the_commands_of_the_page_print_what_it_says() -> None:
    scene()
    examples = EXAMPLE.findall(PAGE)
    assert len(examples) == PAGE.count("```sh") >= 8
    for command, expected in examples:
        output = StringIO()
        call_command(*shlex.split(command), stdout=output)
        pattern = re.escape(expected).replace("…", ".*")
        assert re.fullmatch(pattern, output.getvalue(), re.DOTALL), f"{command} prints:\n{output.getvalue()}"
