"""Create a job: all of it or nothing, and what was said comes back as it was said."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from executions.retry import Backoff, RetryPolicy
from executions.states import Overlap
from jobs import definitions
from jobs.misfires import Misfire
from jobs.models import Change, Job, JobState, JobVersion, Schedule
from jobs.recurrence import Cron, Every, Once, Within
from jobs.refusals import InvalidDefinition, Refused
from jobs.specification import Specification
from tests.making import a_job, every_minute, seconds
from tests.rows import everything, schedule_of

pytestmark = pytest.mark.django_db


def test_a_job_its_schedule_and_its_first_version_are_stored_together(noon: datetime) -> None:
    job = definitions.create(
        key="report", task="onbeat.echo", schedule=Cron("*/10 * * * *"), by="ada", through="rest", now=noon
    )
    assert (job.state, job.version, job.created_at, job.changed_at) == (JobState.ACTIVE, 1, noon, noon)
    schedule = schedule_of(job)
    assert (schedule.is_active, schedule.version) == (True, 1)
    assert schedule.next_fire_at == noon + timedelta(minutes=10)
    version = JobVersion.objects.get()
    assert (version.job, version.version, version.change, version.changed_at) == (job, 1, Change.CREATED, noon)
    assert (version.changed_by, version.through, version.note) == ("ada", "rest", "")


def test_a_job_without_a_schedule_has_none(noon: datetime) -> None:
    a_job(now=noon)
    assert not Schedule.objects.exists()


@pytest.mark.parametrize(
    "given",
    [
        {"key": "taken"},
        {"key": "-"},
        {"task": "onbeat.no-such-task"},
        {"task": "celery.backend_cleanup", "task_lives_elsewhere": True},
        {"prioritee": 3},
        {"priority": 10},
        {"schedule": Once(datetime(2020, 1, 1, tzinfo=UTC))},
        {"schedule": Within(Cron("* * * * *"), end=datetime(2020, 1, 1, tzinfo=UTC))},
        {"max_fires": 3},
        {"kwargs": {"a": {1, 2}}},
        {"retry": RetryPolicy(jitter=2)},
        {"tags": ["a b"]},
    ],
    ids=lambda given: next(iter(given)),
)
def test_a_refused_job_leaves_no_row_anywhere(given: dict[str, Any], noon: datetime) -> None:
    a_job(now=noon, key="taken", schedule=every_minute(noon))
    before = everything()
    with pytest.raises(Refused) as refusal:
        definitions.create(**{"key": "report", "task": "onbeat.echo", "now": noon, **given})
    assert refusal.value.field.split(".")[0] == next(iter(given))
    assert everything() == before


def test_a_key_that_is_taken_is_refused_with_a_remedy(noon: datetime) -> None:
    a_job(now=noon, key="report")
    with pytest.raises(InvalidDefinition, match=r"There is a job 'report' already; choose another key\.") as refusal:
        a_job(now=noon, key="report")
    assert refusal.value.field == "key"


def test_a_paused_job_still_holds_its_key(noon: datetime) -> None:
    definitions.pause(a_job(now=noon, key="report"), reason="quiet", now=noon)
    with pytest.raises(InvalidDefinition, match="already"):
        a_job(now=noon, key="report")


def test_left_out_the_moment_is_the_databases_own(noon: datetime) -> None:
    job = definitions.create(key="report", task="onbeat.echo", schedule=every_minute(noon))
    next_fire_at = schedule_of(job).next_fire_at
    assert next_fire_at is not None
    assert job.created_at < next_fire_at <= job.created_at + seconds(60)


# ── With an app's own data ───────────────────────────────────────────────────────────────────────────────────────


class AppFailed(Exception):
    pass


@pytest.mark.django_db(transaction=True)
def test_a_job_made_within_an_apps_transaction_is_gone_when_that_is_rolled_back(noon: datetime) -> None:
    kept = a_job(now=noon, key="kept", schedule=every_minute(noon))
    before = everything()

    def fail_after_all_verbs() -> None:
        with transaction.atomic():
            a_job(now=noon, key="gone", schedule=every_minute(noon))
            definitions.change(kept, version=1, priority=9, now=noon)
            definitions.pause(kept, reason="for the app", now=noon)
            definitions.resume(kept, now=noon)
            definitions.archive(kept, now=noon)
            raise AppFailed

    with pytest.raises(AppFailed):
        fail_after_all_verbs()
    assert everything() == before


@pytest.mark.django_db(transaction=True)
def test_a_refusal_that_an_app_catches_leaves_its_transaction_usable(noon: datetime) -> None:
    taken = a_job(now=noon, key="taken", schedule=every_minute(noon))
    with transaction.atomic():
        a_job(now=noon, key="first")
        with pytest.raises(InvalidDefinition):
            a_job(now=noon, key="taken", schedule=every_minute(noon))
        with pytest.raises(Refused):
            definitions.change(taken, version=7, priority=9, now=noon)
        with pytest.raises(Refused):
            definitions.change(taken, version=1, schedule=Once(noon), now=noon)
        a_job(now=noon, key="second")
    assert set(Job.objects.values_list("key", flat=True)) == {"first", "second", "taken"}
    assert Job.objects.get(key="taken").version == 1


# ── There and back ───────────────────────────────────────────────────────────────────────────────────────────────

NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._:@/-]{0,30}", fullmatch=True)
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | TEXT | st.floats(-1e15, 1e15).map(lambda x: x + 0.0),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
MOMENTS = st.datetimes(
    min_value=datetime(2030, 1, 1),  # noqa: DTZ001 - hypothesis adds the zone
    max_value=datetime(2090, 1, 1),  # noqa: DTZ001
    timezones=st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=30)), timezone(-timedelta(hours=3))]),
)
CRONS = st.builds(
    Cron,
    st.sampled_from(["*/10 * * * *", "H H * * *", "0 3 L * *", "30 0 9 * * mon", "@daily", "0 2 * * 5#3", "@Hourly"]),
    st.sampled_from(["UTC", "Europe/Berlin", "America/St_Johns"]),
)
PATTERNS = CRONS | st.builds(Every, st.integers(1, 10**8), MOMENTS) | st.builds(Once, MOMENTS)


@st.composite
def bounded(draw: st.DrawFn) -> Within:
    """Bounds that leave room for a fire of each pattern above."""
    start = draw(st.none() | MOMENTS)
    days = draw(st.integers(40, 4000))
    end = (start or datetime(2095, 1, 1, tzinfo=UTC)) + timedelta(days=days)
    is_open = start is not None and draw(st.booleans())
    return Within(draw(CRONS), start, None if is_open else end)


RETRIES = st.builds(
    RetryPolicy,
    max_attempts=st.integers(1, 10_000),
    backoff=st.sampled_from(Backoff),
    initial_seconds=st.integers(0, 1000),
    cap_seconds=st.integers(0, 1000),
    jitter=st.floats(0, 1),
    retry_on=st.just(()) | st.just(("ValueError", "my.app.Broken")),
    give_up_on=st.just(()) | st.just(("KeyError",)),
)


@st.composite
def specifications(draw: st.DrawFn) -> dict[str, Any]:
    schedule = draw(st.none() | PATTERNS | bounded())
    said: dict[str, Any] = {
        "key": draw(NAMES),
        "schedule": schedule,
        "args": draw(st.lists(VALUES, max_size=3)),
        "kwargs": draw(st.dictionaries(TEXT, VALUES, max_size=3)),
        "queue": draw(st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True)),
        "priority": draw(st.integers(0, 9)),
        "retry": draw(RETRIES),
        "max_lost": draw(st.integers(1, 10_000)),
        "overlap": draw(st.sampled_from(Overlap)),
        "max_concurrency": draw(st.none() | st.integers(1, 10_000)),
        "owner": draw(st.sampled_from(["", "payments", "Żółć ✓"])),
        "tags": draw(st.lists(NAMES.map(lambda name: name[:50]), max_size=4)),
    }
    if schedule is not None:
        said["max_fires"] = draw(st.none() | st.integers(1, 2**31 - 1))
        said["misfire_grace_seconds"] = draw(st.integers(0, 2**31 - 1))
        said["misfire"] = draw(st.sampled_from(Misfire))
        said["misfire_limit"] = draw(st.integers(1, 1000))
        said["jitter_seconds"] = draw(st.integers(0, 86_400))
    return said


@settings(
    max_examples=40,
    phases=[Phase.generate],  # shrinking takes minutes, and the example is readable as it is
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(said=specifications())
def test_what_was_said_comes_back_from_the_rows_as_it_was_said(said: dict[str, Any], noon: datetime) -> None:
    with transaction.atomic():
        job = definitions.create(task="onbeat.echo", now=noon, **said)
        stored = Job.objects.get(pk=job.pk)
        schedule = Schedule.objects.filter(job=job).first()
        read = Specification.of(stored, schedule)
        assert read == Specification(task="onbeat.echo", **said).normalised()
        assert read.normalised() == read
        # Saying the same again is no change.
        assert definitions.change(stored, version=1, now=noon, **said).version == 1
        assert JobVersion.objects.get(job=job).definition["key"] == said["key"]
        transaction.set_rollback(True)


@pytest.mark.parametrize("value", [1e-7, 1.5, 10**30, True, 1, 1.0, "1", None, [2.0]], ids=repr)
def test_an_argument_arrives_as_the_value_that_was_given(value: object, noon: datetime) -> None:
    job = a_job(now=noon, args=[value], kwargs={"value": value})
    job.refresh_from_db()
    assert repr(job.args) == repr([value])
    assert repr(job.kwargs["value"]) == repr(value)


def test_a_huge_float_may_arrive_as_the_whole_number_that_it_is(noon: datetime) -> None:
    """PostgreSQL keeps a number, not how it was written."""
    job = a_job(now=noon, args=[1e22])
    job.refresh_from_db()
    assert job.args == [1e22]


def test_an_h_is_spread_by_the_key_and_stays_where_it_is(noon: datetime) -> None:
    first = {key: schedule_of(a_job(now=noon, key=key, schedule=Cron("H H * * *"))).next_fire_at for key in "abcdefgh"}
    assert len(set(first.values())) > 4
    for key, moment in first.items():
        assert moment == Cron("H H * * *", key=key).next_after(noon)
        definitions.archive(key, now=noon)
        assert schedule_of(a_job(now=noon, key=key, schedule=Cron("H H * * *"))).next_fire_at == moment


def test_a_key_given_to_a_cron_gives_way_to_the_jobs(noon: datetime) -> None:
    job = a_job(now=noon, key="a", schedule=Cron("H H * * *", key="somebody-else"))
    assert schedule_of(job).next_fire_at == Cron("H H * * *", key="a").next_after(noon)


def test_bounds_that_bound_nothing_are_no_change(noon: datetime) -> None:
    job = a_job(now=noon, schedule=Within(every_minute(noon)), max_fires=3)
    assert definitions.change(job, version=1, schedule=Within(every_minute(noon)), now=noon).version == 1
    assert definitions.change(job, version=1, schedule=every_minute(noon), now=noon).version == 1
