"""`@scheduled` beside a task declares its job; `jobs sync` reconciles and reports drift, and beats do so at start."""

import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from celery import current_app, shared_task
from django.db import OperationalError

from access.models import AuditEntry
from beat import starting
from jobs import declared, definitions, targets
from jobs.declared import scheduled
from jobs.misfires import Misfire
from jobs.models import Job, JobState, JobVersion, Schedule
from jobs.recurrence import Cron, Every, Within
from terminal.at_start import sync
from tests import rows
from tests.at_terminal import document, ended, refusals, typed
from tests.tiers import once_embedded
from tests.waiting import wait_until

pytestmark = [pytest.mark.django_db, once_embedded]


@pytest.fixture(autouse=True)
def nothing_declared(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """But by the test itself; its tasks are forgotten afterwards."""
    monkeypatch.setattr(declared, "_declared", [])
    targets.known_tasks()  # those of the apps stay
    before = set(current_app.tasks)
    yield
    for name in set(current_app.tasks) - before:
        current_app.tasks.unregister(name)


def told(*words: str) -> str:
    """What has to be corrected, a line each."""
    return "\n".join(refusals(*words))


def a_task(name: str = "tests.declared.poll", **options: Any) -> Any:
    """A task like any other of an app."""

    def poll() -> None:
        """Nothing to do."""

    return shared_task(name=name, **options)(poll)


def declare(*when: Any, name: str = "tests.declared.poll", **fields: Any) -> None:
    scheduled(*when, **fields)(a_task(name))


def test_a_declaration_becomes_a_job_named_after_its_task() -> None:
    declare("*/5 * * * *", timezone="Europe/Berlin", queue="mail", misfire=Misfire.SKIP, kwargs={"a": 1})
    assert typed("jobs", "sync", "--by", "deploy") == [
        "+ tests.declared.poll  Every 5 minutes: tests.declared.poll",
        "",
        "1 created.",
    ]
    job = Job.objects.select_related("schedule").get()
    assert (job.key, job.task, job.queue, job.kwargs) == (
        "tests.declared.poll",
        "tests.declared.poll",
        "mail",
        {"a": 1},
    )
    assert (job.managed_by, job.schedule.expression, job.schedule.timezone) == ("code", "*/5 * * * *", "Europe/Berlin")
    assert job.schedule.misfire == Misfire.SKIP
    assert AuditEntry.objects.get().who == "deploy"
    assert typed("jobs", "sync") == ["1 unchanged."]


def test_the_decorator_may_stand_below_that_of_the_task_and_several_times() -> None:
    @shared_task(name="tests.declared.below")
    @scheduled("0 3 * * *", key="nightly", kwargs={"scope": "all"})
    @scheduled(900, key="often")
    def below(scope: str = "") -> None:
        """Nothing to do."""

    @shared_task(name="tests.declared.bound", bind=True, autoretry_for=(ValueError,))
    @scheduled(timedelta(minutes=15), key="bound")
    def bound(self: Any) -> None:
        """Nothing to do."""

    typed("jobs", "sync")
    assert dict(Job.objects.values_list("key", "task")) == {
        "nightly": "tests.declared.below",
        "often": "tests.declared.below",
        "bound": "tests.declared.bound",
    }
    assert set(Schedule.objects.values_list("job__key", "expression")) == {
        ("nightly", "0 3 * * *"),
        ("often", "900"),
        ("bound", "900"),
    }


def test_an_interval_keeps_its_phase_from_sync_to_sync() -> None:
    declare(timedelta(hours=1))
    typed("jobs", "sync")
    anchor = Schedule.objects.get().anchor_at
    assert anchor is not None
    Schedule.objects.update(anchor_at=anchor - timedelta(minutes=7))
    assert typed("jobs", "sync") == ["1 unchanged."]
    assert Schedule.objects.get().anchor_at == anchor - timedelta(minutes=7)


def test_a_schedule_may_be_said_as_python_says_it(noon: Any) -> None:
    declare(Within(Every(60, anchor=noon), start=noon), name="tests.declared.a")
    declare(Cron("0 7 * * 1", timezone="Asia/Tokyo"), name="tests.declared.b")
    declare(name="tests.declared.only_when_asked")
    assert document("jobs", "sync")["counts"]["created"] == 3
    assert Schedule.objects.count() == 2


def test_drift_is_told_with_who_changed_it_last_and_undone() -> None:
    declare("*/5 * * * *")
    typed("jobs", "sync")
    definitions.change("tests.declared.poll", version=1, queue="other", by="anna", through="admin")
    code, lines = ended("jobs", "sync", "--check")
    assert code == 3
    assert lines[:4] == ["~ tests.declared.poll", "    queue", "      - other", "      + default"]
    assert lines[4].startswith("    last changed by anna through admin at 20")
    assert Job.objects.get().queue == "other"
    typed("jobs", "sync")
    assert Job.objects.get().queue == "default"
    assert JobVersion.objects.count() == 3


def test_what_is_no_longer_declared_is_left_unless_it_is_pruned() -> None:
    declare("*/5 * * * *")
    typed("jobs", "sync")
    definitions.create(key="by-hand", task="onbeat.echo")
    declared._declared.clear()
    assert typed("jobs", "sync")[0] == "? tests.declared.poll  no longer named by the code; --prune archives it"
    assert Job.objects.open().count() == 2
    typed("jobs", "sync", "--prune")
    assert list(Job.objects.open().values_list("key", flat=True)) == ["by-hand"]
    assert typed("jobs", "sync") == ["No task of the installed apps has an @scheduled beside it."]


def test_a_job_that_was_paused_stays_so() -> None:
    declare("*/5 * * * *")
    typed("jobs", "sync")
    definitions.pause("tests.declared.poll", reason="month end")
    assert typed("jobs", "sync") == ["1 unchanged."]
    assert Job.objects.get().state == JobState.PAUSED


@pytest.mark.parametrize(
    ("when", "fields", "says"),
    [
        ("*/5 * *", {}, "must have 5 fields"),
        (1.5, {}, "@scheduled takes a cron expression, seconds, a timedelta or a Cron(…), not 1.5."),
        (True, {}, "not True."),
        (timedelta(milliseconds=1500), {}, "An interval must be whole seconds, not 0:00:01.500000."),
        ("* * * * *", {"timezone": "Mars/Olympus"}, "'Mars/Olympus' is no time zone"),
        ("* * * * *", {"quue": "mail"}, "A job has no field 'quue'; did you mean 'queue'?"),
        ("* * * * *", {"priority": 11}, "The priority must be 0 (low) to 9 (critical), not 11."),
        ("* * * * *", {"key": "no such key!"}, "The key 'no such key!' must be"),
    ],
)
def test_a_mistake_stops_nobody_but_the_sync_which_names_it(when: Any, fields: dict[str, Any], says: str) -> None:
    declare("0 3 * * *", name="tests.declared.good")
    declare(when, **fields)  # raises nothing: whatever imports the module goes on
    before = rows.everything()
    text = told("jobs", "sync")
    assert says in text
    assert text.startswith(fields.get("key", "tests.declared.poll"))
    assert rows.everything() == before


def test_mistakes_are_found_without_a_database(noon: Any, django_assert_num_queries: Any) -> None:
    declare("0 3 * * *", name="tests.declared.good")
    declare("0 99 * * *")
    with django_assert_num_queries(0):
        found = declared.mistakes(noon)
    assert [where for where, _ in found] == [f"tests.declared.poll in {__name__}"]
    assert "The hour '99'" in found[0][1]


def test_what_is_no_task_cannot_be_scheduled() -> None:
    @scheduled("* * * * *", key="odd")
    def no_task() -> None:
        """Not known to Celery."""

    assert "What @scheduled stands beside is no Celery task; add @shared_task." in told("jobs", "sync")


def test_two_declarations_of_one_key_are_refused() -> None:
    declare("* * * * *", key="a")
    declare("0 3 * * *", key="a", name="tests.declared.other")
    assert "The key 'a' stands twice in one call; say each job once." in told("jobs", "sync")


# ── At start ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_beat_that_starts_brings_jobs_in_line_and_prunes_none() -> None:
    declare("*/5 * * * *")
    assert sync() == {"created": 1}
    definitions.change("tests.declared.poll", version=1, queue="other")
    assert sync() == {"changed": 1}
    declared._declared.clear()
    assert sync() == {"left": 1}
    assert set(JobVersion.objects.exclude(through="python").values_list("through", flat=True)) == {"beat"}


def begun(monkeypatch: pytest.MonkeyPatch, do: Any, stop: threading.Event) -> list[str]:
    """What is told once the thread has ended."""
    said: list[str] = []
    monkeypatch.setattr(starting, "_registered", {"sync": do})
    monkeypatch.setattr(starting, "_AGAIN_SECONDS", 0.01)
    monkeypatch.setattr("executions.events.emit", lambda what, **facts: said.append(f"{what} {facts}"))
    monkeypatch.setattr("executions.events.warn", lambda what, **facts: said.append(f"{what} {facts}"))
    thread = starting.begin(stop)
    assert thread is not None
    wait_until(lambda: not thread.is_alive(), what="the thread ends")
    return said


def test_what_a_beat_does_at_start_is_tried_until_the_database_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[Any] = [OperationalError("away"), OperationalError("away"), {"created": 1}]

    def do() -> dict[str, object]:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return dict(answer)

    assert begun(monkeypatch, do, threading.Event()) == ["sync at start {'created': 1}"]


def test_a_refusal_at_start_is_told_once_and_ends_no_beat(monkeypatch: pytest.MonkeyPatch) -> None:
    def do() -> dict[str, object]:
        raise ValueError("it cannot be")

    assert begun(monkeypatch, do, threading.Event()) == ["sync at start failed {'error': 'ValueError: it cannot be'}"]


def test_a_beat_that_stops_does_not_wait_for_what_it_does_at_start(monkeypatch: pytest.MonkeyPatch) -> None:
    stop = threading.Event()

    def do() -> dict[str, object]:
        stop.set()
        raise OperationalError("away")

    assert begun(monkeypatch, do, stop) == []


def test_without_the_setting_nothing_is_done_at_start() -> None:
    assert starting.begin(threading.Event()) is None
