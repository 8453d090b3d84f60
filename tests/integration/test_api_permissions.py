"""Who may do what through the REST API: every operation, by every role and every way in."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.db import transaction
from django.test import Client
from pytest_django import Settings

from access import api_keys
from access.models import AuditEntry, IdempotentAnswer
from access.roles import Role
from api import callers
from api.jobs.examples import RECURRING
from api.urls import urlpatterns
from api.views import ApiView
from executions.clock import database_now
from executions.models import Attempt, DeadMessage, Execution, RunKey
from jobs.models import Job, JobVersion, Schedule, Secret
from notifications.models import Notice, Receiver
from tests.calling import Answer, Caller
from tests.inhabited import RUN_KEYS, inhabit
from tests.integration.conftest import Queues
from tests.tiers import once_embedded

pytestmark = [pytest.mark.django_db, once_embedded]

DEFINITION = {"target": {"task": "onbeat.echo"}, "priority": 1}
FILTER = {"job": "plain"}
# Each with the role that it needs and a body that does something, if it is allowed: written by hand, so that a view
# that asks for less is caught.
READ = (Role.VIEWER, None)
OPERATIONS: dict[str, tuple[Role, Any]] = {
    "GET v1/jobs": READ,
    "POST v1/jobs": (Role.EDITOR, {**RECURRING, "key": "new"}),
    "GET v1/jobs/by-key/<path:key>": READ,
    "PUT v1/jobs/by-key/<path:key>": (Role.EDITOR, DEFINITION),
    "PATCH v1/jobs/by-key/<path:key>": (Role.EDITOR, {"priority": 1}),
    "DELETE v1/jobs/by-key/<path:key>": (Role.EDITOR, None),
    "GET v1/jobs/<str:job>": READ,
    "PUT v1/jobs/<str:job>": (Role.EDITOR, DEFINITION),
    "PATCH v1/jobs/<str:job>": (Role.EDITOR, {"priority": 1}),
    "DELETE v1/jobs/<str:job>": (Role.EDITOR, None),
    "POST v1/jobs/<str:job>/pause": (Role.OPERATOR, {}),
    "POST v1/jobs/<str:job>/resume": (Role.OPERATOR, {}),
    "GET v1/jobs/<str:job>/preview": READ,
    "GET v1/jobs/<str:job>/versions": READ,
    "GET v1/jobs/<str:job>/versions/<int:number>": READ,
    "GET v1/jobs/<str:job>/diff": READ,
    "POST v1/jobs/<str:job>/backfill": (Role.OPERATOR, None),  # with the times of the test
    "POST v1/jobs/<str:job>/bulk-runs": (Role.OPERATOR, {"runs": [{}, {"delay": 60}]}),
    "POST v1/jobs/<str:job>/runs": (Role.OPERATOR, {}),
    "GET v1/jobs/<str:job>/runs/<path:run_key>": READ,
    "PUT v1/jobs/<str:job>/runs/<path:run_key>": (Role.OPERATOR, {"delay": 60}),
    "DELETE v1/jobs/<str:job>/runs/<path:run_key>": (Role.OPERATOR, None),
    "POST v1/bulk/jobs": (Role.EDITOR, {"jobs": [{"key": "new", **DEFINITION}]}),
    "POST v1/schedules/preview": (Role.VIEWER, {"schedule": {"every": 60}}),
    "GET v1/executions": READ,
    "POST v1/executions/cancel": (Role.OPERATOR, {"filter": FILTER, "dry_run": False}),
    "POST v1/executions/replay": (Role.OPERATOR, {"filter": FILTER, "dry_run": False}),
    "GET v1/executions/<uuid:id>": READ,
    "POST v1/executions/<uuid:id>/cancel": (Role.OPERATOR, {}),
    "POST v1/executions/<uuid:id>/retry-now": (Role.OPERATOR, {}),
    "POST v1/executions/<uuid:id>/replay": (Role.OPERATOR, {}),
    "GET v1/dead-letters/groups": READ,
    "POST v1/dead-letters/replay": (Role.OPERATOR, {"filter": {}, "dry_run": False}),
    "POST v1/dead-letters/discard": (Role.OPERATOR, {"filter": {}, "dry_run": False, "note": "not wanted"}),
    "GET v1/dead-letters/messages": READ,
    "POST v1/dead-letters/messages/replay": (Role.OPERATOR, None),  # with the ids of the test
    "POST v1/dead-letters/messages/discard": (Role.OPERATOR, None),
    "GET v1/secrets": (Role.EDITOR, None),
    "PUT v1/secrets/<str:name>": (Role.ADMIN, {"use": "signing"}),
    "DELETE v1/secrets/<str:name>": (Role.ADMIN, None),
    "GET v1/notifications": READ,
    "GET v1/notifications/<str:name>": READ,
    "PUT v1/notifications/<str:name>": (Role.ADMIN, {"most_per_hour": 7}),
    "DELETE v1/notifications/<str:name>": (Role.ADMIN, None),
    "POST v1/notifications/<str:name>/test": (Role.OPERATOR, {}),
    "GET v1/hosts": READ,
    "GET v1/queues": READ,
    "GET v1/workers": READ,
    "GET v1/beats": READ,
    "GET v1/statistics": READ,
    "GET v1/audit": (Role.ADMIN, None),
    "GET v1/caller": READ,
}
FOR_EVERYBODY = ["schema", "docs"]
BY_SIGNATURE = ["v1/completions/<uuid:id>/<int:attempt>/<str:signature>"]  # see test_completions.py
CSRF_TOKEN = {"X-CSRFToken": "a" * 32}
KEPT = (
    Job,
    Schedule,
    JobVersion,
    Secret,
    Receiver,
    Notice,
    Execution,
    Attempt,
    RunKey,
    DeadMessage,
    AuditEntry,
    IdempotentAnswer,
)
Send = Callable[[str, str, Any], Answer]


def routes() -> dict[str, Any]:
    """The class of the view of each address."""
    return {str(pattern.pattern): pattern.callback.view_class for pattern in urlpatterns}


def offered() -> set[str]:
    """Every operation that there is, as the views have methods for it."""
    return {
        f"{method.upper()} {address}"
        for address, view in routes().items()
        for method in view.http_method_names
        if issubclass(view, ApiView) and method != "head" and hasattr(view, method)
    }


def test_every_operation_is_in_the_table() -> None:
    assert offered() == set(OPERATIONS)


def test_a_view_says_which_role_each_of_its_methods_needs() -> None:
    said = {
        f"{method} {address}"
        for address, view in routes().items()
        if issubclass(view, ApiView)
        for method in view.needs
    }
    assert said == offered()


def test_the_documentation_is_for_everybody_and_nothing_else_is() -> None:
    open_to_all = [address for address, view in routes().items() if not issubclass(view, ApiView)]
    assert open_to_all == [*FOR_EVERYBODY, *BY_SIGNATURE]
    for address in FOR_EVERYBODY:
        assert Client().get(f"/api/{address}").status_code == 200


# ── All operations, by one caller ────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(autouse=True)
def unlimited(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.ONBEAT_API_REQUESTS_PER_MINUTE = 0
    monkeypatch.setattr(callers, "_DENIED_PER_MINUTE", 1_000_000)


@pytest.fixture
def requests(broker: Queues) -> dict[str, tuple[str, Any]]:
    """For each operation where to send what, in a database with something of everything."""
    now = database_now()
    there = inhabit(now, each=1)
    dead = there.executions["dead"][0]
    names = {"<path:key>": "plain", "<path:run_key>": RUN_KEYS[0], "<int:number>": "1", "<str:name>": "unused"}
    jobs = {"POST v1/jobs/<str:job>/resume": "paused", "POST v1/jobs/<str:job>/backfill": "paused"}
    ids = {"cancel": there.executions["scheduled"][0], "retry-now": there.executions["failing"][0]}
    stretch = {"start": str(now - timedelta(minutes=9)), "end": str(now), "dry_run": False}
    letters = {"ids": there.messages, "note": "not wanted"}
    bodies = {operation: body for operation, (_, body) in OPERATIONS.items()}
    bodies["POST v1/jobs/<str:job>/backfill"] = stretch
    bodies |= {f"POST v1/dead-letters/messages/{verb}": letters for verb in ("replay", "discard")}
    addresses = {}
    for operation, body in bodies.items():
        address = operation.split(" ")[1].replace("<str:job>", jobs.get(operation, "plain"))
        address = address.replace("<uuid:id>", ids.get(address.rpartition("/")[2], dead))
        for name, value in names.items():
            address = address.replace(name, value)
        addresses[operation] = (f"/api/{address}{'?since=1' if address.endswith('/diff') else ''}", body)
    return addresses


def answers(requests: dict[str, tuple[str, Any]], send: Send) -> Iterator[tuple[str, int]]:
    """Of each operation, what was answered; whatever was done is undone."""
    for operation, (address, body) in requests.items():
        with transaction.atomic():
            yield operation, send(operation.split(" ")[0], address, body).status
            transaction.set_rollback(True)


def rows() -> list[Any]:
    """All that a refused call could have changed."""
    return [list(kind.objects.order_by("pk").values()) for kind in KEPT]


def check_refused(requests: dict[str, tuple[str, Any]], send: Send, status: int) -> None:
    before = rows()
    for operation, (address, body) in requests.items():
        method = operation.split(" ")[0]
        answer = send(method, address, body)
        assert answer.status == status, (operation, answer.body)
        assert answer.headers["Content-Type"] == "application/problem+json"
        assert ("WWW-Authenticate" in answer.headers) == (status == 401), operation
    assert rows() == before


def check_role(requests: dict[str, tuple[str, Any]], send: Send, role: Role) -> None:
    """Each operation is done or refused, as the table says."""
    refused = {name: request for name, request in requests.items() if not role.includes(OPERATIONS[name][0])}
    check_refused(refused, send, 403)
    allowed = {name: request for name, request in requests.items() if name not in refused}
    wrong = {operation: status for operation, status in answers(allowed, send) if status not in (200, 201)}
    assert wrong == {}


def by_key(secret: str = "") -> Send:
    caller = Caller(secret)
    return lambda method, address, body: caller.call(method, address, body)


def by_session(user: User, **headers: str) -> Send:
    client = Client(enforce_csrf_checks=True)
    client.force_login(user)
    client.cookies["csrftoken"] = CSRF_TOKEN["X-CSRFToken"]
    caller = Caller(headers=headers)
    caller._client = client
    return lambda method, address, body: caller.call(method, address, body)


def a_user(*groups: str) -> User:
    user = User.objects.create_user("ada", is_staff=True)
    user.groups.set([Group.objects.get(name=name) for name in groups])
    return user


# ── Who ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("role", Role)
def test_a_key_may_do_what_its_role_includes_and_nothing_else(requests: Any, role: Role) -> None:
    check_role(requests, by_key(api_keys.make(name="it", role=role).secret), role)


def test_what_a_role_may_read_it_may_ask_for_by_head(requests: Any) -> None:
    send = by_key(api_keys.make(name="it", role=Role.EDITOR).secret)
    reading = {name: request for name, request in requests.items() if name.startswith("GET ")}
    by_head = {name: send("HEAD", *request).status for name, request in reading.items()}
    assert by_head == {name: 403 if OPERATIONS[name][0] == Role.ADMIN else 200 for name in reading}


@pytest.mark.parametrize("role", Role)
def test_somebody_who_is_logged_in_may_do_what_the_role_of_the_group_includes(requests: Any, role: Role) -> None:
    check_role(requests, by_session(a_user(role.group), **CSRF_TOKEN), role)


def test_a_superuser_may_do_everything(requests: Any) -> None:
    check_role(requests, by_session(User.objects.create_superuser("root"), **CSRF_TOKEN), Role.ADMIN)


def test_a_change_by_a_session_without_its_csrf_token_is_refused(requests: Any) -> None:
    send = by_session(a_user(Role.ADMIN.group))
    reading = {name: request for name, request in requests.items() if name.startswith("GET ")}
    assert {status for _, status in answers(reading, send)} == {200}
    check_refused({name: request for name, request in requests.items() if name not in reading}, send, 403)


def test_somebody_without_a_role_is_refused(requests: Any) -> None:
    check_refused(requests, by_session(a_user(), **CSRF_TOKEN), 403)


def test_somebody_who_was_locked_out_is_refused(requests: Any) -> None:
    user = a_user(Role.ADMIN.group)
    send = by_session(user, **CSRF_TOKEN)
    User.objects.filter(pk=user.pk).update(is_active=False)
    check_refused(requests, send, 401)


def test_nobody_is_refused(requests: Any) -> None:
    check_refused(requests, by_key(), 401)


def test_an_unknown_key_is_refused(requests: Any) -> None:
    known = api_keys.make(name="it", role=Role.ADMIN).secret
    check_refused(requests, by_key(known[:-1] + ("b" if known.endswith("a") else "a")), 401)


def test_an_expired_key_is_refused(requests: Any) -> None:
    then = database_now() - timedelta(days=2)
    made = api_keys.make(name="it", role=Role.ADMIN, expires_at=then + timedelta(days=1), now=then)
    check_refused(requests, by_key(made.secret), 401)


def test_a_revoked_key_is_refused(requests: Any) -> None:
    made = api_keys.make(name="it", role=Role.ADMIN)
    api_keys.revoke(made.key.prefix)
    check_refused(requests, by_key(made.secret), 401)


def test_a_key_that_is_refused_is_not_made_up_for_by_a_session(requests: Any) -> None:
    unknown = {"Authorization": f"Bearer onbeat_{'a' * 12}_{'a' * 43}"}
    check_refused(requests, by_session(a_user(Role.ADMIN.group), **CSRF_TOKEN, **unknown), 401)
