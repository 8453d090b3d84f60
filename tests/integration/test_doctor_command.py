"""`doctor`: what it says to a person and to a script, and what it does when an area cannot be examined."""

import json
from datetime import datetime
from io import StringIO

import pytest
from celery import current_app
from django.core.management import CommandError, call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext

from executions import queues
from executions.clock import database_now
from jobs.models import Job
from jobs.recurrence import Cron
from terminal.doctor import examinations, redis
from terminal.doctor import jobs as area_of_jobs
from tests import rows
from tests.doctoring import all_is_well, doctor
from tests.integration.conftest import Queues
from tests.making import a_job

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_old_months")]


@pytest.fixture
def now(broker: Queues, monkeypatch: pytest.MonkeyPatch) -> datetime:
    monkeypatch.setitem(current_app.conf, "task_default_queue", queues.work_queue("default").name)
    return database_now()


@pytest.fixture
def well(now: datetime) -> datetime:
    all_is_well(now)
    return now


def text(*words: str) -> tuple[list[str], int]:
    output = StringIO()
    try:
        call_command("doctor", *words, stdout=output)
    except SystemExit as left:
        return output.getvalue().splitlines(), int(left.code or 0)
    return output.getvalue().splitlines(), 0


def test_in_a_healthy_installation_nothing_is_found_but_notes(well: datetime, is_full: bool) -> None:
    a_job(now=well, key="daily", schedule=Cron("0 7 * * *"))
    told = doctor()
    assert told.bad == []
    assert (told.document["errors"], told.document["warnings"], told.code) == (0, 0, 0)
    names = [area["name"] for area in told.document["areas"]]
    broker = "rabbitmq" if is_full else "folder"
    assert names == [
        *("settings", "database", "redis", broker, "beats", "workers"),
        *("schedules", "jobs", "code", "executions", "upkeep"),
    ]
    assert all(area["is_examined"] for area in told.document["areas"])


def test_each_area_has_a_line_and_the_end_counts_what_was_found(well: datetime, is_full: bool) -> None:
    lines, code = text()
    assert lines[0] == "✓ settings    system checks find nothing"
    assert lines[1].startswith(f"✓ database    {'PostgreSQL' if is_full else 'SQLite'} ")
    assert "migrated" in lines[1]
    assert lines[4] == "✓ beats       1 ticking"
    assert lines[5] == "✓ workers     1 alive, for 2 attempts at once"
    assert lines[-1] == ("1 note; nothing was changed." if is_full else "2 notes; nothing was changed.")
    assert code == 0


def test_errors_come_first_with_their_meaning_and_remedy(now: datetime) -> None:
    lines, code = text("--only", "database", "--only", "redis", "--only", "beats", "--only", "workers")
    heads = [line.split()[0] for line in lines if line.startswith(("ERROR", "WARNING", "NOTE"))]
    assert heads[:2] == ["ERROR", "ERROR"]
    assert heads == sorted(heads, key=["ERROR", "WARNING", "NOTE"].index)
    at = next(number for number, line in enumerate(lines) if line.startswith("ERROR"))
    assert lines[at : at + 3] == [
        "ERROR   beats.E01  No beat ticks: none has ticked yet; see its log, or start one with `./onbeat run_beat`.",
        "means   Nothing fires, nothing is rescued, and what is due waits in the database; nothing of it is lost.",
        "remedy  Start a beat with `./onbeat run_beat`, or see in its log why it does not tick.",
    ]
    assert "✗ beats     none ticks" in lines
    assert lines[-1].startswith("2 errors")
    assert lines[-1].endswith("; nothing was changed.")
    assert code == 1


def test_warnings_alone_are_no_failure(well: datetime) -> None:
    Job.objects.filter(pk=a_job(now=well, key="paused", schedule=Cron("0 7 * * *")).pk).update(
        state="PAUSED", paused_until=well.replace(year=2020)
    )
    lines, code = text("--only", "schedules")
    assert lines[0].startswith("! schedules  ")
    assert lines[-1] == "1 warning; nothing was changed."
    assert code == 0


def test_nothing_is_wrong_has_a_sentence_of_its_own(well: datetime) -> None:
    assert text("--only", "schedules")[0][-1] == "Nothing is wrong; nothing was changed."


def test_only_what_was_named_is_looked_at(well: datetime) -> None:
    told = doctor("workers", "beats")
    assert [area["name"] for area in told.document["areas"]] == ["beats", "workers"]


def test_an_area_that_is_of_no_concern_here_says_so_when_it_is_named(well: datetime, is_full: bool) -> None:
    told = doctor("folder" if is_full else "rabbitmq")
    (area,) = told.document["areas"]
    assert (area["is_examined"], area["findings"]) == (False, [])
    assert area["says"] == f"not looked at: the broker is {'RabbitMQ' if is_full else 'a folder'}"


def test_an_area_that_is_none_is_refused() -> None:
    with pytest.raises(CommandError, match="--only 'databse' is none of settings, database, "):
        call_command("doctor", "--only", "databse")


def test_the_list_tells_what_is_looked_at_and_looks_at_nothing(django_assert_num_queries) -> None:
    with django_assert_num_queries(0):
        lines, code = text("--list")
    assert [line.split()[0] for line in lines[1:]] == [area.name for area in examinations.AREAS]
    assert code == 0
    output = StringIO()
    call_command("doctor", "--list", "--json", "--only", "beats", stdout=output)
    (area,) = json.loads(output.getvalue())["areas"]
    assert area["name"] == "beats"
    assert {"id": "beats.E01", "severity": "ERROR"} in area["findings"]


def test_nothing_is_changed(well: datetime, broker: Queues) -> None:
    a_job(now=well, key="daily", schedule=Cron("0 7 * * *"))
    before = rows.whole_database()
    doctor()
    assert rows.whole_database() == before


def test_an_area_that_fails_is_one_finding_and_the_others_are_looked_at(
    well: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_visit: object) -> None:
        raise ValueError("amqp://onbeat:hunter2@rabbit/ is odd")

    monkeypatch.setattr(area_of_jobs, "examine", fail)
    told = doctor()
    assert told.bad == ["doctor.E01"]
    assert told.only("doctor.E01")["says"] == "jobs: ValueError: amqp://…@rabbit/ is odd"
    assert told.says("jobs") == "could not be examined"
    assert told.says("upkeep") == "nothing is past its days"


@pytest.mark.full
def test_a_statement_that_takes_too_long_is_broken_off(well: datetime, monkeypatch: pytest.MonkeyPatch) -> None:
    def wait(_visit: object) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_sleep(60)")

    monkeypatch.setattr(examinations, "STATEMENT_SECONDS", 0.2)
    monkeypatch.setattr(area_of_jobs, "examine", wait)
    told = doctor("jobs", "executions")
    assert told.ids == ["doctor.E01"], told.findings
    assert "statement timeout" in told.only("doctor.E01")["says"]
    assert told.says("executions") == "0 executions due, 0 queued, 0 running"


def test_no_password_is_shown(settings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.REDIS_URL = "redis://:hunter2@127.0.0.1:1/0"
    settings.ONBEAT_EXECUTIONS_RABBITMQ_API_URL = "http://onbeat:hunter3@127.0.0.1:1"
    settings.CELERY_BROKER_URL = "amqp://onbeat:hunter4@127.0.0.1:1//"
    settings.IS_FOLDER_BROKER = False
    monkeypatch.setitem(current_app.conf, "broker_read_url", settings.CELERY_BROKER_URL)
    told = doctor("redis", "rabbitmq")
    assert told.bad == ["redis.E01", "rabbitmq.E01"]
    assert told.only("redis.E01")["says"].startswith("redis://127.0.0.1:1/0 does not answer: ")
    assert told.only("rabbitmq.E01")["says"].startswith("amqp://127.0.0.1:1// does not answer: ")
    assert "hunter" not in json.dumps(told.document)
    assert redis.UNREACHABLE.severity == "ERROR"


def test_the_number_of_statements_does_not_depend_on_the_number_of_jobs(well: datetime) -> None:
    def asked(count: int) -> int:
        for number in range(count):
            a_job(now=well, key=f"{count}-{number}", schedule=Cron(f"{number} 7 * * *"))
        with CaptureQueriesContext(connection) as captured:
            doctor("beats", "workers", "schedules", "jobs", "code", "executions", "upkeep")
        return len(captured)

    asked(1)
    assert asked(3) == asked(30)


def test_what_is_found_several_times_is_explained_once(well: datetime) -> None:
    for queue in ("batch", "mail"):
        a_job(now=well, key=f"in-{queue}", queue=queue)
    lines, code = text("--only", "jobs")
    assert lines[2:6] == [
        "ERROR   jobs.E02  Nobody takes from the queue 'batch' of 1 job: in-batch.",
        "        jobs.E02  Nobody takes from the queue 'mail' of 1 job: in-mail.",
        "means   Its executions are published and wait: no worker that lives takes from this queue.",
        "remedy  Start a worker for it: `./onbeat worker --queues` with the broker's name of the queue.",
    ]
    assert (lines[-1], code) == ("2 errors; nothing was changed.", 1)
