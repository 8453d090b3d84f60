"""The page on sizes says what was measured: each figure is compared with the file of figures."""

import json
from typing import Any

import pytest

from benchmarks.report import growth
from tests.unit.doc_pages import DOCS, page, section, tables

PAGE = "how-to/scale.md"
BACKUP = "how-to/back-up-and-restore.md"
GB = 10**9


@pytest.fixture(scope="module")
def figures() -> dict[str, dict[str, Any]]:
    measured = json.loads((DOCS / "explanation" / "benchmarks.json").read_text(encoding="utf-8"))["benchmarks"]
    return {name: one["figures"] for name, one in measured.items()}


@pytest.fixture(scope="module")
def costs(figures: dict[str, dict[str, Any]]) -> growth.Costs:
    return growth.costs_of(figures["dispatch"], figures["worker"], figures["stored"])


def two_digits(number: float) -> str:
    rounded = float(f"{number:.2g}")
    return f"{rounded:,.0f}" if rounded >= 10 else f"{rounded:g}"


def test_what_was_measured_is_what_the_page_says(figures: dict[str, dict[str, Any]], costs: growth.Costs) -> None:
    stored, worker = figures["stored"], figures["worker"]
    assert stored["schedules"] == 1_000_000
    (found,) = tables(section(page(PAGE), "What was measured"))
    assert [figure for _, figure in found] == [
        f"{figures['dispatch']['fires_per_s']:,} per second",
        f"{worker['executions_per_s']:,} per second",
        f"{worker['worker_cpu_ms_per_execution']:g} ms",
        f"{stored['costs']['postgres_cpu_us'] / 1000:.3f} ms",
        f"{stored['costs']['rabbitmq_cpu_us'] / 1000:.3f} ms",
        f"{stored['costs']['wal_bytes']:,} bytes",
        f"{costs.stored_bytes:.0f} bytes",
        f"{stored['beat_peak_mb']:.0f} MB",
        f"{stored['ratio_cpu']:.1f} times",
        f"{figures['failover']['latest_s']:.2f} s",
        f"{figures['idle']['cpu_percent']:g} % of a core",
    ]


def test_the_sizes_follow_from_what_was_measured(figures: dict[str, dict[str, Any]], costs: growth.Costs) -> None:
    each = figures["stored"]["costs"]
    assert costs.worker_us
    assert costs.stored_bytes

    def row(rate: int) -> list[str]:
        cores = (costs.worker_us, each["postgres_cpu_us"], each["rabbitmq_cpu_us"])
        a_day = rate * growth.DAY
        return [
            f"{rate:,}",
            *(two_digits(rate * (us or 0) / 1e6 / growth.FULL) for us in cores),
            f"{two_digits(a_day * each['wal_bytes'] / GB)} GB",
            f"{two_digits(a_day * growth.RETENTION_DAYS * (costs.stored_bytes or 0) / GB)} GB",
        ]

    (found,) = tables(section(page(PAGE), "Sizes"))
    assert found == [row(rate) for rate in (1, 10, 100, 1000, 5000)]


def test_figures_on_the_page_about_backups_are_the_same(
    figures: dict[str, dict[str, Any]], costs: growth.Costs
) -> None:
    a_day = 100 * growth.DAY * figures["stored"]["costs"]["wal_bytes"]
    assert f"{costs.stored_bytes:.0f} bytes for a run with its indexes" in page(BACKUP)
    assert f"the WAL of a day is {two_digits(a_day / GB)} GB" in page(BACKUP)
