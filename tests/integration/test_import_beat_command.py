"""`import_beat`: it says what would be done, does it with --apply, and never doubles, overwrites or forgets a job."""

import json
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext

from access.models import AuditEntry
from executions.clock import database_now
from jobs import definitions
from jobs.models import Job, JobState, Schedule
from jobs.recurrence import Cron
from tests.integration.old_tables import OldTables
from tests.making import a_job
from tests.tiers import once_full

pytestmark = [pytest.mark.django_db, once_full]


@pytest.fixture
def old() -> OldTables:
    return OldTables()


def said(*arguments: str, code: int = 0) -> str:
    output = StringIO()
    if code == 0:
        call_command("import_beat", *arguments, stdout=output)
    else:
        with pytest.raises(SystemExit) as ended:
            call_command("import_beat", *arguments, stdout=output)
        assert ended.value.code == code
    return output.getvalue()


def told(*arguments: str, code: int = 0) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(said(*arguments, "--json", code=code))
    return document


def becomes(document: dict[str, Any]) -> dict[str, str]:
    return {job["key"]: job["becomes"] for job in document["jobs"]}


def refusal(*arguments: str) -> str:
    with pytest.raises(CommandError) as error:
        said(*arguments)
    assert error.value.returncode == 2
    text = str(error.value)
    assert text.isprintable()
    assert text.endswith((".", "?"))
    return text


def test_without_apply_it_shows_what_would_be_done_and_does_nothing(old: OldTables) -> None:
    old.add("Daily bill", crontab="30 7 * * *", timezone="Asia/Tokyo", last_run_at=database_now())
    old.add("sun", solar_id=1)
    old.add("done", crontab="0 0 * * *", one_off=True, total_run_count=1)
    lines = said().splitlines()
    assert lines[0].split() == ["KEY", "BECOMES", "STATE", "SCHEDULE", "NEXT"]
    assert lines[1].startswith("daily-bill  created  ACTIVE  Every day at 07:30, Tokyo  in ")
    assert "Cannot be moved" in lines
    assert (
        "  sun: Its solar schedule is no longer there. Give it one there, or leave it out." in lines
    )  # it names a row that is gone
    assert "  done: it was to run once, and did" in lines
    assert "  Workers must read this queue: default." in lines
    assert lines[-1] == ("1 job to be created, 1 cannot be moved, 1 left out; nothing was done, --apply does it.")
    assert not Job.objects.exists()
    assert not AuditEntry.objects.exists()


def test_what_differs_is_told_task_by_task(old: OldTables) -> None:
    old.add("Bill", crontab="0 12 * * *", priority=99, headers='{"a": 1}', last_run_at=database_now())
    lines = said().splitlines()
    place = lines.index("What differs")
    assert lines[place + 1 : place + 4] == [
        "  bill  (Bill)",
        "    Its priority is 99, and 9 is the highest here; it gets that.",
        "    Its message headers are not kept: a job has none. Pass what is needed in kwargs.",
    ]


def test_with_apply_the_jobs_are_there_and_the_audit_trail_tells_it(old: OldTables) -> None:
    old.add("bill", crontab="0 12 * * *", kwargs='{"message": "x"}', queue="mail", last_run_at=database_now())
    old.add("off", every=60, enabled=False)
    document = told("--apply", "--by", "ops", "--owner", "shop", "--prefix", "old.")
    assert document["is_applied"] is True
    assert document["counts"]["created"] == 2
    bill, off = Job.objects.order_by("key")
    assert (bill.key, bill.kwargs, bill.queue, bill.owner) == ("old.bill", {"message": "x"}, "mail", "shop")
    assert bill.tags == ["from-django-celery-beat"]
    assert bill.schedule.expression == "0 12 * * *"
    assert (off.key, off.state, off.paused_reason) == ("old.off", "PAUSED", "disabled in django-celery-beat")
    assert not off.schedule.is_active
    entries = AuditEntry.objects.order_by("subject")
    assert [(entry.who, entry.through, entry.action, entry.subject, entry.note) for entry in entries] == [
        ("ops", "command", "job.create", "job:old.bill", "moved in: bill"),
        ("ops", "command", "job.create", "job:old.off", "moved in: off"),
    ]


@pytest.mark.parametrize("options", [[], ["--paused"]])
def test_the_number_of_statements_does_not_depend_on_the_number_of_tasks(old: OldTables, options: list[str]) -> None:
    def statements(count: int) -> int:
        for number in range(count):
            old.add(f"{count}-{number}", crontab="0 12 * * *", last_run_at=database_now())
        with CaptureQueriesContext(connection) as captured:
            assert told("--apply", *options)["counts"]["created"] == count
        return len(captured)

    statements(1)  # from then on some are there already
    assert statements(3) == statements(40)


def test_paused_makes_all_of_them_paused_and_by_their_tags_it_is_known_which_to_resume(old: OldTables) -> None:
    old.add("on", crontab="0 12 * * *")
    old.add("off", crontab="0 12 * * *", enabled=False)
    document = told("--apply", "--paused")
    assert {job["key"]: job["state"] for job in document["jobs"]} == {"on": "PAUSED", "off": "PAUSED"}
    assert {job.key: (job.paused_reason, job.tags) for job in Job.objects.all()} == {
        "on": ("moved in from django-celery-beat", ["from-django-celery-beat"]),
        "off": ("disabled in django-celery-beat", ["disabled-in-django-celery-beat"]),
    }


def test_if_something_cannot_be_moved_the_rest_is_and_the_exit_code_is_1(old: OldTables) -> None:
    old.add("good", crontab="0 12 * * *")
    old.add("bad", crontab="0 12 * * *", args="nonsense")
    document = told("--apply", code=1)
    assert becomes(document) == {"good": "created"}
    assert document["cannot_move"] == [
        {"name": "bad", "why": "Its args are not a list in JSON: 'nonsense'.", "remedy": "Correct them there."}
    ]
    assert list(Job.objects.values_list("key", flat=True)) == ["good"]


def test_with_strict_it_is_all_or_nothing(old: OldTables) -> None:
    old.add("good", crontab="0 12 * * *")
    old.add("bad", crontab="0 12 * * *", args="nonsense")
    assert told()["is_applied"] is False  # a look at it has succeeded
    assert told("--strict", code=1)["is_applied"] is False
    assert told("--strict", "--apply", code=1)["is_applied"] is False
    assert not Job.objects.exists()
    assert told("--strict", "--apply", "--only", "good")["is_applied"] is True


def test_only_those_named_are_moved(old: OldTables) -> None:
    for name in ("a", "b", "c"):
        old.add(name, crontab="0 12 * * *")
    assert becomes(told("--apply", "--only", "a", "--only", "c")) == {"a": "created", "c": "created"}
    assert told("--only", "b")["vanished"] == []
    assert "There is no task 'd' there" in refusal("--only", "d")


def test_to_run_it_again_changes_nothing(old: OldTables) -> None:
    now = database_now()
    old.add("cron", crontab="0 12 * * *")
    old.add("interval", every=3600, last_run_at=now)
    old.add("once", clocked_time=now + timedelta(days=1), one_off=True)
    told("--apply")
    before = list(Job.objects.values("key", "version", "changed_at"))
    anchors = list(Schedule.objects.values_list("anchor_at", flat=True))
    # It ran there meanwhile, and goes on in the same rhythm, with the little drift that it has.
    old.change("interval", last_run_at=now + timedelta(hours=3, seconds=5), total_run_count=3)
    document = told("--apply")
    assert set(becomes(document).values()) == {"unchanged"}
    assert document["remarks"] == []
    assert list(Job.objects.values("key", "version", "changed_at")) == before
    assert list(Schedule.objects.values_list("anchor_at", flat=True)) == anchors
    assert AuditEntry.objects.count() == 3


def test_what_changed_there_is_changed_here_and_another_rhythm_is_a_change(old: OldTables) -> None:
    now = database_now()
    old.add("cron", crontab="0 12 * * *")
    old.add("interval", every=3600, last_run_at=now)
    told("--apply")
    old.change("cron", kwargs='{"message": "new"}')
    old.change("interval", last_run_at=now + timedelta(minutes=90))
    assert becomes(told()) == {"cron": "changed", "interval": "changed"}
    assert becomes(told("--apply")) == {"cron": "changed", "interval": "changed"}
    assert Job.objects.get(key="cron").kwargs == {"message": "new"}
    anchor = Schedule.objects.get(job__key="interval").anchor_at
    assert anchor is not None
    assert abs(anchor - now - timedelta(minutes=90)) < timedelta(seconds=1)
    assert set(becomes(told("--apply")).values()) == {"unchanged"}


def test_a_job_that_was_changed_here_is_left_alone_unless_it_is_to_be_overwritten(old: OldTables) -> None:
    old.add("bill", crontab="0 12 * * *", last_run_at=database_now())
    told("--apply")
    definitions.change("bill", version=1, priority=9)
    document = told("--apply")
    assert becomes(document) == {"bill": "kept"}
    assert "    The job was made or changed here; --overwrite gives it what is said there." in said().splitlines()
    assert Job.objects.get().priority == 9
    assert becomes(told("--apply", "--overwrite")) == {"bill": "changed"}
    assert Job.objects.get().priority == 5
    assert becomes(told("--apply")) == {"bill": "unchanged"}


def test_a_job_that_was_made_here_under_the_same_key_is_left_alone(old: OldTables) -> None:
    job = a_job(now=database_now(), key="bill", schedule=Cron("0 1 * * *"))
    old.add("bill", crontab="0 12 * * *")
    assert becomes(told("--apply")) == {"bill": "kept"}
    assert Schedule.objects.get(job=job).expression == "0 1 * * *"


def test_to_pause_and_resume_a_job_here_is_no_change_of_what_it_is(old: OldTables) -> None:
    old.add("bill", crontab="0 12 * * *")
    told("--apply", "--paused")
    definitions.resume("bill")
    assert becomes(told("--apply", "--paused")) == {"bill": "unchanged"}
    old.change("bill", priority=7)
    assert becomes(told("--apply", "--paused")) == {"bill": "changed"}
    assert Job.objects.get().state == JobState.ACTIVE  # it was resumed here, and is not paused again by an edit there


def test_what_is_switched_off_or_on_there_is_paused_or_resumed_here(old: OldTables) -> None:
    old.add("bill", crontab="0 12 * * *")
    told("--apply")
    old.change("bill", enabled=False)
    assert told("--apply")["jobs"][0]["state"] == "PAUSED"
    assert Job.objects.get().state == JobState.PAUSED
    old.change("bill", enabled=True)
    assert told("--apply")["jobs"][0]["state"] == "ACTIVE"
    assert Job.objects.get().state == JobState.ACTIVE


def test_a_job_that_is_over_here_does_not_begin_anew_by_itself(old: OldTables) -> None:
    old.add("bill", crontab="0 12 * * *", one_off=True)
    told("--apply")
    definitions.archive("bill")
    document = told("--apply")
    assert becomes(document) == {"bill": "kept"}
    assert document["jobs"][0]["because"] == "is ARCHIVED here; --overwrite makes it anew"
    assert Job.objects.count() == 1
    assert becomes(told("--apply", "--overwrite")) == {"bill": "created"}


def test_a_task_that_is_gone_there_is_told_and_its_job_stays(old: OldTables) -> None:
    old.add("bill", crontab="0 12 * * *")
    old.add("mail", crontab="0 12 * * *")
    told("--apply")
    a_job(now=database_now(), key="ours", schedule=Cron("0 1 * * *"), tags=["from-django-celery-beat"])
    old.remove("mail")
    assert told("--apply")["vanished"] == ["mail"]
    lines = said().splitlines()
    assert lines[lines.index("No longer in django-celery-beat, and left as they are here") + 1] == "  mail"
    assert Job.objects.get(key="mail").state == JobState.ACTIVE


def test_when_a_second_name_looks_like_one_that_is_stored_neither_is_doubled(old: OldTables) -> None:
    old.add("Send mail", crontab="0 12 * * *")
    told("--apply")
    old.add("send mail!", crontab="0 13 * * *")
    document = told("--apply", code=1)
    assert document["jobs"] == []
    assert {each["name"] for each in document["cannot_move"]} == {"Send mail", "send mail!"}
    assert "the job 'send-mail' may be of either" in document["cannot_move"][0]["why"]
    assert Job.objects.count() == 1


def test_a_task_that_no_app_has_is_told_with_the_way_out(old: OldTables) -> None:
    old.add("bill", crontab="0 12 * * *", task="shop.tasks.bill")
    document = told("--apply", code=1)
    assert document["cannot_move"][0]["why"] == (
        "There is no task 'shop.tasks.bill' in the installed apps; install its app, or say --lives-elsewhere if "
        "another codebase has it."
    )
    assert becomes(told("--apply", "--lives-elsewhere")) == {"bill": "created"}
    assert becomes(told("--apply", "--lives-elsewhere")) == {"bill": "unchanged"}


def test_hostile_rows_are_told_and_keep_none_of_the_others_from_being_moved(old: OldTables) -> None:
    old.add("good", crontab="0 12 * * *")
    old.add("✉" * 200, crontab="0 12 * * *")
    old.add("nan", crontab="0 12 * * *", kwargs='{"a": NaN}')
    old.add("zone", crontab="0 12 * * *", timezone="Mars/Olympus")
    old.add("queue", crontab="0 12 * * *", queue="a queue!")
    old.add("task", crontab="0 12 * * *", task="")
    old.add("own", crontab="0 12 * * *", task="celery.chord")
    old.add("large", crontab="0 12 * * *", kwargs=json.dumps({"a": "x" * 100_000}))
    old.add("empty", every=60, args=None, kwargs=None, queue=None, headers=None, one_off=None, enabled=None)
    old.add("none", task="onbeat.echo")
    old.add("never", crontab="0 0 30 2 *")
    old.add("backwards", crontab="0 12 * * *", expires="2099-01-01 00:00Z", start_time="2099-06-01 00:00Z")
    old.add("line\nfeed\x1b[31m", crontab="0 12 * * *", args="x")
    old.add(None, crontab="0 12 * * *")
    old.add("twice", crontab="0 12 * * *")
    old.add("twice", crontab="0 13 * * *")
    document = told("--apply", code=1)
    made = becomes(document)
    assert made.pop("good") == made.pop("empty") == "created"
    assert sorted(key.partition("-")[0] for key in made) == ["task", "task"]  # without a name, or without a letter
    assert {each["name"] for each in document["cannot_move"]} == {
        *("nan", "zone", "queue", "task", "own", "large", "none", "never", "backwards", "twice"),
        "line\nfeed\x1b[31m",
    }
    assert all(each["why"].endswith((".", "?")) for each in document["cannot_move"])
    shown = said()
    assert "\x1b[31m" not in shown
    assert r"'line\nfeed\x1b[31m': Its args are not a list" in shown


@pytest.mark.parametrize(
    "without",
    [
        {"expire_seconds", "headers", "priority", "one_off", "clocked_id", "clockedschedule", "start_time"},
        {"timezone", "solar_id", "solarschedule", "date_changed"},
    ],
)
def test_columns_and_tables_that_a_version_does_not_have_are_taken_as_empty(without: set[str]) -> None:
    old = OldTables(without=without)
    old.add("bill", crontab="0 12 * * *")
    assert becomes(told("--apply")) == {"bill": "created"}
    assert Schedule.objects.get().timezone == "UTC"


@pytest.mark.embedded
def test_a_moment_that_cannot_be_read_is_told_of_its_task_alone(old: OldTables) -> None:
    old.add("good", every=60, last_run_at="2026-01-01 12:00:00.5")
    old.add("bad", every=60, last_run_at="yesterday")
    document = told(code=0)
    assert becomes(document) == {"good": "created"}
    assert document["cannot_move"][0]["why"] == "Its last_run_at 'yesterday' is no moment."


@pytest.mark.embedded
def test_moments_without_an_offset_are_of_the_zone_that_is_said(old: OldTables) -> None:
    old.add("bill", every=3600, last_run_at="2026-01-01 12:30:00")
    anchors = [
        told(*options)["jobs"][0]["definition"]["schedule"]["anchor"]
        for options in ((), ("--moments-in", "Asia/Kolkata"))
    ]
    assert anchors == ["2026-01-01T12:30:00Z", "2026-01-01T07:00:00Z"]


def test_crontabs_are_read_in_the_zone_that_is_said_whatever_their_rows_say(old: OldTables) -> None:
    old.add("bill", crontab="0 12 * * *", timezone="UTC")
    assert told("--timezone", "Asia/Tokyo")["jobs"][0]["schedule_in_words"] == "Every day at 12:00, Tokyo"


def test_nothing_to_move_is_said(old: OldTables) -> None:
    assert said() == "There is no task in django-celery-beat.\n"
    assert told()["counts"]["created"] == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--database-from-env", "NOT_THERE"], "'NOT_THERE' is not set"),
        (["--app", "no.such.module:app"], "No module named 'no'"),
        (["--app", "json:app"], "no Celery app is called app in json"),
        (["--app", "json"], "no Celery app is called app or celery in json"),
        (["--app", "json:app", "--workdir", "/nowhere"], "No such file or directory"),
        (["--app", "json:app", "--python", "/no/python"], "No such file or directory"),
        (["--workdir", "/tmp"], "--workdir and --python are for --app"),
        (["--timezone", "Mars/Olympus"], "'Mars/Olympus' is no time zone"),
        (["--prefix", "!"], "--prefix must be letters"),
        (["--attempts", "0"], "--attempts must be 1 to 10000, not 0."),
    ],
)
def test_a_refusal_is_one_sentence_and_nothing_is_changed(old: OldTables, arguments: list[str], says: str) -> None:
    old.add("bill", crontab="0 12 * * *")
    assert says in refusal(*arguments, "--apply")
    assert not Job.objects.exists()
