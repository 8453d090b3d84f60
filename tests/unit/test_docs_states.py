"""The page of states says what the code does: states, steps, verbs, outcomes, triggers, policies and states of jobs."""

import inspect
import re
from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from executions import lifecycle
from executions.models import Execution
from executions.outcomes import Held
from executions.states import FIRE_TRIGGERS, OPEN, TRANSITIONS, Outcome, Overlap, State, Trigger
from jobs import definitions, runs
from jobs.models import OPEN_STATES, Job, JobState, Schedule
from jobs.refusals import InvalidDefinition, InvalidRun
from tests.making import a_job, claimed, every_minute, planned
from tests.unit.doc_pages import Table, blocks, page, section, tables
from tests.unit.state_chart import arrows

STEP = re.compile(r"([A-Z]+) → ([A-Z]+)")
STEPS = {(str(t.source), str(t.target)) for t in TRANSITIONS}


def table_of(heading: str, number: int = 0) -> Table:
    return tables(section(page("reference/states.md"), heading))[number]


def column(heading: str, number: int = 0) -> list[str]:
    return [row[number] for row in table_of(heading)]


def steps_of_verbs() -> dict[str, set[tuple[str, str]]]:
    return {row[0]: set(STEP.findall(row[1])) for row in table_of("Verbs")}


def test_the_states_are_those_of_the_code() -> None:
    assert column("States of an execution") == list(State)


def test_the_open_states_are_named() -> None:
    names = [str(state) for state in OPEN]
    assert f"{', '.join(names[:-1])} and {names[-1]} are open" in section(
        page("reference/states.md"), "States of an execution"
    )


def test_the_transitions_are_those_of_the_code_with_their_occasions() -> None:
    assert [tuple(row) for row in table_of("Transitions")] == [(t.source, t.target, t.when) for t in TRANSITIONS]


def test_the_arrows_of_the_chart_are_those_of_the_code() -> None:
    (chart,) = blocks(section(page("reference/states.md"), "The chart"))
    assert arrows(chart, set(State)) == STEPS


@pytest.mark.parametrize(
    ("chart", "expected"),
    [
        ("DEAD ──► QUEUED", {("DEAD", "QUEUED")}),
        ("DEAD ◄─┬─ QUEUED\n       │\n    RUNNING", {("QUEUED", "DEAD"), ("RUNNING", "DEAD")}),
        ("DEAD ─┬─► QUEUED\n      ▼\n    RUNNING", {("DEAD", "QUEUED"), ("DEAD", "RUNNING")}),
        ("DEAD\n│  ▲\n▼  │\nQUEUED", {("DEAD", "QUEUED"), ("QUEUED", "DEAD")}),
    ],
)
def test_a_chart_is_read_as_a_person_reads_it(chart: str, expected: set[tuple[str, str]]) -> None:
    assert arrows(chart, set(State)) == expected


@pytest.mark.parametrize("chart", ["DEAD ──► nowhere", "DEAD ── QUEUED", "─► DEAD"])
def test_a_chart_with_a_loose_end_is_an_error(chart: str) -> None:
    with pytest.raises(AssertionError):
        arrows(chart, set(State))


def test_the_verbs_are_those_of_the_lifecycle() -> None:
    functions = inspect.getmembers(lifecycle, inspect.isfunction)
    in_code = {
        name for name, verb in functions if verb.__module__.startswith(lifecycle.__name__) and not name.startswith("_")
    }
    assert set(steps_of_verbs()) == in_code
    assert len(column("Verbs")) == len(in_code)


def test_every_step_of_a_verb_is_a_transition_and_every_transition_has_a_verb() -> None:
    assert set().union(*steps_of_verbs().values()) == STEPS


def test_a_verb_whose_docstring_names_steps_has_these_on_the_page() -> None:
    """Docstrings say "SCHEDULED or QUEUED → RUNNING" and "… → DEAD"; the page may tell more, never less."""
    named = re.compile(r"([A-Z]{4,})(?: or ([A-Z]{4,}))? → ([A-Z]{4,})")
    on_the_page = steps_of_verbs()
    said = {
        (verb, source, target)
        for verb in on_the_page
        for first, second, target in named.findall(inspect.getdoc(getattr(lifecycle, verb)) or "")
        for source in filter(None, (first, second))
        if source != target
    }
    assert len(said) >= 10
    assert [(verb, source, target) for verb, source, target in said if (source, target) not in on_the_page[verb]] == []


@pytest.mark.parametrize(
    ("heading", "names"),
    [
        ("Outcomes of an attempt", Outcome),
        ("Triggers", Trigger),
        ("Overlap policies", Overlap),
        ("States of a job", JobState),
    ],
)
def test_the_other_names_are_those_of_the_code(heading: str, names: type[Outcome]) -> None:
    assert column(heading) == list(names)


def test_the_triggers_that_exist_once_per_fire_are_marked() -> None:
    marked = [row[0] for row in table_of("Triggers") if row[2] == "yes"]
    assert marked == list(FIRE_TRIGGERS)


def test_the_pause_of_a_waiter_is_that_of_the_code() -> None:
    seconds = lifecycle.LOOK_AGAIN_AFTER.total_seconds()
    assert f"looks again by itself after {seconds:g} s" in section(page("reference/states.md"), "Overlap policies")


@pytest.mark.django_db
@pytest.mark.parametrize("policy", list(Overlap))
def test_a_run_without_room_becomes_what_the_policy_says(policy: Overlap, noon: datetime) -> None:
    says = dict(table_of("Overlap policies"))[policy]
    job = a_job(now=noon, overlap=policy, max_concurrency=1)
    fires = [planned(job, noon + timedelta(seconds=second)) for second in range(3)]
    claimed(fires[0], now=noon)
    for fire in fires[1:]:
        assert isinstance(lifecycle.claim(fire.pk, 1, worker="w", now=noon), Held)
    rows = {row.pk: row for row in Execution.objects.all()}
    ends = [rows[fire.pk].state for fire in fires[1:]]
    left_out = [rows[fire.pk].reason for fire in fires[1:] if rows[fire.pk].state == State.SKIPPED]
    assert all(reason.removeprefix(f"overlap {policy}: ") in says for reason in left_out)
    assert (rows[fires[0].pk].cancel_requested_at is not None) is ("is asked to stop" in says)
    expected = {"It is SKIPPED": [State.SKIPPED] * 2, "One waits": [State.SCHEDULED, State.SKIPPED]}
    assert ends == next((end for words, end in expected.items() if says.startswith(words)), [State.SCHEDULED] * 2)


def job_in(state: str, now: datetime) -> Job:
    job = a_job(now=now, key="the-job", schedule=every_minute(now))
    if state == JobState.PAUSED:
        definitions.pause(job, reason="why", until=now + timedelta(hours=1), now=now)
    elif state == JobState.ARCHIVED:
        definitions.archive(job, now=now)
    elif state == JobState.COMPLETED:
        Schedule.objects.update(next_fire_at=None)
        definitions.complete_ended(now)
    job.refresh_from_db()
    assert job.state == state
    return job


def run_out(now: datetime) -> None:
    Schedule.objects.update(next_fire_at=None)
    definitions.complete_ended(now)


ACTS: dict[str, Callable[[Job, datetime], object]] = {
    "pause": lambda job, now: definitions.pause(job, reason="other", now=now),
    "resume": lambda job, now: definitions.resume(job, now=now),
    "resume_due": lambda _job, now: definitions.resume_due(now + timedelta(hours=2)),
    "complete_ended": lambda _job, now: run_out(now),
    "archive": lambda job, now: definitions.archive(job, now=now),
}


@pytest.mark.django_db
@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("state", list(JobState))
def test_a_job_goes_where_the_table_says_and_nowhere_else(state: JobState, act: str, noon: datetime) -> None:
    ways = {
        (row[0], verb): row[1] for row in table_of("States of a job", 1) for verb in re.findall(r"\b[a-z_]+\b", row[2])
    }
    job = job_in(state, noon)
    try:
        ACTS[act](job, noon)
    except InvalidDefinition:
        assert state not in OPEN_STATES
    job.refresh_from_db()
    assert job.state == ways.get((state, act), state)


@pytest.mark.django_db
@pytest.mark.parametrize("state", list(JobState))
def test_what_a_job_may_do_in_a_state_is_what_the_table_says(state: JobState, noon: datetime) -> None:
    row = next(row for row in table_of("States of a job") if row[0] == state)
    job = job_in(state, noon)
    fires = Schedule.objects.filter(next_fire_at__isnull=False, is_active=True).exists()
    try:
        runs.run(job, now=noon)
        is_run = True
    except InvalidRun:
        is_run = False
    try:
        a_job(now=noon, key=job.key)
        is_free = True
    except InvalidDefinition:
        is_free = False
    assert row[2:] == ["yes" if answer else "no" for answer in (fires, is_run, not is_free)]
