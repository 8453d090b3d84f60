"""`jobs pause`, `resume` and `archive`: by keys or by a filter, asked for where it matters, all of them or none."""

import sys
from collections.abc import Callable
from datetime import datetime, timedelta
from io import StringIO

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from access.models import AuditEntry
from executions.clock import database_now
from jobs.models import Job, JobVersion, Schedule
from terminal.jobs import states
from tests import rows
from tests.at_terminal import Terminal, document, refusal, typed
from tests.making import a_job, every_minute, planned
from tests.tiers import once_full

pytestmark = [pytest.mark.django_db, once_full]


@pytest.fixture
def jobs() -> list[Job]:
    """Made so that the order of their keys is not that of their ids."""
    now = database_now()
    more = {"tags": ["mail"], "owner": "billing", "queue": "slow", "schedule": every_minute(now)}
    return [a_job(now=now, key=key, **more) for key in ("mail.c", "mail.a", "mail.b")] + [a_job(now=now, key="other")]


def state_of(key: str) -> str:
    return Job.objects.get(key=key).state


def states_of() -> list[str]:
    return list(Job.objects.order_by("key").values_list("state", flat=True))


@pytest.fixture
def somebody_answers(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    return lambda answer: monkeypatch.setattr(sys, "stdin", Terminal(answer))


# ── Which ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_several_keys_are_done_in_the_order_in_which_they_were_said(jobs: list[Job]) -> None:
    assert typed("jobs", "pause", "other", "mail.c", "other", "--reason", "closed") == [
        "other is paused.",
        "mail.c is paused.",
    ]
    assert states_of() == ["ACTIVE", "ACTIVE", "PAUSED", "PAUSED"]
    resumed, again = typed("jobs", "resume", "mail.c", "other")
    assert resumed.startswith("mail.c is active; it fires next at 20")
    assert again == "other is active."  # it has no schedule
    assert states_of() == ["ACTIVE"] * 4


@pytest.mark.parametrize(
    "which", [["--tag", "mail"], ["--owner", "billing"], ["--queue", "slow"], ["--prefix", "mail."]]
)
def test_a_filter_is_all_that_match_by_key(jobs: list[Job], which: list[str]) -> None:
    paused = document("jobs", "pause", *which, "--yes")
    assert paused["is_done"] is True
    assert [(job["key"], job["state"]) for job in paused["jobs"]] == [
        ("mail.a", "PAUSED"),
        ("mail.b", "PAUSED"),
        ("mail.c", "PAUSED"),
    ]
    assert state_of("other") == "ACTIVE"
    assert len(document("jobs", "archive", *which, "--yes")["jobs"]) == 3


def test_filters_together_are_what_all_of_them_match(jobs: list[Job]) -> None:
    assert typed("jobs", "pause", "--tag", "mail", "--prefix", "mail.a", "--yes") == ["mail.a is paused."]


def test_a_filter_leaves_alone_who_is_so_already(jobs: list[Job]) -> None:
    typed("jobs", "pause", "mail.a", "--reason", "of its own")
    keys = [job["key"] for job in document("jobs", "pause", "--tag", "mail", "--until", "2h", "--yes")["jobs"]]
    assert keys == ["mail.b", "mail.c"]
    assert Job.objects.get(key="mail.a").paused_until is None
    assert len(document("jobs", "resume", "--tag", "mail", "--yes")["jobs"]) == 3
    assert document("jobs", "resume", "--tag", "mail", "--yes") == {"jobs": [], "is_done": False}


def test_a_key_that_is_paused_gets_another_pause(jobs: list[Job]) -> None:
    typed("jobs", "pause", "mail.a", "--reason", "first", "--until", "2h")
    typed("jobs", "pause", "mail.a", "--reason", "second")
    assert Job.objects.values_list("paused_reason", "paused_until").get(key="mail.a") == ("second", None)


def test_no_match_is_no_error(jobs: list[Job]) -> None:
    assert typed("jobs", "archive", "--tag", "nobody") == ["No job to archive matches."]
    assert document("jobs", "archive", "--tag", "nobody") == {"jobs": [], "is_done": False}


@pytest.mark.parametrize("verb", ["pause", "resume", "archive"])
@pytest.mark.parametrize(
    ("which", "says"),
    [
        ([], "keys, or a filter such as --tag, one of the two."),
        (["other", "--tag", "mail"], "keys, or a filter such as --tag, one of the two."),
        (["other", "mail.x"], "There is no job 'mail.x'; did you mean"),
        (["mail.x", "other"], "There is no job 'mail.x'; did you mean"),
        (["--prefix", ""], "A filter is empty; say what the jobs to "),
        (["--owner", "", "--tag", "mail"], "A filter is empty"),
        (["other", "--untl", "2h"], "There is no option --untl"),
        (["a\nb"], "There is no job"),
    ],
)
def test_who_says_wrongly_which_changes_nothing(jobs: list[Job], verb: str, which: list[str], says: str) -> None:
    assert says in refusal("jobs", verb, "--yes", *which)


def test_one_that_ended_between_takes_none_of_the_others_along(
    jobs: list[Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = states.find

    def find_and_archive(key: str) -> Job:
        job = found(key)
        if key == "mail.a":
            Job.objects.filter(pk=job.pk).update(state="ARCHIVED")
        return job

    monkeypatch.setattr(states, "find", find_and_archive)
    with pytest.raises(Exception, match="ARCHIVED and can no longer be changed"):
        typed("jobs", "pause", "other", "mail.a", "mail.b")
    assert states_of() == ["ARCHIVED", "ACTIVE", "ACTIVE", "ACTIVE"]


# ── Asked ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("answer", "is_done"), [("y\n", True), ("n\n", False), ("\n", False), ("", False)])
def test_on_a_terminal_who_is_meant_is_shown_and_asked_about(
    jobs: list[Job],
    somebody_answers: Callable[[str], None],
    capsys: pytest.CaptureFixture[str],
    answer: str,
    is_done: bool,
) -> None:
    somebody_answers(answer)
    lines = typed("jobs", "pause", "--tag", "mail")
    assert capsys.readouterr().err == "mail.a, mail.b, mail.c\nPause these 3 jobs? [y/N] "
    assert lines == (
        ["mail.a is paused.", "mail.b is paused.", "mail.c is paused."] if is_done else ["Nothing was done."]
    )
    assert state_of("mail.a") == ("PAUSED" if is_done else "ACTIVE")


def test_of_very_many_some_are_shown(
    jobs: list[Job], somebody_answers: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(30):
        a_job(now=database_now(), key=f"many.{number:02}")
    somebody_answers("n\n")
    assert document("jobs", "archive", "--prefix", "many.")["is_done"] is False
    shown, question = capsys.readouterr().err.splitlines()
    assert shown.startswith("many.00, many.01, ")
    assert shown.endswith("many.19 and 10 more")
    assert question == "Archive these 30 jobs? [y/N] "


def test_an_archive_is_asked_about_also_for_a_key(
    jobs: list[Job], somebody_answers: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    somebody_answers("n\n")
    assert typed("jobs", "archive", "other") == ["Nothing was done."]
    assert capsys.readouterr().err == "Archive other? [y/N] "
    somebody_answers("y\n")
    assert typed("jobs", "archive", "other") == ["other is archived."]


def test_without_a_terminal_a_yes_is_needed(jobs: list[Job], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", StringIO("y\n"))
    for words in (["pause", "--tag", "mail"], ["archive", "other"], ["archive", "--prefix", "mail."]):
        assert "add --yes to do it, or --dry-run to look." in refusal("jobs", *words)


@pytest.mark.parametrize("verb", ["pause", "archive"])
def test_a_dry_run_says_who_is_meant_and_does_nothing(jobs: list[Job], verb: str) -> None:
    before = rows.everything()
    assert typed("jobs", verb, "--tag", "mail", "--dry-run") == [f"Would {verb} mail.{name}." for name in "abc"]
    assert document("jobs", verb, "other", "--dry-run", "--yes") == {"jobs": ["other"], "is_done": False}
    assert rows.everything() == before


# ── What becomes of it ───────────────────────────────────────────────────────────────────────────────────────────


def test_a_pause_ends_at_a_moment_or_after_a_while(jobs: list[Job]) -> None:
    assert typed("jobs", "pause", "other", "--until", "2090-01-01T10:00") == [
        "other is paused until 2090-01-01 10:00:00 UTC."
    ]
    before = database_now()
    until = datetime.fromisoformat(document("jobs", "pause", "other", "--until", "2h")["jobs"][0]["pause"]["until"])
    assert before <= until - timedelta(hours=2) <= database_now()


@pytest.mark.parametrize(
    ("until", "says"),
    [
        ("soon", "--until 'soon' is no moment; write a date such as"),
        ("", "--until '' is no moment"),
        ("2020-01-01", "--until 2020-01-01T00:00:00+00:00 is past; choose a moment that is still to come."),
        ("0", "is past; choose a moment"),
        ("99999999w", "--until '99999999w' is longer than any calendar"),
    ],
)
def test_an_end_that_cannot_be_is_one_sentence(jobs: list[Job], until: str, says: str) -> None:
    assert says in refusal("jobs", "pause", "other", "mail.a", "--until", until)


def test_who_why_and_through_what_are_kept(jobs: list[Job], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "anna")
    typed("jobs", "pause", "mail.a", "mail.b", "--reason", "the bank\x1b[31m is closed", "--by", "ops")
    typed("jobs", "resume", "mail.a")
    typed("jobs", "archive", "mail.b", "--reason", "the tenant left", "--yes")
    entries = AuditEntry.objects.order_by("at", "subject").values_list("who", "through", "action", "subject", "note")
    assert [(who, action, subject) for who, _, action, subject, _ in entries] == [
        ("ops", "job.pause", "job:mail.a"),
        ("ops", "job.pause", "job:mail.b"),
        ("anna", "job.resume", "job:mail.a"),
        ("anna", "job.archive", "job:mail.b"),
    ]
    assert {through for _, through, *_ in entries} == {"command"}
    assert [note for *_, note in entries] == ["the bank\x1b[31m is closed"] * 2 + ["", "the tenant left"]
    versions = JobVersion.objects.exclude(version=1).order_by("changed_at", "job__key")
    assert list(versions.values_list("job__key", "version", "change", "changed_by")) == [
        ("mail.a", 2, "PAUSED", "ops"),
        ("mail.b", 2, "PAUSED", "ops"),
        ("mail.a", 3, "RESUMED", "anna"),
        ("mail.b", 3, "ARCHIVED", "anna"),
    ]


def test_the_audit_trail_tells_the_same_as_of_one_job(jobs: list[Job]) -> None:
    typed("jobs", "pause", "mail.a", "--reason", "closed")
    entry = AuditEntry.objects.get()
    assert (entry.before, entry.after) == (
        {"state": "ACTIVE", "pause": None},
        {"state": "PAUSED", "pause": {"reason": "closed", "until": None}},
    )


def test_who_is_active_is_not_resumed_again(jobs: list[Job]) -> None:
    before = rows.everything()
    assert typed("jobs", "resume", "other") == ["other is active."]
    assert rows.everything() == before
    assert not AuditEntry.objects.exists()


def test_what_was_planned_is_taken_back(jobs: list[Job]) -> None:
    for job in jobs[:3]:
        planned(job, database_now() + timedelta(minutes=5))
    typed("jobs", "pause", "--tag", "mail", "--yes")
    assert all(rows.of(job) == [] for job in jobs)


def test_a_schedule_that_cannot_be_read_stops_the_resume_of_all(jobs: list[Job]) -> None:
    typed("jobs", "pause", "mail.a", "mail.b")
    Schedule.objects.filter(job__key="mail.b").update(expression="never")
    assert "of 'mail.b' cannot be read; give the job another one." in refusal("jobs", "resume", "mail.a", "mail.b")


def test_many_take_as_many_statements_as_few() -> None:
    now = database_now()
    for number in range(40):
        tags = ["few"] if number < 4 else ["many"]
        a_job(now=now, key=f"job.{number:02}", schedule=every_minute(now), tags=tags)

    def statements(*words: str) -> int:
        with CaptureQueriesContext(connection) as seen:
            typed("jobs", *words, "--yes")
        return len(seen)

    for verb in ("pause", "resume", "archive"):
        assert statements(verb, "--tag", "few") == statements(verb, "--tag", "many")


def test_more_than_a_batch_is_still_all_or_none(jobs: list[Job], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(states, "_BATCH", 2)
    typed("jobs", "pause", "mail.a", "mail.b", "mail.c", "other")
    assert states_of() == ["PAUSED"] * 4
    Schedule.objects.filter(job__key="mail.b").update(expression="never")
    assert "cannot be read" in refusal("jobs", "resume", "mail.a", "mail.b", "mail.c", "other")
    assert [job["key"] for job in document("jobs", "archive", "other", "mail.c", "mail.a", "--yes")["jobs"]] == [
        "other",
        "mail.c",
        "mail.a",
    ]
