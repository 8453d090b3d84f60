"""How many next fires per second are found, by the way that the beat takes, and beside croniter.

Shared: many jobs that say one of fifty things. Cold: an expression that nobody has asked for yet, in a zone that
somebody has. croniter is asked with an aware start time, the only way to tell it the zone. Needs no database.
"""

import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import cycle, islice, product
from statistics import mean, quantiles
from typing import Any
from zoneinfo import ZoneInfo

from croniter import croniter

from benchmarks.arguments import positive
from jobs.recurrence import Cron, shared_cron

NOW = datetime(2026, 10, 24, 21, 7, 30, tzinfo=UTC)  # hours before the clocks of Europe change
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe")
EXPRESSIONS = (
    "* * * * *",
    "*/5 * * * *",
    "0 * * * *",
    "30 2 * * *",
    "0 3 * * mon-fri",
    "15,45 9-17 * * *",
    "0 0 1 * *",
    "0 */6 * * sat,sun",
    "0 12 l * *",
    "5 4 * * 5",
)
ROUNDS = 3
COLD = 500
ASKED_OF_CRONITER = 2000


WHAT = "how many next fires per second are found, beside croniter"


def add_options(options: ArgumentParser) -> None:
    options.add_argument("--jobs", type=positive, default=100_000, help="how many ask at once (default 100000)")


def measure_as_asked(options: Namespace) -> dict[str, Any]:
    return measure(options.jobs)


def measure(jobs: int) -> dict[str, Any]:
    schedules = list(product(EXPRESSIONS, ZONES))
    for expression, zone in schedules:  # so that the zones have been seen
        shared_cron(expression, zone, "").next_after(NOW)
    cold = [_ask_cold(expression, zone) for expression, zone in zip(_unseen(), cycle(ZONES), strict=False)]
    asked = [(*schedule, f"job-{number}") for number, schedule in enumerate(islice(cycle(schedules), jobs))]
    shared_per_s = jobs * ROUNDS / _plan(asked)
    croniter_per_s = ASKED_OF_CRONITER / _ask_croniter(schedules)
    return {
        "jobs": jobs,
        "expressions": len(schedules),
        "shared_per_s": round(shared_per_s),
        "cold_ms": round(mean(cold) * 1000, 3),
        "cold_p95_ms": round(quantiles(cold, n=20)[-1] * 1000, 3),
        "croniter_per_s": round(croniter_per_s),
        "ratio_croniter": round(shared_per_s / croniter_per_s, 1),
    }


def _plan(asked: list[tuple[str, str, str]]) -> float:
    """Each job's next fire, from its due one: several times, as the fires go by."""
    due = {schedule[:2]: NOW for schedule in asked}
    seconds = 0.0
    for _ in range(ROUNDS):
        started = time.perf_counter()
        following = [
            shared_cron(expression, zone, key).next_after(due[expression, zone]) for expression, zone, key in asked
        ]
        seconds += time.perf_counter() - started
        due = {schedule[:2]: fire for schedule, fire in zip(asked, following, strict=True) if fire is not None}
    return seconds


def _unseen() -> Iterator[str]:
    """Distinct expressions of all kinds."""
    for number in range(COLD):
        minute, hour, day, month = number % 50, number % 23, number % 27 + 1, number % 12 + 1
        kinds = (
            f"{minute} {hour} * * *",
            f"{minute} {hour} * * mon-fri",
            f"{minute}-59/7 {hour}-23 * * *",
            f"*/{minute % 28 + 2} {hour} * * sat-sun",
            f"{minute} {hour} {day} * *",
            f"{minute},{minute + 1} {hour} L * 5#3",
            f"{number % 60} {minute} {hour} * * *",
            f"* {hour} {day} {month} *",
            f"H H(0-7) {day} * {number % 7}",
            f"*/15 {hour}-23 {day},{day + 1} */2 *",
        )
        yield kinds[number // 50]


def _ask_cold(expression: str, zone: str) -> float:
    started = time.perf_counter()
    fire = Cron(expression, zone, key=expression).next_after(NOW)
    seconds = time.perf_counter() - started
    assert fire is not None, expression
    return seconds


def _ask_croniter(schedules: list[tuple[str, str]]) -> float:
    asked = list(islice(cycle(schedules), ASKED_OF_CRONITER))
    started = time.perf_counter()
    for expression, zone in asked:
        fire = croniter(expression, NOW.astimezone(ZoneInfo(zone)), ret_type=datetime).get_next()
        assert fire > NOW - timedelta(hours=1)  # it may be wrong near a clock change
    return time.perf_counter() - started
