"""Odd requests to the REST API: each is answered with a sentence, and none becomes a 500."""

from typing import Any

import pytest

from executions.clock import database_now
from tests.calling import Caller, a_caller
from tests.making import a_job
from tests.tiers import once_embedded

pytestmark = [pytest.mark.django_db, once_embedded]

TASK = {"target": {"task": "onbeat.echo"}}
# A NUL, half of a surrogate pair, no UTF-8, a line feed, too long, digits that are no number of ours, dots and slashes.
ODD = ["%00", "a%00b", "%ED%A0%80", "%FF", "a%0Ab", "999999999%0A", "x" * 5000, "9" * 18, "9" * 19, "-1", "%D9%A1"]
ODD += ["%F0%9F%98%80", "%20", ".", "..", "%2F", "a%2Fb"]
ADDRESSES: list[tuple[str, str, Any]] = [
    ("GET", "/{odd}", None),
    ("GET", "/jobs/{odd}", None),
    ("GET", "/jobs/by-key/{odd}", None),
    ("PATCH", "/jobs/by-key/{odd}", {}),
    ("DELETE", "/jobs/by-key/{odd}", None),
    ("GET", "/jobs/here/versions/{odd}", None),
    ("GET", "/jobs/here/runs/{odd}", None),
    ("PUT", "/jobs/here/runs/{odd}", {"delay": 5}),
    ("DELETE", "/jobs/here/runs/{odd}", None),
    ("GET", "/executions/{odd}", None),
    ("GET", "/jobs?limit={odd}", None),
    ("GET", "/jobs?cursor={odd}", None),
    ("GET", "/audit?cursor={odd}", None),
    ("GET", "/executions?cursor={odd}", None),
    ("GET", "/executions?job={odd}", None),
    ("GET", "/executions?state={odd}", None),
    ("GET", "/executions?since={odd}", None),
    ("GET", "/statistics?job={odd}", None),
]
SEARCHES = ["/jobs?search={odd}&key_prefix={odd}&tag={odd}", "/executions?queue={odd}&worker={odd}&fingerprint={odd}"]
SEARCHES += ["/audit?who={odd}&subject={odd}", "/statistics?queue={odd}", "/dead-letters/groups?job={odd}&task={odd}"]


@pytest.fixture
def api() -> Caller:
    a_job(now=database_now(), key="here")
    return a_caller()


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: odd[:20])
def test_what_names_nothing_is_refused_with_a_sentence(api: Caller, odd: str) -> None:
    for method, address, body in ADDRESSES:
        answer = api.call(method, address.format(odd=odd), body)
        assert answer.status in (400, 404), (method, address)
        assert answer.headers["Content-Type"] == "application/problem+json"
        assert answer.body["detail"]


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: odd[:20])
def test_what_matches_nothing_is_looked_for_or_refused(api: Caller, odd: str) -> None:
    assert {api.get(address.format(odd=odd)).status for address in SEARCHES} <= {200, 400}


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: odd[:20])
def test_a_job_by_an_odd_key_is_stored_under_that_key_or_not_at_all(api: Caller, odd: str) -> None:
    address = f"/jobs/by-key/{odd}"
    stored = api.put(address, TASK)
    assert stored.status in (201, 404, 422)
    assert api.get(address).status == (200 if stored.status == 201 else 404)


@pytest.mark.parametrize("version", ["*", '"1"'])
def test_a_job_that_is_to_be_changed_is_not_created(api: Caller, version: str) -> None:
    answer = api.put("/jobs/by-key/nowhere", TASK, If_Match=version)
    assert (answer.status, answer.body["detail"]) == (
        412,
        "There is no job 'nowhere'; leave If-Match out to create it.",
    )
    assert api.get("/jobs/by-key/nowhere").status == 404
