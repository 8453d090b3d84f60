"""The geometry of the charts: nothing is higher than the scale, and nothing that is there is invisible."""

from datetime import UTC, datetime, timedelta

import pytest

from console.dashboard import charts

START = datetime(2026, 6, 15, tzinfo=UTC)


def hours(*counts: dict[str, int]) -> list[tuple[datetime, dict[str, int]]]:
    return [(START + timedelta(hours=place), each) for place, each in enumerate(counts)]


@pytest.mark.parametrize(
    ("value", "top"),
    [(0, 1), (1, 1), (1.5, 2), (4.1, 6), (9, 10), (10, 10), (11, 20), (21, 30), (410, 600), (9312, 10_000)],
)
def test_the_top_of_a_scale_is_the_next_round_number(value: float, top: float) -> None:
    assert charts.round_up(value) == top


def test_the_states_of_an_hour_are_stacked_to_its_share_of_the_scale() -> None:
    chart = charts.stacked(hours({"SUCCEEDED": 6, "DEAD": 2}, {"RUNNING": 1, "QUEUED": 2, "SCHEDULED": 1}, {}))
    assert [(part.kind, part.height) for part in chart.columns[0].parts] == [("SUCCEEDED", 75.0), ("DEAD", 25.0)]
    assert [(part.kind, part.height) for part in chart.columns[1].parts] == [("OPEN", 50.0)]
    assert chart.columns[2].parts == []
    assert (chart.total, chart.columns[2].tip) == (12, "none")


def test_one_that_failed_among_a_million_is_still_seen() -> None:
    (column,) = charts.stacked(hours({"SUCCEEDED": 1_000_000, "DEAD": 1})).columns
    assert min(part.height for part in column.parts) > 0.5


def test_fires_that_come_together_are_a_pile_and_evenly_spread_ones_are_not() -> None:
    slots = [(START + n * timedelta(minutes=10), 9312 if n == 72 else 20) for n in range(144)]
    kinds = [column.parts[0].kind for column in charts.bars(slots).columns]
    assert [place for place, kind in enumerate(kinds) if kind == "pile"] == [72]
    even = charts.bars([(at, 20) for at, _ in slots])
    assert {part.kind for column in even.columns for part in column.parts} == {"bar"}


def test_a_few_fires_are_no_pile() -> None:
    slots = [(START + n * timedelta(minutes=10), 3 if n == 5 else 0) for n in range(144)]
    assert charts.bars(slots).columns[5].parts[0].kind == "bar"


def test_lines_go_over_hours_in_which_nothing_began() -> None:
    lines = charts.lateness([(START, 0.01, 0.02), (START, None, None), (START, 0.02, 0.04)])
    assert lines.points == {"p50": "16.67,75.00 83.33,50.00", "p95": "16.67,50.00 83.33,0.00"}
    assert lines.columns[1].tip == "none"
    assert [label for label, _ in lines.marks] == ["20 ms", "40 ms"]


def test_a_single_hour_is_seen_in_the_chart_of_lateness() -> None:
    lines = charts.lateness([(START, None, None), (START, 0.5, 1.0)])
    assert lines.points == {"p50": "50.00,50.00 100.00,50.00", "p95": "50.00,0.00 100.00,0.00"}
