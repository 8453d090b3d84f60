"""Thousands of durations are sorted into the buckets as one by one."""

from prometheus_client import CollectorRegistry, Histogram

from executions import metrics
from executions.metrics import LATENESS


def shown() -> dict[str, float]:
    (family,) = [each for each in metrics.families() if each.name == LATENESS.name]
    return {f"{sample.name}{sample.labels.get('le', '')}": sample.value for sample in family.samples}


def test_durations_in_bulk_are_counted_as_one_by_one() -> None:
    durations = [-1.0, 0.0, 0.001, 0.0011, 0.005, 0.3, 2.5, 60.0, 61.0, 1e9]
    LATENESS.observe_all([])
    before = shown()
    LATENESS.observe_all(durations)
    added = {name: value - before[name] for name, value in shown().items()}
    alone = Histogram(LATENESS.name, "alone", registry=CollectorRegistry(), buckets=LATENESS.bounds)
    for each in durations:
        alone.observe(max(0.0, each))
    (family,) = alone.collect()
    expected = {f"{one.name}{one.labels.get('le', '')}": one.value for one in family.samples}
    assert added == {name: value for name, value in expected.items() if not name.endswith("_created")}
