"""Lists of jobs through the REST API: filtered, searched, ordered, page by page."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from jobs import definitions
from jobs.models import Job
from jobs.recurrence import Every
from tests.calling import Caller, a_caller
from tests.making import a_job, planned

pytestmark = pytest.mark.django_db


@pytest.fixture
def api() -> Caller:
    return a_caller()


def keys(api: Caller, query: str) -> list[str]:
    return [job["key"] for job in api.get(f"/jobs?{query}").body["items"]]


def test_jobs_are_listed_by_filters_search_and_order(api: Caller, noon: datetime) -> None:
    a_job(now=noon, key="bill.a", queue="batch", owner="anna", tags=["x", "y"], schedule=Every(60, noon))
    a_job(now=noon + timedelta(hours=1), key="bill.b", owner="Bert", task="onbeat.sleep", tags=["y"])
    a_job(now=noon + timedelta(hours=2), key="mail-100", owner="anna", schedule=Every(3600, noon))
    a_job(now=noon - timedelta(hours=1), key="un-bill.c", schedule=Every(7200, noon))
    definitions.pause("bill.b", reason="r")
    definitions.archive(a_job(now=noon, key="bill.old"))
    assert keys(api, "") == ["bill.a", "bill.b", "mail-100", "un-bill.c"]
    assert keys(api, "state=PAUSED") == ["bill.b"]
    assert keys(api, "state=archived,ACTIVE") == ["bill.a", "bill.old", "mail-100", "un-bill.c"]
    assert keys(api, "key_prefix=bill.") == ["bill.a", "bill.b"]
    assert keys(api, "key_prefix=bill_") == []
    assert keys(api, "tag=y") == ["bill.a", "bill.b"]
    assert keys(api, "tag=x&owner=anna&queue=batch") == ["bill.a"]
    assert keys(api, "target=onbeat.sleep") == ["bill.b"]
    assert keys(api, "search=BERT") == keys(api, "search=LL.B") == ["bill.b"]
    assert keys(api, "search=-100") == ["mail-100"]
    assert keys(api, "order=-created_at") == ["mail-100", "bill.b", "bill.a", "un-bill.c"]
    assert keys(api, "order=next_fire_at") == ["un-bill.c", "bill.a", "mail-100", "bill.b"]


@pytest.mark.parametrize("order", ["key", "-key", "created_at", "-created_at", "next_fire_at", "-next_fire_at"])
def test_pages_hold_every_job_once_in_order(order: str, api: Caller, noon: datetime) -> None:
    for number in range(7):
        schedule = Every(60, noon) if number % 3 else None
        a_job(now=noon, key=f"k{number}", schedule=schedule)
    whole = keys(api, f"order={order}")
    assert sorted(whole) == [f"k{number}" for number in range(7)]
    paged, address = [], f"/jobs?order={order}&limit=2"
    while address:
        page = api.get(address).body
        paged += [job["key"] for job in page["items"]]
        address = page["next"]
    assert paged == whole


def test_a_list_takes_the_same_number_of_queries_however_long_it_is(
    api: Caller, noon: datetime, django_assert_max_num_queries: Any
) -> None:
    api.get("/caller")  # notes that the key is used, once a minute
    counts = []
    for total in (1, 30):
        while Job.objects.count() < total:
            planned(a_job(now=noon, schedule=Every(60, noon)), noon)
        with django_assert_max_num_queries(12) as captured:
            assert len(api.get("/jobs").body["items"]) == total
        counts.append(len(captured))
    assert counts[0] == counts[1]
