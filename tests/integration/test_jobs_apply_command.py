"""`jobs apply`: what differs is shown, then done in one transaction, and only to one's own jobs."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError
from django.db import connection
from django.test.utils import CaptureQueriesContext

from access.models import AuditEntry
from executions.clock import database_now
from executions.models import Execution
from jobs import applying, definitions
from jobs.applying import Rules
from jobs.models import Job, JobState, JobVersion, Schedule
from jobs.recurrence import Cron
from tests import rows
from tests.at_terminal import document, ended, refusals, typed
from tests.job_files import a_body, written
from tests.making import planned
from tests.tiers import once_full

pytestmark = [pytest.mark.django_db, once_full]
Write = Callable[..., str]
A = "jobs:\n- {key: a, target: {task: onbeat.echo}"


def told(*words: str) -> str:
    """What has to be corrected, a line each."""
    return "\n".join(refusals(*words))


@pytest.fixture
def write(tmp_path: Path) -> Write:
    return partial(written, tmp_path)


def keys(state: JobState = JobState.ACTIVE) -> list[str]:
    return list(Job.objects.filter(state=state).order_by("key").values_list("key", flat=True))


# ── Apply ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_dry_run_shows_what_differs_and_does_nothing(write: Write) -> None:
    typed("jobs", "apply", write(a_body("kept"), a_body("changed"), a_body("gone")), "--by", "anna")
    before = rows.everything()
    after = write(a_body("kept"), a_body("changed", schedule={"cron": "0 4 * * *"}, queue="mail"), a_body("new"))
    assert typed("jobs", "apply", after, "--dry-run", "--prune") == [
        "~ changed",
        "    queue",
        "      - default",
        "      + mail",
        "    schedule.cron",
        "      - 0 3 * * *",
        "      + 0 4 * * *",
        typed("jobs", "apply", after, "--dry-run")[7],
        "+ new  Every day at 03:00, UTC: onbeat.echo",
        "- gone  no longer named by the file: archived",
        "",
        "1 created, 1 changed, 1 unchanged, 1 archived. Nothing was done: this was only a look.",
    ]
    assert typed("jobs", "apply", after, "--dry-run")[7].startswith("    last changed by anna through command at 20")
    assert rows.everything() == before


def test_what_differs_is_created_changed_and_archived_with_a_version_and_an_audit_entry_each(write: Write) -> None:
    typed("jobs", "apply", write(a_body("kept"), a_body("changed"), a_body("gone")))
    after = write(a_body("kept"), a_body("changed", queue="mail"), a_body("new"))
    data = document("jobs", "apply", after, "--prune", "--by", "ops")
    assert data == {
        "manager": "team",
        "is_done": True,
        "counts": {"created": 1, "changed": 1, "adopted": 0, "unchanged": 1, "archived": 1, "left": 0},
        "steps": [
            {
                "key": "changed",
                "becomes": "changed",
                "differences": [{"field": "queue", "before": "default", "after": "mail"}],
            },
            {"key": "new", "becomes": "created"},
            {"key": "gone", "becomes": "archived"},
        ],
    }
    assert keys() == ["changed", "kept", "new"]
    assert keys(JobState.ARCHIVED) == ["gone"]
    assert Job.objects.get(key="changed").queue == "mail"
    assert not Schedule.objects.get(job__key="gone").is_active
    versions = JobVersion.objects.filter(changed_by="ops", through="command").order_by("job__key")
    assert [(each.job.key, each.version, each.change) for each in versions] == [
        ("changed", 2, "CHANGED"),
        ("gone", 2, "ARCHIVED"),
        ("new", 1, "CREATED"),
    ]
    entries = AuditEntry.objects.filter(who="ops").order_by("subject")
    assert [(each.action, each.subject, each.note) for each in entries] == [
        ("job.change", "job:changed", "managed by team"),
        ("job.archive", "job:gone", "managed by team"),
        ("job.create", "job:new", "managed by team"),
    ]
    assert (entries[0].before, entries[0].after) == ({"queue": "default"}, {"queue": "mail"})
    assert (entries[1].before, entries[1].after) == ({"state": "ACTIVE"}, {"state": "ARCHIVED"})


def test_applying_again_changes_nothing(write: Write) -> None:
    file = write(a_body("a"), a_body("b", schedule={"every": 900}), a_body("c", schedule=None))
    typed("jobs", "apply", file)
    before = rows.everything()
    assert typed("jobs", "apply", file, "--prune") == ["3 unchanged."]
    assert typed("jobs", "apply", file, "--check") == ["3 unchanged."]
    assert rows.everything() == before


def test_without_prune_what_is_no_longer_named_is_left_and_told(write: Write) -> None:
    typed("jobs", "apply", write(a_body("a"), a_body("b")))
    assert typed("jobs", "apply", write(a_body("a"))) == [
        "? b  no longer named by the file; --prune archives it",
        "",
        "1 unchanged, 1 left.",
    ]
    assert keys() == ["a", "b"]


def test_a_paused_job_that_is_archived_is_told_as_such(write: Write) -> None:
    typed("jobs", "apply", write(a_body("a")))
    definitions.pause("a", reason="month end")
    typed("jobs", "apply", write(), "--prune")
    entry = AuditEntry.objects.get(action="job.archive")
    assert (entry.before, entry.after) == ({"state": "PAUSED"}, {"state": "ARCHIVED"})


def test_prune_archives_nobody_elses_jobs(write: Write) -> None:
    definitions.create(key="by-hand", task="onbeat.echo")
    typed("jobs", "apply", write(a_body("theirs"), manager="other"))
    typed("jobs", "apply", write(a_body("mine")))
    typed("jobs", "apply", write(), "--prune")
    assert keys() == ["by-hand", "theirs"]


def test_a_job_that_nobody_manages_is_adopted_and_keeps_its_version(write: Write) -> None:
    job = definitions.create(key="a", task="onbeat.echo", schedule=Cron("0 3 * * *"))
    assert typed("jobs", "apply", write(a_body("a")), "--by", "ops")[0] == (
        "= a  says so already; managed by team from now on"
    )
    job.refresh_from_db()
    assert (job.managed_by, job.version) == ("team", 1)
    entry = AuditEntry.objects.get(who="ops")
    assert (entry.action, entry.after) == ("job.manage", {"managed_by": "team"})


def test_a_job_of_another_manager_is_refused_unless_it_is_taken_over(write: Write) -> None:
    typed("jobs", "apply", write(a_body("a"), manager="other"))
    file = write(a_body("new"), a_body("a", queue="mail"))
    before = rows.everything()
    assert told("jobs", "apply", file) == (
        "a: The job 'a' is managed by 'other' and not by 'team'; take it out there first, or take it over.\n"
        "1 thing to correct; nothing was applied."
    )
    assert rows.everything() == before
    typed("jobs", "apply", file, "--take-over")
    assert {job.key: job.managed_by for job in Job.objects.all()} == {"a": "team", "new": "team"}


def test_check_exits_with_3_where_something_would_be_done(write: Write) -> None:
    code, lines = ended("jobs", "apply", write(a_body("a")), "--check")
    assert code == 3
    assert lines[-1] == "1 created. Nothing was done: this was only a look."
    assert keys() == []


def test_a_paused_job_stays_paused(write: Write) -> None:
    typed("jobs", "apply", write(a_body("a")))
    definitions.pause("a", reason="month end")
    typed("jobs", "apply", write(a_body("a", queue="mail")))
    job = Job.objects.get(key="a")
    assert (job.state, job.queue, job.paused_reason) == (JobState.PAUSED, "mail", "month end")
    assert not Schedule.objects.get(job=job).is_active


def test_what_was_planned_of_a_changed_job_is_taken_back_and_of_an_unchanged_one_not(write: Write) -> None:
    typed("jobs", "apply", write(a_body("a"), a_body("b")))
    soon = database_now() + timedelta(seconds=30)
    for key in ("a", "b"):
        planned(Job.objects.get(key=key), soon)
    typed("jobs", "apply", write(a_body("a"), a_body("b", kwargs={"message": "other"})))
    assert [row.job.key for row in Execution.objects.select_related("job")] == ["a"]
    assert Schedule.objects.get(job__key="b").next_fire_at == soon


def test_the_number_of_statements_does_not_depend_on_the_number_of_jobs(write: Write) -> None:
    def statements(count: int, **more: Any) -> int:
        file = write(*(a_body(f"{count}.{n}", **more) for n in range(count)), manager=f"of {count}")
        with CaptureQueriesContext(
            connection,
        ) as captured:
            typed("jobs", "apply", file, "--prune")
        return len(captured)

    assert statements(3) == statements(40)
    assert statements(3, queue="mail") == statements(40, queue="mail")
    archived = [statements_of_none(write, f"of {count}") for count in (3, 40)]
    assert archived[0] == archived[1]
    assert keys() == []


def statements_of_none(write: Write, manager: str) -> int:
    with CaptureQueriesContext(connection) as captured:
        typed("jobs", "apply", write(manager=manager), "--prune")
    return len(captured)


# ── Files ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_several_files_are_applied_together(write: Write) -> None:
    one, two = write(a_body("a"), name="one.yaml"), write(a_body("b"), name="two.yaml")
    typed("jobs", "apply", one, two)
    typed("jobs", "apply", one, two, "--prune")
    assert keys() == ["a", "b"]


def test_files_of_two_managers_are_applied_apart_or_under_one_name(write: Write) -> None:
    one, two = write(a_body("a"), name="one.yaml"), write(a_body("b"), name="two.yaml", manager="other")
    assert "apply them apart, or name one --manager" in told("jobs", "apply", one, two)
    typed("jobs", "apply", one, two, "--manager", "third")
    assert set(Job.objects.values_list("managed_by", flat=True)) == {"third"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("jobs: [", "is no YAML in line 2"),
        ("jobs: 7", "does not hold jobs: write a list of them under `jobs:`"),
        ("7", "does not hold jobs"),
        ("job: []\njobs: []", "says 'job', which means nothing here; there are manager and jobs"),
        ("jobs: []\njobs: []", "is no YAML in line 2: the name 'jobs' stands twice"),
        ("jobs:\n- key: a\n- 7", "a: target is missing.\njob 2: This must be an object, not 7.\n2 things to correct"),
        (f"{A}, prority: 3}}", "a: There is no field 'prority' here; did you mean 'priority'?"),
        (f"{A}, priority: high}}", "a, priority: This must be a whole number, not 'high'."),
        ("jobs:\n- {key: a, target: {task: onbeat.ecko}}", "a: There is no task 'onbeat.ecko' in the installed apps"),
        (f"{A}, schedule: {{cron: '0 99 * * *'}}}}", "a: The hour '99' of the cron"),
        (f"{A}}}\n- {{key: a, target: {{task: onbeat.echo}}}}", "a: The key 'a' stands twice"),
        (f"{A}, state: PAUSED}}", "a: The job is ACTIVE, and a definition does not change that"),
        (f"{A}, schedule: {{once: {{at: 2020-01-01T00:00:00Z}}}}}}", "a: The schedule (Once, on 1 January 2020"),
        ("!!python/object/apply:os.system [ls]", "is no YAML in line 1: could not determine a constructor"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_is_refused_with_the_jobs_to_correct(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "jobs.yaml"
    path.write_text(text, encoding="utf-8")
    before = rows.everything()
    assert says in told("jobs", "apply", str(path))
    assert rows.everything() == before


def test_one_job_that_cannot_be_keeps_all_others_from_being_applied(write: Write) -> None:
    wrong = a_body("z", target={"task": "nope"})
    assert "1 thing to correct; nothing was applied." in told("jobs", "apply", write(a_body("a"), wrong))
    assert keys() == []


@pytest.mark.parametrize("manager", ["x" * 101, "a\tb"])
def test_a_manager_has_a_short_printable_name(write: Write, manager: str) -> None:
    assert "1 to 100 printable characters" in told("jobs", "apply", write(a_body("a")), "--manager", manager)


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    assert told("jobs", "apply", str(tmp_path / "nope")).endswith("cannot be read: No such file or directory.")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    assert told("jobs", "apply", str(tmp_path / "bytes")).endswith("cannot be read: it is no text in UTF-8.")


# ── From Python ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_looking_from_python_holds_no_row(django_assert_num_queries: Any) -> None:
    definitions.create(key="a", task="onbeat.echo")
    with CaptureQueriesContext(connection) as captured:
        applying.look([applying.Said("a", "onbeat.echo", {"queue": "mail"})], Rules("me"))
    assert not [query for query in captured.captured_queries if "FOR UPDATE" in query["sql"]]


def test_what_cannot_be_told_from_a_refusal_stays_an_error(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_args: object, **_options: object) -> None:
        raise RuntimeError("nobody foresaw this")

    monkeypatch.setattr("api.jobs.deeds.apply", fail)
    with pytest.raises(RuntimeError, match="nobody foresaw this"):
        typed("jobs", "apply", write(a_body("a")))
    with pytest.raises(CommandError):
        typed("jobs", "apply")
