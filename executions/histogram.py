"""How many durations of each length: what percentiles are read from when the durations themselves are gone. Pure.

Owns the arithmetic of histograms. A histogram maps the number of a bucket, as text, to a count. Bucket 0 holds what
took a millisecond or less; each further one reaches 2**0.25 times as far as the one before, its upper end included.
Buckets never change, so that histograms of any hours, jobs and releases can be added up. Invariant: a percentile is
off by at most 9.1 % (half a bucket), below a millisecond by at most half of one; what took longer than the last
bucket reaches, about 30 days, counts as if it lay in it.
"""

import math
from collections.abc import Iterable, Mapping
from datetime import timedelta

Histogram = dict[str, int]

LONGEST = timedelta(days=30)
BUCKETS_PER_DOUBLING = 4
BUCKETS_PER_LN = BUCKETS_PER_DOUBLING / math.log(2)
# 2, 4, 8 … ms are ends of buckets and no logarithm is exact: without it each computer would put them where it likes.
TOLERANCE = 1e-9
_LEAST = timedelta(milliseconds=1)
LAST = math.ceil(math.log(LONGEST / _LEAST) * BUCKETS_PER_LN)


def bucket(duration: timedelta) -> int:
    """Which one a duration lies in. `executions/counted.py` says the same in SQL."""
    steps = math.log(max(duration, _LEAST) / _LEAST) * BUCKETS_PER_LN
    return min(math.ceil(steps - TOLERANCE), LAST)


def merged(histograms: Iterable[Mapping[str, int]]) -> Histogram:
    """All of them in one."""
    total: Histogram = {}
    for histogram in histograms:
        for name, count in histogram.items():
            total[name] = total.get(name, 0) + count
    return total


def percentile(histogram: Mapping[str, int], percent: int) -> float | None:
    """The seconds that so many percent of the durations did not exceed, about; of nothing there is none.

    That is the shortest duration of which this is true, or the middle of its bucket.
    """
    rank = max(1, -(-percent * sum(histogram.values()) // 100))  # in whole numbers: 7 % of 100 are not 8
    for number, count in sorted((int(name), count) for name, count in histogram.items()):
        rank -= count
        if rank <= 0:
            return _middle(number)
    return None


def _middle(number: int) -> float:
    """By ratio, as far from the lower end as from the upper one."""
    steps = (number - 0.5) / BUCKETS_PER_DOUBLING if number else -1
    return float(_LEAST.total_seconds() * 2**steps)
