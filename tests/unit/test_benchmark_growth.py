"""The model of growth: arithmetic on what one fire costs."""

import pytest

from benchmarks.report import growth
from benchmarks.report.growth import Costs, Installation
from tests.unit.made_up_figures import FIGURES

COSTS = growth.costs_of(FIGURES["dispatch"], FIGURES["worker"], FIGURES["stored"])


def test_the_costs_are_those_of_the_fire_and_of_its_run() -> None:
    assert COSTS.core_us == {"beats": 100, "workers": 2000, "PostgreSQL": 500, "RabbitMQ": 200, "Redis": 10}
    assert COSTS.wal_bytes == 4000
    assert COSTS.transaction_ids == pytest.approx(2.01)


def test_a_stored_run_is_its_rows_and_their_entries_in_all_indexes_and_nothing_of_the_schedules() -> None:
    per_run = growth.stored_bytes(FIGURES["stored"]["growth"])
    assert per_run == {"execution": 600, "execution indexes": 100, "attempt": 200, "attempt indexes": 100}
    assert (COSTS.stored_bytes, COSTS.heap_bytes) == (1000, 600)


def test_a_part_of_which_something_is_not_measured_is_left_out_and_nothing_is_made_up() -> None:
    without_run = growth.costs_of(FIGURES["dispatch"], {}, {})
    assert set(without_run.core_us) == {"beats", "Redis"}
    assert (without_run.wal_bytes, without_run.stored_bytes) == (None, None)
    assert growth.volume(without_run, 100).month_bytes is None
    assert growth.costs_of({}, {}, {}) == Costs()
    assert growth.one_carries(Costs()) == {}


def test_a_server_that_could_not_be_looked_at_has_no_cost() -> None:
    blind = {**FIGURES["dispatch"], "costs": {"postgres_cpu_us": None, "rabbitmq_cpu_us": None, "wal_bytes": 1500}}
    assert set(growth.costs_of(blind, FIGURES["worker"], {}).core_us) == {"beats", "workers"}


def test_the_part_that_carries_least_is_full_first() -> None:
    small = Installation("x", 1, worker_cores=4, postgres_cores=2, rabbitmq_nodes=1, rabbitmq_cores=2, queues=1)
    found = growth.limits(COSTS, small)
    assert found == pytest.approx(
        {
            "beats": 5000,  # as measured: it waits for the servers, and is never busy to the full
            "workers": 4 * 0.7 * 500,
            "PostgreSQL": 2 * 0.7 * 2000,
            "RabbitMQ": 2 * 0.7 * 5000,
            "Redis": 0.7 * 100_000,
            "queues": 10_000 * 0.5,
        }
    )
    assert growth.first_to_break(found) == "workers"


def test_more_beats_than_shards_carry_no_more() -> None:
    of = {"worker_cores": 1, "postgres_cores": 1, "rabbitmq_nodes": 1, "rabbitmq_cores": 1, "queues": 1}
    many, all_shards = (growth.limits(COSTS, Installation("x", beats, **of))["beats"] for beats in (1000, 64))
    assert many == all_shards


def test_a_million_a_minute_needs_as_many_cores_as_its_cost_says() -> None:
    needed = growth.needed(COSTS, growth.TARGET_PER_S)
    assert needed["PostgreSQL"] == pytest.approx(16_666.7 * 500e-6 / 0.7, rel=1e-4)
    assert (needed["beats"], needed["queues"]) == (4, 4)  # there is no half of one


def test_what_is_needed_carries_the_rate_for_which_it_was_asked() -> None:
    needed = growth.needed(COSTS, 3000)
    for part, each in growth.one_carries(COSTS).items():
        assert needed[part] * each >= 3000 * (1 - 1e-9), part


def test_the_volume_of_a_rate() -> None:
    made = growth.volume(COSTS, growth.TARGET_PER_S)
    assert made.days_to_a_billion * 24 == pytest.approx(16.67, abs=0.01)
    assert made.kept_bytes == pytest.approx(30 * 1.44e9 * 1000)
    assert made.wal_bytes_per_s == pytest.approx(66.7e6, rel=0.001)
    assert made.hours_to_freeze == pytest.approx(200e6 / (16_666.7 * 2.01) / 3600, rel=1e-4)


@pytest.mark.parametrize(("rows", "levels"), [(1, 1), (150, 1), (1000, 2), (1_000_000, 3), (1_000_000_000, 5)])
def test_an_index_has_one_level_more_for_each_hundredfold(rows: int, levels: int) -> None:
    assert growth.index_levels(rows) == levels


def test_the_machine_itself_cannot_do_more_than_its_cores() -> None:
    assert growth.shared_limit(COSTS, cores=2) == pytest.approx(2e6 / (100 + 90 + 50 + 10))
    assert growth.shared_limit(Costs(beat_us=100), cores=2) is None
