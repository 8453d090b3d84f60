"""Figures of all benchmarks, in the shape in which they are measured, of a machine that nobody has."""

from typing import Any

from benchmarks.report.figures_file import Measured, Report, Run

COMMIT = "0123456789abcdef0123456789abcdef01234567"
RUN = Run(date="2026-11-18T13:00:00Z", commit=COMMIT, is_clean=True, command="./onbeat bench")
MACHINE = {"cpu": "Some CPU", "cores": 2, "memory_gb": 8, "system": "Some Linux", "kernel": "Linux 6.1"}
VERSIONS: dict[str, str | None] = {
    "onbeat": "0.1.0",
    "python": "3.11.7",
    "postgresql": "15.1",
    "rabbitmq": "3.10.8",
    "erlang": "25",
    "redis": None,
}


def line(name: str, figure: float, unit: str, budget: float | None, *, is_minimum: bool = False) -> dict[str, Any]:
    is_met = None if budget is None else figure >= budget if is_minimum else figure <= budget
    return {
        "name": name,
        "what": f"what {name} is",
        "figure": figure,
        "unit": unit,
        "budget": budget,
        "is_minimum": is_minimum,
        "is_met": is_met,
    }


def grown(of: str = "", *, per_row: float) -> dict[str, Any]:
    sizes = {"start_bytes": 5_000_000, "middle_bytes": 5_500_000, "end_bytes": 6_000_000, "bytes_per_new_row": per_row}
    if of:
        return {**sizes, "of": of}
    return {**sizes, "rows_start": 10_000, "rows_end": 70_000, "dead_end": 12, "autovacuums": 3}


FIGURES: dict[str, dict[str, Any]] = {
    "recurrence": {"jobs": 100_000, "expressions": 50, "shared_per_s": 400_000, "croniter_per_s": 4000},
    "idle": {"schedules": 10_000, "cpu_percent": 1.1, "queries_per_s": 6.9, "counted_by": "transactions"},
    "dispatch": {
        "fires": 20_000,
        "fires_per_s": 5000,
        "beat_cpu_us_per_fire": 100.0,
        "broker_limit_per_s": 10_000,
        "ratio_limit": 0.5,
        "peer": "django-celery-beat 2.9.0",
        "peer_fires_per_s": 50.0,
        "ratio_peer": 100.0,
        "redbeat": "celery-redbeat 2.4.2",
        "redbeat_fires_per_s": 540.2,
        "celery_beat": "celery 5.7.0",
        "celery_beat_fires_per_s": 398.0,
        "costs": {
            "postgres_cpu_us": 90.0,
            "rabbitmq_cpu_us": 50.0,
            "redis_cpu_us": 10.0,
            "wal_bytes": 1500,
            "transaction_ids": 0.01,
        },
        "lines": [
            line("ratio_limit", 0.5, "", 0.35, is_minimum=True),
            line("ratio_peer", 100.0, "", 80, is_minimum=True),
        ],
        "load_before": 0.12,
    },
    "failover": {
        "latest_s": 6.1,
        "takeover_s": 2.4,
        "lost": 0,
        "doubled": 0,
        "sent_twice": 200,
        "runs": [{"latest_s": 1.8}, {"latest_s": 6.1}, {"latest_s": 2.2}],
        "lines": [line("latest", 6.1, "s", 5), line("takeover", 2.4, "s", None)],
        "load_before": 0.4,
    },
    "scale_out": {
        "fires": 20_000,
        "runs": [
            {"beats": 1, "fires_per_s": 5000, "cpu_us_per_fire": 100, "lost_lease_share": 0.0},
            {"beats": 2, "fires_per_s": 6000, "cpu_us_per_fire": 110, "lost_lease_share": 0.01},
            {"beats": 4, "fires_per_s": 6100, "cpu_us_per_fire": 130, "lost_lease_share": 0.021},
        ],
        "largest_lost_lease_share": 0.021,
        "lines": [line("lost_lease_share", 0.021, "", 0.05)],
    },
    "worker": {
        "executions_per_s": 500,
        "plain_per_s": 1000,
        "plain_defaults_per_s": 1300,
        "results_per_s": 350,
        "results_kept_connection_per_s": 600,
        "ratio_plain": 0.5,
        "ratio_results": 1.43,
        "ratio_results_kept_connection": 0.83,
        "worker_cpu_ms_per_execution": 2.0,
        "plain_cpu_ms_per_execution": 1.1,
        "costs": {"postgres_cpu_us": 410.0, "rabbitmq_cpu_us": 150.0, "wal_bytes": 2500, "transaction_ids": 2.0},
        "lines": [
            line("ratio_plain", 0.5, "times", 0.42, is_minimum=True),
            line("ratio_results", 1.43, "times", 1.3, is_minimum=True),
        ],
    },
    "lateness": {
        "rate": 500,
        "fires": 15_000,
        "p50_ms": 8.3,
        "p95_ms": 21.0,
        "p99_ms": 40.1,
        "max_ms": 180.0,
        "burst_fires": 10_000,
        "burst_p50_s": 1.1,
        "burst_last_s": 2.3,
        "burst_is_by_priority": True,
        "lines": [line("steady_p50", 8.3, "ms", 15), line("steady_p99", 40.1, "ms", 100)],
    },
    "enqueue": {"runs": 1_000_000, "rows_per_s": 12_000, "published_per_s": 4500, "beat_peak_mb": 140.0, "lines": []},
    "stored": {
        "small_cpu_us_per_fire": 300.0,
        "large_cpu_us_per_fire": 330.0,
        "ratio_cpu": 1.1,
        "rate": 100,
        "seconds": 600,
        "schedules": 1_000_000,
        "executions": 10_000_000,
        "small_schedules": 1000,
        "small_executions": 0,
        "beat_rss_mb": 110.0,
        "beat_peak_mb": 150.0,
        "small_beat_rss_mb": 95.0,
        "small_beat_peak_mb": 96.0,
        "late_p99_ms": 30.0,
        "small_late_p99_ms": 20.0,
        "server_cpu_us_per_fire": 900.0,
        "small_server_cpu_us_per_fire": 800.0,
        "costs": {"postgres_cpu_us": 900.0, "rabbitmq_cpu_us": 700.0, "redis_cpu_us": 60.0, "wal_bytes": 6000},
        "growth": {
            "onbeat_schedule": grown(per_row=0),
            "onbeat_schedule_due": grown("onbeat_schedule", per_row=0),
            "onbeat_execution_2026_11": grown(per_row=600),
            "onbeat_execution_2026_11_pkey": grown("onbeat_execution_2026_11", per_row=60),
            "onbeat_execution_2026_11_job": grown("onbeat_execution_2026_11", per_row=40),
            "onbeat_attempt_2026_11": grown(per_row=200),
            "onbeat_attempt_2026_11_pkey": grown("onbeat_attempt_2026_11", per_row=100),
        },
        "lines": [line("ratio_cpu", 1.1, "times", 1.3), line("beat_peak_mb", 150.0, "MB", 200)],
    },
}


def measured(name: str, figures: dict[str, Any]) -> Measured:
    command = f"python -m benchmarks {name} --json"
    return Measured(RUN.date, RUN.commit, RUN.is_clean, command, seconds=30, figures=figures)


def report(*names: str) -> Report:
    """Of these, or of all."""
    chosen = {name: measured(name, FIGURES[name]) for name in names or FIGURES}
    return Report(MACHINE, VERSIONS, RUN, chosen)
