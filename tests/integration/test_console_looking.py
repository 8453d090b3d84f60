"""Looking at the admin changes nothing: every address that it has, by every row, whatever the query says."""

import logging
from typing import Any
from urllib.parse import urlencode

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from tests.furnished import Furniture, addresses, everywhere, patterns
from tests.rows import whole_database
from tests.tiers import once_full
from tests.visiting import LOGIN, root

pytestmark = [pytest.mark.django_db, once_full]
ANSWERS = {200, 301, 302, 403, 404, 405}
READS = ("SELECT", "DECLARE", "SAVEPOINT", "RELEASE", "ROLLBACK")


@pytest.fixture
def there(db: None, furniture: Furniture, caplog: pytest.LogCaptureFixture) -> Furniture:
    caplog.set_level(logging.ERROR, logger="django.request")  # hundreds of refusals, each with its trace
    return furniture


def meant_badly(there: Furniture) -> dict[str, Any]:
    """What a POST would say to do something, of every form that there is."""
    return {
        "action": ["revoke", "delete_selected"],
        "_selected_action": there.ids["onbeat_access/apikey"],
        **dict.fromkeys(("confirmed", "post", "_save", "_confirm", "previewed"), "yes"),
        "index": "0",
        "select_across": "1",
        "deed": "cancel",
        "viewer_zone": "UTC",
        "selected": [*there.executions["scheduled"], *map(str, there.messages)],
        "matching": "state=open",
        **dict.fromkeys(("reason", "note", "key", "name", "task"), "because"),
        "role": "admin",
        "kind": "none",
        "target": "task",
        "per_second": "10",
        "version": "1",
        "start": "2026-01-01T00:00",
        "end": "2026-01-02T00:00",
        "per_minute": "10",
        "_method": "POST",
    }


def changes(client: Client, method: str, address: str) -> list[str]:
    """The statements with which one visit changed something, but for the session."""
    with CaptureQueriesContext(connection) as statements:
        response = client.generic(method, address)
    assert response.status_code in ANSWERS, (method, address, response.status_code)
    assert LOGIN not in response.get("Location", ""), (method, address)
    sent = (statement["sql"] for statement in statements.captured_queries)
    return [sql for sql in sent if not sql.lstrip("( \n").upper().startswith(READS) and "django_session" not in sql]


@pytest.mark.parametrize(("method", "rows"), [("GET", None), ("HEAD", 1)])
def test_a_look_at_any_address_changes_nothing(there: Furniture, method: str, rows: int | None) -> None:
    client = root()
    before = whole_database()
    looks = ((address, changes(client, method, address)) for address in everywhere(there, most=rows))
    assert {address: changed for address, changed in looks if changed} == {}
    assert whole_database() == before


def test_a_look_changes_nothing_whatever_its_query_says(there: Furniture) -> None:
    client, query = root(), urlencode(meant_badly(there), doseq=True)
    before = whole_database()
    for address in everywhere(there, most=1):
        assert changes(client, "GET", f"{address}{'&' if '?' in address else '?'}{query}") == [], address
    assert whole_database() == before


def test_nothing_is_done_without_the_token_of_a_form(there: Furniture) -> None:
    client, data = root(enforce_csrf_checks=True), meant_badly(there)
    before = whole_database()
    for address in everywhere(there, most=1):
        response = client.post(address, data)
        assert (response.status_code, b"CSRF" in response.content) == (403, True), address
    assert whole_database() == before


def test_an_address_that_nobody_said_how_to_fill_is_not_passed_over(there: Furniture) -> None:
    for unknown in ("reports/<slug:name>/", "onbeat_jobs/secret/<path:object_id>/change/", "^old/(?P<number>[0-9]+)/$"):
        with pytest.raises((AssertionError, KeyError)):
            addresses(unknown, there)


def test_every_address_is_looked_at(there: Furniture) -> None:
    assert len(patterns()) > 90
    assert {there.job(key, "backfill") for key in ("plain", "paused", "over", "call")} <= set(everywhere(there))
    assert {there.execution(name) for name in there.executions} <= set(everywhere(there))
