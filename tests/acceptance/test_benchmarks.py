"""The benchmarks run, in small, and leave nothing behind."""

import json
import os
import subprocess
import sys
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any

import amqp
import psycopg
import pytest
import redis

from benchmarks import costs, idle
from benchmarks.stage import named_services, on_stage
from launcher.refusal import Refusal
from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]

PEERS = ("--peer-fires", "--redbeat-fires", "--celery-beat-fires")
WITHOUT_PEERS = [word for option in PEERS for word in (option, "0")]

pytestmark = pytest.mark.full


# Fires that are to come, and beats that have shared for a while, without the wait.
SHORTLY = {"ONBEAT_BEAT_LOOK_AHEAD_SECONDS": "1", "ONBEAT_BEAT_LEASE_SECONDS": "2"}


def measured(*words: str, **variables: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks", *words, "--json"]
    environment = {**os.environ, "ONBEAT_BEAT_POLL_SECONDS": "0.1", **variables}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def test_a_real_beat_is_measured_from_the_moment_it_may_begin() -> None:
    figures = measured("dispatch", "--fires", "20", "--turns", "1", *WITHOUT_PEERS)
    assert (figures["fires"], figures["turns"], figures["redis"]) == (20, 1, True)
    assert figures["fires_per_s"] > 0
    assert figures["costs"]["wal_bytes"] > 0
    assert figures["broker_limit_per_s"] > 0
    assert figures["beat_cpu_us_per_fire"] >= 0  # the kernel counts in hundredths of a second
    assert figures["ratio_limit"] > 0
    [line] = figures["lines"]
    assert (line["name"], line["budget"], line["is_minimum"]) == ("ratio_limit", 0.35, True)


@pytest.mark.skipif(not os.environ.get("TEST_LONG"), reason="starts the beats of others: see `make test-long`")
def test_the_beats_of_others_are_measured_in_the_same_run() -> None:
    few = [word for option in PEERS for word in (option, "5")]
    figures = measured("dispatch", "--fires", "20", "--turns", "2", *few)
    names = [figures[key].split()[0] for key in ("peer", "redbeat", "celery_beat")]
    assert names == ["django-celery-beat", "celery-redbeat", "celery"]
    assert all(figures[f"{key}_fires_per_s"] > 0 for key in ("peer", "redbeat", "celery_beat"))
    assert {line["name"]: line["budget"] for line in figures["lines"]} == {"ratio_limit": 0.35, "ratio_peer": 80}
    assert figures["ratio_peer"] > 0


@pytest.mark.skipif(not os.environ.get("TEST_LONG"), reason="starts many commands: see `make test-long`")
def test_applying_a_file_is_measured_beside_its_budget() -> None:
    figures = measured("apply", "--jobs", "5")
    assert [(line["name"], line["budget"]) for line in figures["lines"]] == [
        ("create", 10),
        ("again", None),
        ("change", None),
        ("archive", None),
    ]
    assert all(line["figure"] > 0 for line in figures["lines"])
    assert figures["one_by_one_s"] > 0


@pytest.mark.skipif(not os.environ.get("TEST_LONG"), reason="fires for seconds: see `make test-long`")
def test_the_lateness_of_fires_is_measured_steadily_and_in_a_burst() -> None:
    figures = measured("lateness", "--rate", "20", "--seconds", "2", "--burst", "60", **SHORTLY)
    assert (figures["fires"], figures["burst_fires"], figures["redis"]) == (40, 60, True)
    assert 0 < figures["p50_ms"] <= figures["p99_ms"] <= figures["max_ms"]
    assert 0 < figures["burst_p50_s"] <= figures["burst_last_s"]
    assert figures["burst_is_by_priority"]
    assert figures["beat_cpu_us_per_fire"] > 0
    lines = {line["name"]: line for line in figures["lines"]}
    budgets = {name: line["budget"] for name, line in lines.items() if line["budget"] is not None}
    assert budgets == {"steady_p50": 15, "steady_p99": 100, "burst_last": 4, "burst_out_of_order": 0}


@pytest.mark.skipif(not os.environ.get("TEST_LONG"), reason="kills beats in long bursts: see `make test-long`")
def test_a_failover_is_measured_by_its_latest_fire() -> None:
    asked = ("--fires", "2000", "--rate", "20", "--seconds", "4", "--times", "2")
    figures = measured("failover", *asked, **SHORTLY)
    assert (figures["fires"], figures["lost"], figures["doubled"], figures["redis"]) == (2120, 0, 0, True)
    assert figures["latest_s"] == max(run["latest_s"] for run in figures["runs"])
    assert figures["latest_s"] >= figures["latest_steady_s"] > 0
    assert [run["left_when_killed"] >= run["left_by_killed"] > 0 for run in figures["runs"]] == [True, True]
    assert all(run["takeover_s"] > 0 for run in figures["runs"])


@pytest.mark.skipif(not os.environ.get("TEST_LONG"), reason="starts several beats: see `make test-long`")
def test_more_beats_are_measured_in_turn() -> None:
    figures = measured("scale_out", "--fires", "200", "--beats", "1,3", **SHORTLY)
    assert [run["beats"] for run in figures["runs"]] == [1, 3]
    assert all(run["fires_per_s"] > 0 and run["leases_asked"] >= 400 for run in figures["runs"])
    assert figures["largest_lost_lease_share"] == max(run["lost_lease_share"] for run in figures["runs"])


@pytest.mark.skipif(not os.environ.get("TEST_LONG"), reason="starts many workers: see `make test-long`")
def test_a_worker_is_measured_beside_plain_celery() -> None:
    figures = measured("worker", "--executions", "2000", "--turns", "2")
    assert (figures["executions"], figures["redis"]) == (2000, True)
    for name in ("executions", "plain", "plain_defaults", "results", "results_kept_connection"):
        assert figures[f"{name}_per_s"] > 0, name
    budgets = {line["name"]: line["budget"] for line in figures["lines"] if line["budget"] is not None}
    assert budgets == {"ratio_plain": 0.42, "ratio_results": 1.3}
    assert figures["ratio_plain"] == pytest.approx(figures["executions_per_s"] / figures["plain_per_s"], abs=0.02)
    assert figures["worker_cpu_ms_per_execution"] > 0
    assert figures["plain_cpu_ms_per_execution"] > 0


@pytest.mark.skipif(not os.environ.get("TEST_LONG"), reason="starts beats and workers: see `make test-long`")
def test_a_fire_is_measured_with_little_stored_and_with_much() -> None:
    kept = f"bench_kept_{uuid.uuid4().hex[:8]}"
    words = ["stored", "--schedules", "60", "--few", "12", "--rate", "2", "--seconds", "2", "--keep", kept]
    try:
        first = measured(*words, "--executions", "500")
        again = measured(*words)
    finally:
        with on_stage(named_services()) as stage:
            stage.observer.execute(f'DROP DATABASE IF EXISTS "{kept}" WITH (FORCE)')
    assert (first["fires"], first["schedules"], first["executions"]) == (4, 60, 500)
    assert (first["small_fires"], first["small_schedules"], first["small_executions"]) == (4, 12, 0)
    assert {line["name"]: line["budget"] for line in first["lines"] if line["budget"]} == {
        "ratio_cpu": 1.3,
        "beat_peak_mb": 200,
    }
    assert min(first[name] for name in ("small_cpu_us_per_fire", "large_cpu_us_per_fire", "late_p99_ms")) > 0
    assert 20 < first["beat_rss_mb"] <= first["beat_peak_mb"]
    schedules, executions = (first["growth"][name] for name in sorted(first["dead_tuples_end"], reverse=True)[:2])
    assert (schedules["rows_start"], schedules["rows_end"]) == (60, 60)
    assert executions["rows_end"] - executions["rows_start"] > 4
    assert schedules["updates"] >= 4
    assert (again["schedules"], again["fill_s"]) == (60, None)
    assert again["executions"] > 500  # those of the first measurement too


@pytest.mark.skipif(not os.environ.get("TEST_LONG"), reason="asks for many runs: see `make test-long`")
def test_asking_for_runs_in_bulk_is_measured_and_so_is_their_publishing() -> None:
    figures = measured("enqueue", "--runs", "700", "--publish", "500")
    assert (figures["runs"], figures["due"], figures["published"]) == (700, 1000, 500)
    assert figures["rows_per_s"] > figures["one_by_one_per_s"] > 0
    assert min(figures[name] for name in ("published_per_s", "enqueue_cpu_us_per_row", "beat_peak_mb")) > 0
    assert figures["sent_not_noted"] == 0
    assert all(line["budget"] is None for line in figures["lines"])


@pytest.mark.skipif(not os.environ.get("TEST_LONG"), reason="starts the whole platform: see `make test-long`")
def test_the_api_is_measured_beside_its_budgets() -> None:
    figures = measured("api", "--quick", "--rows", "2000")
    assert (figures["rows"], figures["redis"]) == (2000, True)
    lines = {line["name"]: line for line in figures["lines"]}
    budgets = {name: line["budget"] for name, line in lines.items() if line["budget"] is not None}
    assert budgets == {
        "create_job_p50": 30,
        "run_now_to_start_p50": 60,
        "bulk_run": 2,
        "bulk_run_with_keys": 2,
        "list_p95": 50,
        "list_worst_p95": 50,
    }
    assert all(line["figure"] > 0 for line in lines.values())
    assert all((lines[name]["figure"] <= budget) == lines[name]["is_met"] for name, budget in budgets.items())
    assert figures["pages"]["all"]["items"] > 500
    assert figures["pages"]["state RUNNING"]["items"] > 0
    assert figures["pages"]["worker, unknown"]["items"] == 0


@pytest.mark.skipif(not os.environ.get("TEST_LONG"), reason="fills a database: see `make test-long`")
def test_the_admin_is_measured_beside_its_budgets() -> None:
    figures = measured("admin", "--quick", "--rows", "20000", "--jobs", "500")
    assert (figures["rows"], figures["jobs"], figures["kept_database"]) == (20_000, 500, None)
    budgets = {line["name"]: line["budget"] for line in figures["lines"]}
    assert budgets == {
        "dashboard_worst_p95": 400,
        "list_worst_p95": 300,
        "detail_worst_p95": 300,
        "fill": None,
        "roll_up": None,
    }
    assert all(line["figure"] > 0 for line in figures["lines"])
    assert all(page["requests"] == 2 and page["bytes"] > 1000 for page in figures["pages"].values())


@pytest.mark.skipif(not os.environ.get("TEST_LONG"), reason="fills a database: see `make test-long`")
def test_a_database_that_was_kept_is_measured_again_as_it_is() -> None:
    kept = f"bench_kept_{uuid.uuid4().hex[:8]}"
    try:
        first = measured("admin", "--quick", "--rows", "20000", "--jobs", "500", "--keep", kept)
        again = measured("admin", "--quick", "--keep", kept)
    finally:
        with on_stage(named_services()) as stage:
            stage.observer.execute(f'DROP DATABASE IF EXISTS "{kept}" WITH (FORCE)')
    assert (again["rows"], again["jobs"]) == (first["rows"], first["jobs"]) == (20_000, 500)
    assert "fill" not in {line["name"] for line in again["lines"]}


def test_all_figures_come_into_one_file_and_a_page_is_made_of_it(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks", "all", "--quick", "--only", "recurrence", "--to", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    kept = json.loads((tmp_path / "explanation" / "benchmarks.json").read_text())
    assert kept["benchmarks"]["recurrence"]["figures"]["shared_per_s"] > 0
    assert {"postgresql", "rabbitmq", "erlang", "redis"} <= {
        name for name, version in kept["versions"].items() if version
    }
    assert "## Finding the next fire" in (tmp_path / "explanation" / "benchmarks.md").read_text()


def test_the_servers_of_a_stage_are_found_on_this_machine_and_what_they_do_is_counted() -> None:
    with on_stage(named_services()) as stage:
        meter = costs.Meter(stage)
        before = meter.read()
        with psycopg.connect(stage.database_url, autocommit=True) as connection:
            connection.execute("CREATE TABLE filled AS SELECT repeat('x', 1000) AS text FROM generate_series(1, 20000)")
        each = costs.per(20_000, before, meter.read())
    assert set(each) == {"postgres_cpu_us", "rabbitmq_cpu_us", "redis_cpu_us", "wal_bytes", "transaction_ids"}
    assert (each["wal_bytes"] or 0) > 0
    if os.geteuid() == 0:  # who may look at all processes
        assert (each["postgres_cpu_us"] or 0) > 0


def test_a_database_that_no_benchmark_made_is_left_alone() -> None:
    with (
        on_stage(named_services()) as stage,
        pytest.raises(Refusal, match=f"The database '{stage.name}' is there and was not made by a benchmark"),
        on_stage(stage.named, keep=stage.name),
    ):
        pass


def test_a_database_to_keep_is_gone_unless_it_is_complete() -> None:
    name = f"bench_kept_{uuid.uuid4().hex[:8]}"
    with suppress(KeyboardInterrupt), on_stage(named_services(), keep=name) as stage:
        raise KeyboardInterrupt
    with on_stage(stage.named, keep=name) as again:
        assert not again.is_database_kept


def test_what_a_benchmark_made_is_gone_when_somebody_interrupts_it() -> None:
    with suppress(KeyboardInterrupt), on_stage(named_services()) as stage:
        sleeper = stage.start("sleeper", ["sleep", "60"])
        stage.delete_at_end(queues=["default"], exchanges=["work"])
        stage.channel.queue_declare(f"{stage.prefix}default", auto_delete=False, arguments={"x-expires": 60_000})
        stage.channel.exchange_declare(f"{stage.prefix}work", "direct", auto_delete=False)
        redis.Redis.from_url(stage.named.redis_url).set(f"{stage.prefix}lease:1:1", "beat", ex=60)
        raise KeyboardInterrupt
    assert sleeper.popen.poll() is not None
    assert not stage.folder.exists()
    with on_stage(stage.named) as another:
        databases = another.observer.execute("SELECT datname FROM pg_database").fetchall()
        assert (stage.name,) not in databases
        with pytest.raises(amqp.NotFound):
            another.channel.queue_declare(f"{stage.prefix}default", passive=True)
        keys = redis.Redis.from_url(stage.named.redis_url).keys(f"{stage.prefix}*")
    assert keys == []


def test_the_queries_of_a_stage_are_counted_by_the_server() -> None:
    with on_stage(named_services()) as stage:
        _, count = idle.way_to_count(stage)
        before = count()
        with psycopg.connect(stage.database_url, autocommit=True) as connection:
            for _ in range(5):
                connection.execute("SELECT 1")
        wait_until(lambda: count() - before >= 5, what="the server has counted five queries")
