"""The roll-up: what an hour's executions add up to, counted again as they go on."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from executions import histogram, lifecycle, statistics
from executions.models import Execution, HourlyCount
from executions.states import State, Trigger
from jobs.models import Job
from tests.making import a_job, asked_for, claimed, planned, seconds, succeeded

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


@pytest.fixture
def job(noon: datetime) -> Job:
    return a_job(now=noon)


def counts(**only: object) -> dict[tuple[datetime, str], int]:
    """How many of each state in each hour."""
    return {(row.hour, row.state): row.count for row in HourlyCount.objects.filter(**only)}


# ── Counts ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_executions_are_counted_by_hour_job_queue_and_state(job: Job, noon: datetime) -> None:
    other = a_job(now=noon, queue="batch")
    succeeded(job, noon)
    succeeded(job, noon + seconds(1))
    planned(job, noon + seconds(2))
    planned(other, noon - HOUR)
    assert statistics.roll_up(noon) == 3
    found = {(row.hour, row.job_id, row.queue, row.state, row.count) for row in HourlyCount.objects.all()}
    assert found == {
        (noon, job.pk, "default", State.SUCCEEDED, 2),
        (noon, job.pk, "default", State.SCHEDULED, 1),
        (noon - HOUR, other.pk, "batch", State.SCHEDULED, 1),
    }


def test_an_hour_goes_from_its_first_instant_to_its_last(job: Job, noon: datetime) -> None:
    instant = timedelta(microseconds=1)
    for moment in (noon - HOUR - instant, noon - HOUR, noon - instant, noon, noon + HOUR - instant, noon + HOUR):
        planned(job, moment)
    statistics.roll_up(noon + HOUR - instant, hours=3)
    assert counts() == {(noon - hours * HOUR, State.SCHEDULED): number for hours, number in ((0, 2), (1, 2), (2, 1))}


def test_to_count_again_writes_nothing(job: Job, noon: datetime) -> None:
    succeeded(job, noon, after=0.123456, ran=1 / 3)
    succeeded(job, noon + seconds(1), after=0.1, ran=0.7)
    statistics.roll_up(noon)
    before = list(HourlyCount.objects.values())
    assert statistics.roll_up(noon) == 0
    assert list(HourlyCount.objects.values()) == before


def test_a_state_that_nothing_is_in_any_more_leaves_no_count(job: Job, noon: datetime) -> None:
    rows = [planned(job, noon + seconds(number)) for number in range(2)]
    statistics.roll_up(noon)
    claims = [claimed(row, now=noon) for row in rows]
    statistics.roll_up(noon)
    assert counts() == {(noon, State.RUNNING): 2}
    lifecycle.succeed(claims[0], result=None, now=noon)
    statistics.roll_up(noon)
    assert counts() == {(noon, State.RUNNING): 1, (noon, State.SUCCEEDED): 1}


def test_fires_that_were_taken_back_are_not_counted_any_more(job: Job, noon: datetime) -> None:
    planned(job, noon + seconds(30))
    statistics.roll_up(noon)
    lifecycle.unplan(job.pk, reason="x", now=noon)
    assert statistics.roll_up(noon) == 0
    assert counts() == {}


@pytest.mark.parametrize(("said", "counted"), [(12, 12), (None, 1)], ids=["counted", "too many to count"])
def test_each_fire_of_a_stretch_counts_in_the_hour_of_the_first(
    job: Job, noon: datetime, said: int | None, counted: int
) -> None:
    stretch = job.new_skipped_row(noon - HOUR, noon + seconds(1), said, reason="x", now=noon)
    lifecycle.record_skipped([stretch], now=noon)
    statistics.roll_up(noon)
    assert counts() == {(noon - HOUR, State.SKIPPED): counted}


# ── Sums ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def sums(state: State) -> tuple[int, float, float, float]:
    row = HourlyCount.objects.get(state=state)
    return row.started, row.run_seconds, row.delay_seconds, row.longest_delay_seconds


def test_runs_and_delays_are_summed_up(job: Job, noon: datetime) -> None:
    succeeded(job, noon, after=0.5, ran=10.25)
    succeeded(job, noon + seconds(1), after=2.25, ran=1)
    statistics.roll_up(noon)
    assert sums(State.SUCCEEDED) == (2, 11.25, 2.75, 2.25)


def test_a_start_before_it_was_due_is_no_delay(job: Job, noon: datetime) -> None:
    succeeded(job, noon, after=-0.5)
    succeeded(job, noon + seconds(1), after=0.25)
    statistics.roll_up(noon)
    assert sums(State.SUCCEEDED) == (2, 0, 0.25, 0.25)


def test_what_runs_has_a_delay_and_no_end(job: Job, noon: datetime) -> None:
    claimed(planned(job, noon), now=noon + seconds(3))
    statistics.roll_up(noon)
    assert sums(State.RUNNING) == (1, 0, 3, 3)


def test_of_several_attempts_the_last_one_is_told(job: Job, noon: datetime) -> None:
    row = planned(job, noon)
    lifecycle.fail(claimed(row, now=noon), error="x", now=noon + seconds(100))
    statistics.roll_up(noon)
    assert sums(State.SCHEDULED) == (0, 0, 0, 0)
    row.refresh_from_db()
    start = row.available_at + seconds(4)
    lifecycle.succeed(claimed(row, now=start), result=None, now=start + seconds(5))
    statistics.roll_up(noon)
    assert sums(State.SUCCEEDED) == (1, 5, 4, 4)


def test_what_was_cancelled_while_it_waited_for_its_retry_did_not_run_meanwhile(job: Job, noon: datetime) -> None:
    row = planned(job, noon)
    lifecycle.fail(claimed(row, now=noon), error="x", now=noon + seconds(1))
    lifecycle.cancel([row.pk], reason="x", now=noon + seconds(20))
    statistics.roll_up(noon)
    assert sums(State.CANCELLED) == (0, 0, 0, 0)


# ── Histograms ───────────────────────────────────────────────────────────────────────────────────────────────────


def histograms(state: State) -> tuple[dict[str, int], dict[str, int]]:
    row = HourlyCount.objects.get(state=state)
    return row.delay_histogram, row.run_histogram


def test_runs_and_delays_are_told_by_their_length(job: Job, noon: datetime) -> None:
    succeeded(job, noon, after=0.002, ran=4)
    succeeded(job, noon + seconds(1), after=0.004, ran=4)
    statistics.roll_up(noon)
    four_seconds = str(histogram.bucket(seconds(4)))
    assert histograms(State.SUCCEEDED) == ({"4": 1, "8": 1}, {four_seconds: 2})


def test_a_start_before_it_was_due_counts_among_the_shortest_delays(job: Job, noon: datetime) -> None:
    succeeded(job, noon, after=-0.5)
    statistics.roll_up(noon)
    assert histograms(State.SUCCEEDED) == ({"0": 1}, {"0": 1})


def test_what_runs_tells_how_late_it_began_and_not_how_long_it_ran(job: Job, noon: datetime) -> None:
    claimed(planned(job, noon), now=noon + seconds(0.002))
    statistics.roll_up(noon)
    assert histograms(State.RUNNING) == ({"4": 1}, {})


def test_what_was_cancelled_or_waits_tells_no_length(job: Job, noon: datetime) -> None:
    rows = [planned(job, noon + seconds(number)) for number in range(2)]
    for row in rows:
        lifecycle.fail(claimed(row, now=noon), error="x", now=noon + seconds(1))
    lifecycle.cancel([rows[0].pk], reason="x", now=noon + seconds(20))
    statistics.roll_up(noon)
    assert histograms(State.CANCELLED) == ({}, {})
    assert histograms(State.SCHEDULED) == ({}, {})


def around_each_end() -> list[timedelta]:
    """Durations that lie at the ends of the buckets, to the microsecond, and beyond the last."""
    ends = [timedelta(milliseconds=2 ** (number / histogram.BUCKETS_PER_DOUBLING)) for number in range(130)]
    near = [end + aside * timedelta(microseconds=1) for end in ends for aside in (-1, 0, 1)]
    return [timedelta(), timedelta(microseconds=1), *near, 3 * histogram.LONGEST]


def test_the_database_puts_a_duration_where_the_histogram_puts_it(job: Job, noon: datetime) -> None:
    durations = around_each_end()
    rows = asked_for(job, len(durations), now=noon)
    for row, duration in zip(rows, durations, strict=True):
        row.state, row.started_at = State.SUCCEEDED, row.available_at + duration
        row.finished_at = row.started_at + duration
    Execution.objects.bulk_update(rows, ["state", "started_at", "finished_at"])
    statistics.roll_up(noon)
    expected = Counter(str(histogram.bucket(duration)) for duration in durations)
    assert histograms(State.SUCCEEDED) == (expected, expected)


def test_what_the_release_before_has_counted_gets_its_histograms_at_the_next_look(job: Job, noon: datetime) -> None:
    succeeded(job, noon)
    statistics.roll_up(noon)
    names = "hour, job_id, queue, state, count, started, run_seconds, delay_seconds, longest_delay_seconds"
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE TEMPORARY TABLE counted AS SELECT {names} FROM onbeat_hourly_count")
        cursor.execute("DELETE FROM onbeat_hourly_count")
        cursor.execute(f"INSERT INTO onbeat_hourly_count ({names}) SELECT {names} FROM counted")
        cursor.execute("DROP TABLE counted")
    assert histograms(State.SUCCEEDED) == ({}, {})
    assert statistics.roll_up(noon) == 1
    assert histograms(State.SUCCEEDED) == ({"0": 1}, {"0": 1})
    assert statistics.roll_up(noon) == 0


# ── Which hours ──────────────────────────────────────────────────────────────────────────────────────────────────


def an_hour_of_roll_ups(start: datetime) -> None:
    for minute in range(0, 60, 2):
        statistics.roll_up(start + timedelta(minutes=minute))


@pytest.mark.parametrize("age", [2, 10, 24])
def test_a_late_end_is_seen_within_the_hour(job: Job, noon: datetime, age: int) -> None:
    claim = claimed(planned(job, noon), now=noon)
    statistics.roll_up(noon)
    lifecycle.succeed(claim, result=None, now=noon + age * HOUR)
    an_hour_of_roll_ups(noon + age * HOUR)
    assert counts() == {(noon, State.SUCCEEDED): 1}


def test_hours_before_that_stay_as_they_were_last_seen(job: Job, noon: datetime) -> None:
    """Also when their executions are pruned."""
    succeeded(job, noon)
    statistics.roll_up(noon)
    Execution.objects.all().delete()
    an_hour_of_roll_ups(noon + 25 * HOUR)
    assert counts() == {(noon, State.SUCCEEDED): 1}


def test_coming_hours_are_not_counted_yet(job: Job, noon: datetime) -> None:
    lifecycle.plan([job.new_execution(noon + HOUR, trigger=Trigger.DELAYED, now=noon)])
    statistics.roll_up(noon + seconds(3599), hours=30)
    assert counts() == {}
    statistics.roll_up(noon + HOUR)
    assert counts() == {(noon + HOUR, State.SCHEDULED): 1}


def test_hours_are_those_of_utc_whatever_zone_the_moment_is_in(job: Job, noon: datetime) -> None:
    planned(job, noon)
    statistics.roll_up(noon.astimezone(ZoneInfo("Asia/Kathmandu")))
    assert counts() == {(noon, State.SCHEDULED): 1}


# ── What it costs ────────────────────────────────────────────────────────────────────────────────────────────────


def test_many_executions_cost_as_many_queries_as_few(noon: datetime) -> None:
    asked = []
    for many in (1, 20):
        for number in range(many):
            succeeded(a_job(now=noon), noon + seconds(number))
        with CaptureQueriesContext(connection) as queries:
            statistics.roll_up(noon, hours=3)
        asked.append(len(queries))
    assert asked[0] == asked[1]


def test_one_statement_reads_the_executions_of_an_hour(job: Job, noon: datetime) -> None:
    """Of two, the second could tell of executions that the first did not see: sums and histograms would differ."""
    succeeded(job, noon)
    with CaptureQueriesContext(connection) as queries:
        statistics.roll_up(noon, hours=1)
    assert sum('FROM "onbeat_execution"' in query["sql"] for query in queries) == 1


def test_an_hour_is_read_by_the_index_of_the_ids_and_in_its_month_alone(job: Job, is_full: bool) -> None:
    start = datetime(2058, 1, 1, tzinfo=UTC)  # a month of its own
    every_ten_minutes = (start + number * HOUR / 6 for number in range(3000))
    lifecycle.plan([job.new_execution(moment, trigger=Trigger.DELAYED, now=start) for moment in every_ten_minutes])
    if is_full:
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE onbeat_execution_2058_01")
    plan = Execution.objects.firing_between(start + HOUR, start + 2 * HOUR).values("state").explain()
    if is_full:
        assert "Index Scan using onbeat_execution_2058_01_pkey" in plan
        assert plan.count("Scan") == 1
    else:
        assert "USING INDEX" in plan
        assert "(id>? AND id<?)" in plan
