"""How a benchmark has the same number due at every second, and how it tells that tables grow."""

import os
import time
from datetime import UTC, datetime, timedelta

import pytest

from benchmarks import due_schedules, footprint, many_jobs, table_growth
from benchmarks.due_schedules import PERIODS, Turns
from benchmarks.footprint import Cpu, Memory
from benchmarks.table_growth import Look, Table
from jobs.recurrence import Cron
from launcher.refusal import Refusal

FIRST = datetime(2026, 11, 30, 23, 59, 37, tzinfo=UTC)
INSTANT = timedelta(microseconds=1)


@pytest.mark.parametrize("period", [1, 10, 60, 120, 720, 3600, 7200, 86_400])
def test_each_second_of_a_period_has_its_turn_and_a_cron_expression_that_says_so(period: int) -> None:
    turns = Turns(rate=100, period=period)
    some = range(0, period, max(period // 60, 1))
    for second in some:
        fire = turns.fire_at(second, first=FIRST)
        assert FIRST <= fire < FIRST + timedelta(seconds=period)
        schedule = Cron(turns.expression(second))
        assert schedule.next_after(FIRST - INSTANT) == fire
        assert schedule.next_after(fire) == fire + timedelta(seconds=period)
    assert len({turns.fire_at(second, first=FIRST) for second in some}) == len(some)


def test_a_period_is_one_that_a_cron_expression_can_say() -> None:
    assert all(60 % period == 0 or 3600 % period == 0 or 86_400 % period == 0 for period in PERIODS)
    assert {1, 10, 60, 120, 720, 3600, 7200, 86_400} <= set(PERIODS)
    assert 7 not in PERIODS


@pytest.mark.parametrize(
    ("schedules", "rate", "seconds", "period"),
    [
        (1_000_000, 100, 610, 720),  # each of 72,000 fires once
        (1000, 100, 70, 10),  # there are no more: each fires every ten seconds
        (100, 100, 70, 1),
        (1_000_000, 1, 10**9, 86_400),  # no expression says longer
    ],
)
def test_schedules_take_turns_as_rarely_as_they_are_many(schedules: int, rate: int, seconds: int, period: int) -> None:
    assert due_schedules.turns(schedules, rate, seconds) == Turns(rate, period)


def test_too_few_schedules_for_a_rate_are_refused() -> None:
    with pytest.raises(Refusal, match="99 schedules cannot fire 100 times a second"):
        due_schedules.turns(99, 100, 60)


@pytest.mark.parametrize("schedules", [1, 17, 18, 19, 36, 37, 928_000])
def test_as_many_jobs_are_stored_as_it_takes_for_so_many_schedules(schedules: int) -> None:
    jobs = many_jobs.jobs_for(schedules)
    assert jobs - (jobs // 19) == schedules  # every nineteenth has none


def test_the_cpu_of_a_process_is_told_with_that_of_its_first_thread() -> None:
    before, started = Cpu.of(os.getpid()), time.process_time()
    while time.process_time() - started < 0.05:
        pass
    used = Cpu.of(os.getpid()).since(before)
    assert 0.04 < used.loop <= used.whole < 5


def test_the_memory_of_a_process_is_told_in_millions_of_bytes() -> None:
    memory = Memory.of(os.getpid())
    assert 10 < memory.now_mb <= memory.peak_mb
    assert footprint._megabytes("VmPeak:\t 5 kB\nVmHWM:\t  100000 kB\nVmRSS:\t 90000 kB\n", "VmHWM") == 102.4


def look(table_bytes: int, index_bytes: int, rows: int, dead: int = 0, autovacuums: int = 0) -> Look:
    return Look(
        sizes={"fires": table_bytes, "fires_pkey": index_bytes},
        tables_of={"fires_pkey": "fires"},
        tables={"fires": Table(dead, autovacuums, updates=3 * rows, hot_updates=rows)},
        rows={"fires": rows},
    )


def test_growth_tells_what_a_new_row_takes_beside_those_before() -> None:
    grown = table_growth.growth(
        look(50_000, 5000, 100), look(90_000, 6000, 0, dead=70), look(110_000, 8000, 200, 40, 2)
    )
    assert grown["fires"] == {
        "start_bytes": 50_000,
        "middle_bytes": 90_000,
        "end_bytes": 110_000,
        "growth_percent": 120,
        "bytes_per_row_start": 500,
        "bytes_per_row_end": 550,
        "bytes_per_new_row": 600,
        "rows_start": 100,
        "rows_end": 200,
        "dead_start": 0,
        "dead_middle": 70,
        "dead_end": 40,
        "autovacuums": 2,
        "updates": 300,
        "hot_updates": 100,
    }
    assert (grown["fires_pkey"]["of"], grown["fires_pkey"]["bytes_per_new_row"]) == ("fires", 30)


def test_a_table_without_new_rows_tells_by_how_much_it_grew() -> None:
    grown = table_growth.growth(look(1000, 100, 10), look(1000, 100, 10), look(1100, 100, 10))
    assert (grown["fires"]["growth_percent"], grown["fires"]["bytes_per_new_row"]) == (10, None)
    assert grown["fires_pkey"]["growth_percent"] == 0
    assert look(1000, 100, 10).whole("fires") == 1100
