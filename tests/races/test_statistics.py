"""Two who count at once: one does it, and neither waits."""

from datetime import datetime
from functools import partial

import pytest
from django.db import transaction

from executions import statistics, stored_hours
from executions.models import HourlyCount, HourlySums, HourlyTotal
from tests.making import a_job, planned, seconds
from tests.races.connections import elsewhere, several

pytestmark = [pytest.mark.full, pytest.mark.django_db(transaction=True)]
ROUNDS = 10


def test_two_who_count_at_once_count_right(noon: datetime) -> None:
    jobs = [a_job(now=noon) for _ in range(10)]
    with several(2) as start_both:
        for number in range(ROUNDS):
            for job in jobs:
                planned(job, noon + seconds(number))
            start_both(*[partial(statistics.roll_up, noon)] * 2)
            assert {row.count for row in HourlyCount.objects.all()} == {number + 1}
            assert HourlyTotal.objects.get().count == len(jobs) * (number + 1)


def test_who_finds_another_at_it_leaves_it_at_that(noon: datetime) -> None:
    planned(a_job(now=noon), noon)
    with transaction.atomic():
        assert statistics.roll_up(noon) == 1
        assert elsewhere(partial(statistics.roll_up, noon)) == 0
    assert HourlyCount.objects.get().count == HourlyTotal.objects.get().count == 1


@pytest.mark.parametrize("broken", [HourlyCount, HourlyTotal])
def test_nobody_sees_counts_without_their_totals_or_totals_without_their_counts(
    broken: type[HourlySums], noon: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned(a_job(now=noon), noon)
    usual = stored_hours.store

    def store(model: type[HourlySums], hour: datetime) -> int:
        if model is broken:
            raise RuntimeError("broken off")
        return usual(model, hour)

    monkeypatch.setattr(stored_hours, "store", store)
    with pytest.raises(RuntimeError):
        statistics.roll_up(noon)
    assert elsewhere(HourlyTotal.objects.count) == elsewhere(HourlyCount.objects.count) == 0
