"""The page of metrics says what the code has: names, labels and meanings."""

import re

import pytest

from executions import metrics
from executions.metrics import Count, Gauge, Spread
from tests.unit.doc_pages import page, tables

ROWS = [
    row
    for name, text in re.findall(r"^## (.+?)$(.*?)(?=^## |\Z)", page("reference/metrics.md"), re.MULTILINE | re.DOTALL)
    if name.startswith(("Counted", "Measured", "Of "))
    for table in tables(text)
    for row in table
]


def known() -> list[Count | Spread | Gauge]:
    import scheduler_project.urls  # noqa: F401 - all that is shown is loaded

    return [*metrics.COUNTED, *metrics.GAUGES.values()]


def label_of(metric: Count | Spread | Gauge) -> str:
    said = [name + (f": {', '.join(values)}" if values else "") for name, values in metric.labels.items()]
    return ", ".join(said) or "–"


def test_each_metric_has_its_row_and_each_row_its_metric() -> None:
    assert sorted(row[0] for row in ROWS) == sorted(metric.name for metric in known())


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row[0]))
def test_a_row_says_what_the_code_says(row: list[str]) -> None:
    (metric,) = [each for each in known() if each.name == row[0]]
    assert row == [metric.name, label_of(metric), metric.says]


def test_no_label_names_a_job_an_execution_a_worker_or_a_beat() -> None:
    """They would grow without bound. A queue's name may be one: only so many are shown."""
    labels = {name for metric in known() for name in metric.labels}
    assert labels == {"what", "reason", "outcome", "state", "event", "result", "queue", "version"}
