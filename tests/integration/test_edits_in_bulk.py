"""Many jobs that are changed, paused, resumed or archived together become what they would have become one by one."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from executions.models import Execution
from executions.states import State
from jobs import definitions
from jobs.edits import Held, hold
from jobs.models import Job, JobState, JobVersion, Schedule
from jobs.recurrence import Cron, Once, Within
from jobs.refusals import InvalidDefinition, JobIsOver, StaleVersion
from tests import rows
from tests.making import a_job, a_planner, every_minute, planned, seconds

pytestmark = pytest.mark.django_db
MINUTE = timedelta(minutes=1)
SIGNATURE = {"by": "ops", "through": "command"}
Verb = Callable[[Sequence[Held], datetime], None]


# ── Jobs in every situation ──────────────────────────────────────────────────────────────────────────────────────


def a_town(noon: datetime, count: int = 12) -> list[Job]:
    """With a schedule and without, with rows to come and passed ones, with fires that nobody planned, paused."""
    return [_SITUATIONS[number % len(_SITUATIONS)](f"job-{number:03}", noon) for number in range(count)]


def _asked_only(key: str, noon: datetime) -> Job:
    return a_job(now=noon, key=key)


def _quiet(key: str, noon: datetime) -> Job:
    return a_job(now=noon, key=key, schedule=Cron("30 7 * * *", timezone="Europe/Berlin"), tags=["mail"])


def _with_a_row_to_come(key: str, noon: datetime) -> Job:
    job = a_job(now=noon - MINUTE, key=key, schedule=every_minute(noon))
    planned(job, noon + MINUTE)
    _next(job, noon + 2 * MINUTE)
    return job


def _with_a_passed_row(key: str, noon: datetime) -> Job:
    job = a_job(now=noon - 3 * MINUTE, key=key, schedule=every_minute(noon), max_fires=9)
    planned(job, noon - MINUTE)
    planned(job, noon + MINUTE)
    _next(job, noon + 2 * MINUTE, fires_left=5)
    return job


def _with_fires_nobody_planned(key: str, noon: datetime) -> Job:
    job = a_job(now=noon - 9 * MINUTE, key=key, schedule=Within(every_minute(noon), end=noon + 90 * MINUTE))
    _next(job, noon - 5 * MINUTE)
    return job


def _paused(key: str, noon: datetime) -> Job:
    job = _with_fires_nobody_planned(key, noon)
    return definitions.pause(job, reason="a reason of its own", until=noon + 9 * MINUTE, now=noon - 2 * MINUTE)


def _at_its_last_fire(key: str, noon: datetime) -> Job:
    job = a_job(now=noon - MINUTE, key=key, schedule=Once(noon + MINUTE))
    planned(job, noon + MINUTE)
    _next(job, None)
    return job


def _next(job: Job, moment: datetime | None, **columns: Any) -> None:
    Schedule.objects.filter(job_id=job.pk).update(next_fire_at=moment, **columns)


_SITUATIONS = [
    _asked_only,
    _quiet,
    _with_a_row_to_come,
    _with_a_passed_row,
    _with_fires_nobody_planned,
    _paused,
    _at_its_last_fire,
]


# ── What can be done to them ─────────────────────────────────────────────────────────────────────────────────────


def _pause(held: Sequence[Held], now: datetime) -> None:
    definitions.pause_all(held, reason="closed", until=now + timedelta(hours=2), **SIGNATURE, now=now)


def _resume(held: Sequence[Held], now: datetime) -> None:
    definitions.resume_all(held, **SIGNATURE, now=now)


def _archive(held: Sequence[Held], now: datetime) -> None:
    definitions.archive_all(held, reason="gone", **SIGNATURE, now=now)


def _changing(**fields: Any) -> Verb:
    def do(held: Sequence[Held], now: datetime) -> None:
        changes = [definitions.to_change(one, fields, task_lives_elsewhere=False, now=now) for one in held]
        definitions.change_all(changes, **SIGNATURE, now=now)

    return do


VERBS: dict[str, Verb] = {
    "pause": _pause,
    "resume": _resume,
    "archive": _archive,
    "change what runs": _changing(kwargs={"edited": True}),
    "change labels": _changing(owner="billing", tags=["new"]),
    "change nothing": _changing(queue="default"),
    "change the schedule": _changing(schedule=Cron("0 * * * *")),
    "take the schedule away": _changing(schedule=None),
}


@pytest.fixture(params=list(VERBS))
def verb(request: pytest.FixtureRequest) -> Verb:
    return VERBS[request.param]


def together(verb: Verb, jobs: Sequence[Job], now: datetime) -> None:
    with transaction.atomic():
        verb(hold([job.pk for job in jobs]), now)


def one_by_one(verb: Verb, jobs: Sequence[Job], now: datetime) -> None:
    for job in jobs:
        together(verb, [job], now)


# ── What is stored then, but for numbers that are different each time ────────────────────────────────────────────

_BY_CHANCE = {Execution: {"id"}, JobVersion: {"id"}, Job: set(), Schedule: set()}


def stored() -> dict[str, list[dict[str, Any]]]:
    return {
        model.__name__: sorted(
            ({name: value for name, value in row.items() if name not in by_chance} for row in model.objects.values()),  # type: ignore[attr-defined]
            key=repr,
        )
        for model, by_chance in _BY_CHANCE.items()
    }


def outcome(do: Callable[[], None], *, is_new_schedule: bool = False) -> dict[str, list[dict[str, Any]]]:
    """Taken back."""
    with transaction.atomic():
        do()
        found = stored()
        transaction.set_rollback(True)
    if is_new_schedule:
        # A schedule where there was none begins with a version by chance, so that no planner takes it for the old one.
        for row in found["Schedule"]:
            row["version"] = min(row["version"], 100)
    return found


def test_together_they_become_what_they_become_one_by_one(verb: Verb, noon: datetime) -> None:
    jobs = a_town(noon, 14)
    is_new = verb is VERBS["change the schedule"]
    at_once = outcome(lambda: together(verb, jobs, noon), is_new_schedule=is_new)
    assert at_once == outcome(lambda: one_by_one(verb, list(reversed(jobs)), noon), is_new_schedule=is_new)
    assert (at_once == stored()) is (verb is VERBS["change nothing"])


@pytest.mark.parametrize("name", ["pause", "resume", "archive"])
def test_one_of_many_is_what_the_verb_for_one_makes_of_it(name: str, noon: datetime) -> None:
    jobs = a_town(noon, 14)
    words: dict[str, Any] = {
        "pause": {"reason": "closed", "until": noon + timedelta(hours=2)},
        "resume": {},
        "archive": {"reason": "gone"},
    }[name]

    def do() -> None:
        for job in jobs:
            getattr(definitions, name)(job, **words, **SIGNATURE, now=noon)

    assert outcome(lambda: together(VERBS[name], jobs, noon)) == outcome(do)


def test_thirty_take_as_many_statements_as_seven(verb: Verb, noon: datetime) -> None:
    def statements(count: int) -> int:
        with transaction.atomic():
            jobs = a_town(noon, count)
            with CaptureQueriesContext(connection) as seen:
                together(verb, jobs, noon)
            transaction.set_rollback(True)
        return len(seen)

    assert statements(7) == statements(30)


def test_three_take_as_many_statements_as_thirty_alike(verb: Verb, noon: datetime) -> None:
    def statements(count: int) -> int:
        with transaction.atomic():
            jobs = [_with_a_passed_row(f"job-{number}", noon) for number in range(count)]
            if verb is VERBS["resume"]:
                together(VERBS["pause"], jobs, noon)
            with CaptureQueriesContext(connection) as seen:
                together(verb, jobs, noon)
            transaction.set_rollback(True)
        return len(seen)

    assert statements(3) == statements(30)


# ── What becomes of rows, fires and versions ─────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["pause", "archive", "change what runs", "change the schedule"])
def test_rows_to_come_are_taken_back_and_passed_ones_are_skipped(name: str, noon: datetime) -> None:
    jobs = [_with_a_passed_row(f"job-{number}", noon) for number in range(3)]
    together(VERBS[name], jobs, noon)
    for job in jobs:
        (row,) = rows.of(job)
        assert (row.state, row.fire_time) == (State.SKIPPED, noon - MINUTE)
        assert row.reason


def test_what_was_taken_back_comes_again_after_a_change(noon: datetime) -> None:
    jobs = [_with_a_passed_row(f"job-{number}", noon) for number in range(3)]
    together(VERBS["change what runs"], jobs, noon)
    for job in jobs:
        schedule = rows.schedule_of(job)
        assert (schedule.next_fire_at, schedule.fires_left) == (noon + MINUTE, 7)  # neither fire counts


@pytest.mark.parametrize("name", ["pause", "archive", "change what runs", "take the schedule away"])
def test_passed_fires_leave_one_row_each_job(name: str, noon: datetime) -> None:
    jobs = [_with_fires_nobody_planned(f"job-{number}", noon) for number in range(3)]
    together(VERBS[name], jobs, noon)
    for job in jobs:
        (row,) = rows.of(job)
        assert (row.state, row.skipped_count) == (State.SKIPPED, 6)
        assert (row.fire_time, row.skipped_until) == (noon - 5 * MINUTE, noon)
        assert row.reason.startswith("misfire: no beat could plan these in time, and then the job was ")


def test_the_fires_of_a_pause_leave_one_row_when_it_ends(noon: datetime) -> None:
    jobs = [a_job(now=noon, key=f"job-{number}", schedule=every_minute(noon)) for number in range(3)]
    together(VERBS["pause"], jobs, noon + seconds(30))
    together(VERBS["resume"], jobs, noon + 4 * MINUTE + seconds(30))
    for job in jobs:
        (row,) = rows.of(job)
        assert (row.state, row.skipped_count, row.reason) == (State.SKIPPED, 4, "paused: closed")
        assert rows.schedule_of(job).next_fire_at == noon + 5 * MINUTE


def test_versions_rise_by_one_and_are_kept(verb: Verb, noon: datetime) -> None:
    jobs = [_paused(f"job-{number}", noon) for number in range(3)]
    together(verb, jobs, noon)
    expected = 2 if verb is VERBS["change nothing"] else 3
    assert set(Job.objects.values_list("version", flat=True)) == {expected}
    assert JobVersion.objects.filter(version=expected, through="command", changed_by="ops").count() == (
        3 if expected == 3 else 0
    )


@pytest.mark.parametrize("name", ["pause", "archive", "change what runs", "change the schedule"])
def test_the_schedule_has_another_version_for_whoever_read_it(name: str, noon: datetime) -> None:
    jobs = [_quiet(f"job-{number}", noon) for number in range(3)]
    together(VERBS[name], jobs, noon)
    assert set(Schedule.objects.values_list("version", flat=True)) == {2}


@pytest.mark.parametrize("name", [name for name in VERBS if name not in ("resume", "change nothing", "change labels")])
def test_a_planner_that_read_before_an_edit_plans_nothing(
    name: str, noon: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [a_job(now=noon, key=f"job-{number}", schedule=every_minute(noon)) for number in range(3)]
    now = noon + seconds(57)
    planner = a_planner()
    read = planner._read

    def read_and_be_late(*words: Any) -> list[Schedule]:
        due = read(*words)
        assert len(due) == 3
        together(VERBS[name], jobs, now)
        return due

    monkeypatch.setattr(planner, "_read", read_and_be_late)
    assert planner.plan_due(now=now).fires == 0
    assert not Execution.objects.exists()


# ── Refused ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_is_held_is_in_the_order_of_ids_with_its_schedule(noon: datetime) -> None:
    jobs = a_town(noon, 7)
    held = hold([job.pk for job in reversed(jobs)])
    assert [one.job.pk for one in held] == [job.pk for job in jobs]
    assert [one.schedule is None for one in held] == [True, *[False] * 6]
    assert all(one.schedule is None or one.schedule.job is one.job for one in held)


def test_who_is_over_or_was_changed_is_not_changed_again(noon: datetime) -> None:
    job = definitions.archive(a_job(now=noon), now=noon)
    (held,) = hold([job.pk])
    with pytest.raises(JobIsOver, match="ARCHIVED"):
        held.check()
    (held,) = hold([a_job(now=noon).pk])
    with pytest.raises(StaleVersion):
        held.check(version=2)


def test_one_that_cannot_be_resumed_stops_all(noon: datetime) -> None:
    jobs = [_paused(f"job-{number}", noon) for number in range(3)]
    Schedule.objects.filter(job_id=jobs[1].pk).update(expression="0")
    before = rows.everything()
    with pytest.raises(InvalidDefinition, match="of 'job-1' cannot be read"):
        together(VERBS["resume"], jobs, noon)
    assert rows.everything() == before


def test_a_broken_schedule_can_be_archived_and_replaced(noon: datetime) -> None:
    jobs = [_with_fires_nobody_planned(f"job-{number}", noon) for number in range(4)]
    Schedule.objects.filter(job_id__in=[jobs[0].pk, jobs[2].pk]).update(expression="0")
    together(VERBS["change the schedule"], jobs[:2], noon)
    together(VERBS["archive"], jobs[2:], noon)
    assert rows.schedule_of(jobs[0]).next_fire_at == noon + timedelta(hours=1)
    assert [row.skipped_count for job in jobs for row in rows.of(job)] == [None, 6, None, 6]
    assert list(Job.objects.order_by("pk").values_list("state", flat=True)) == [
        JobState.ACTIVE,
        JobState.ACTIVE,
        JobState.ARCHIVED,
        JobState.ARCHIVED,
    ]
