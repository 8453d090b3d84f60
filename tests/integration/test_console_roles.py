"""Who may do what in the admin: every address and every deed, by everybody; and nobody is shown what they may not."""

import logging
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest
from django.contrib.auth.models import Permission, User
from django.db import transaction
from django.test import Client
from django.urls import Resolver404, resolve

from access.models import ApiKey, AuditEntry
from access.roles import Role
from executions import queues
from executions.clock import database_now
from executions.models import DeadMessage, Execution
from tests.furnished import ROOT, Furniture, addresses, everywhere, patterns
from tests.integration.conftest import Queues
from tests.rows import whole_database
from tests.tiers import once_embedded
from tests.visiting import LOGIN, Page, a_person, a_visitor, text, visitor

pytestmark = [pytest.mark.django_db, once_embedded]
VIEWER, OPERATOR, EDITOR, ADMIN = Role
NOBODY = None
JOB, EXECUTION = "onbeat_jobs/job/", "onbeat_executions/execution/"
KEYS = "onbeat_access/apikey/"
RECEIVER = "onbeat_notifications/receiver/"
# To look at each address, by hand, so that a view that asks for less is caught.
NEEDS: dict[str, Role | None] = {
    "dead-letters/": VIEWER,
    "dead-letters/replay/": OPERATOR,
    "dead-letters/discard/": OPERATOR,
    "dead-letters/messages/<slug:deed>/": OPERATOR,
    "living/": VIEWER,
    "queues/": VIEWER,
    "schedule-check/": VIEWER,
    f"{JOB}<object_id>/run/": OPERATOR,
    f"{JOB}<object_id>/pause/": OPERATOR,
    f"{JOB}<object_id>/archive/": EDITOR,
    f"{JOB}<object_id>/backfill/": OPERATOR,
    f"{JOB}<object_id>/edit/": EDITOR,
    f"{JOB}<object_id>/versions/": VIEWER,
    f"{EXECUTION}<object_id>/cancel/": OPERATOR,
    f"{EXECUTION}<object_id>/replay/": OPERATOR,
    f"{RECEIVER}<object_id>/edit/": ADMIN,
    f"{RECEIVER}<object_id>/remove/": ADMIN,
}
BY_POST_ALONE = {f"{JOB}<object_id>/run-now/", f"{JOB}<object_id>/resume/"}
BY_POST_ALONE |= {f"{EXECUTION}act/", f"{EXECUTION}<object_id>/retry/"}
BY_POST_ALONE |= {f"{RECEIVER}<object_id>/test/"}
MODELS = {JOB: VIEWER, EXECUTION: VIEWER, KEYS: ADMIN, "onbeat_access/auditentry/": ADMIN}
MODELS |= dict.fromkeys(["onbeat_beat/beat/", "onbeat_workers/worker/", "onbeat_callbacks/host/"], VIEWER)
MODELS |= {RECEIVER: VIEWER}
MODELS |= dict.fromkeys(["onbeat_executions/deadmessage/", "django_celery_results/taskresult/"], VIEWER)
for _model, _role in MODELS.items():
    NEEDS |= {_model: _role, f"{_model}<path:object_id>/change/": _role}
    NEEDS |= {f"{_model}add/": NOBODY, f"{_model}<path:object_id>/delete/": NOBODY}
NEEDS |= {f"{JOB}add/": EDITOR, f"{KEYS}add/": ADMIN, f"{RECEIVER}add/": ADMIN}
# Redirects to a page above, and what Django keeps by permissions of its own.
OTHERS = {f"{model}<path:object_id>/{page}" for model in MODELS for page in ("", "history/")}
OTHERS |= {"search/", "login/", "logout/", "autocomplete/", "jsi18n/", "password_change/", "password_change/done/"}
DJANGOS = ("auth/", "^(?P<app_label>", "(?P<app_label>")
OTHERS |= {"", "r/<path:content_type_id>/<path:object_id>/", "(?P<url>.*)$"}


class Deed(NamedTuple):
    needs: Role
    address: str
    says: dict[str, Any]
    action: str  # in the audit trail


def deeds(there: Furniture) -> Iterator[Deed]:
    """Everything that can be done, with a request that does it."""
    dead = Execution.objects.get(pk=there.executions["dead"][0])
    group = {"job": dead.job_id, "fingerprint": dead.fingerprint}
    yes = {"confirmed": "yes", "viewer_zone": "UTC"}
    form = Page(text(root_client(), there.job("berlin", "edit"))).values
    minute = database_now().replace(second=0, microsecond=0) - timedelta(minutes=1)
    stretch = {"start": f"{minute - timedelta(hours=1):%Y-%m-%dT%H:%M:%S}", "end": f"{minute:%Y-%m-%dT%H:%M:%S}"}
    looked = {"previewed": f"{minute - timedelta(hours=1)} {minute} 10", "per_minute": "10", **stretch, **yes}
    yield Deed(OPERATOR, there.job("plain", "run-now"), {}, "job.run")
    yield Deed(OPERATOR, there.job("plain", "run"), yes, "job.run")
    yield Deed(OPERATOR, there.job("plain", "pause"), {**yes, "reason": "tired"}, "job.pause")
    yield Deed(OPERATOR, there.job("paused", "resume"), {}, "job.resume")
    yield Deed(OPERATOR, there.job("paused", "backfill"), looked, "job.backfill")
    yield Deed(EDITOR, there.job("plain", "archive"), yes, "job.archive")
    yield Deed(EDITOR, there.job("berlin", "edit"), {**form, **CHOSEN, "owner": "you"}, "job.change")
    yield Deed(EDITOR, f"{ROOT}{JOB}add/", {**form, **CHOSEN, "key": "new", "version": ""}, "job.create")
    yield Deed(OPERATOR, there.execution("scheduled", "cancel"), yes, "execution.cancel")
    yield Deed(OPERATOR, there.execution("failing", "retry"), {}, "execution.retry_now")
    yield Deed(OPERATOR, there.execution("dead", "replay"), yes, "execution.replay")
    for name, of, action in (
        ("cancel", "queued", "cancel"),
        ("retry", "failing", "retry_now"),
        ("replay",) * 2 + ("replay",),
    ):
        ids = there.executions["dead" if of == "replay" else of]
        yield Deed(OPERATOR, f"{ROOT}{EXECUTION}act/", {**yes, "deed": name, "selected": ids}, f"execution.{action}")
    for name in ("cancel", "replay"):
        said = {**yes, "deed": f"{name}-matching", "matching": "job=plain"}
        yield Deed(OPERATOR, f"{ROOT}{EXECUTION}act/", said, f"execution.{name}")
    for verb in ("replay", "discard"):
        said = {**yes, **group, "per_second": "10", "note": "decided"}
        yield Deed(OPERATOR, f"{ROOT}dead-letters/{verb}/", said, f"dead_letter.{verb}")
        said = {**yes, "selected": there.messages, "note": "decided"}
        yield Deed(OPERATOR, f"{ROOT}dead-letters/messages/{verb}/", said, f"dead_message.{verb}")
    ops = there.ids[RECEIVER[:-1]][0]
    told = {**yes, "template": "slack", "url": "https://hooks.example.com/x", "dead_letter": "on"}
    told |= {"late_after_seconds": "60", "most_per_hour": "5"}
    yield Deed(OPERATOR, f"{ROOT}{RECEIVER}{ops}/test/", {}, "receiver.test")
    yield Deed(ADMIN, f"{ROOT}{RECEIVER}add/", {**told, "name": "new"}, "receiver.create")
    yield Deed(ADMIN, f"{ROOT}{RECEIVER}{ops}/edit/", told, "receiver.change")
    yield Deed(ADMIN, f"{ROOT}{RECEIVER}{ops}/remove/", yes, "receiver.remove")
    yield Deed(ADMIN, f"{ROOT}{KEYS}add/", {**yes, "name": "new", "role": "viewer"}, "api_key.create")
    valid = ApiKey.objects.get(name="billing")
    yield Deed(ADMIN, f"{ROOT}{KEYS}", {**yes, "action": "revoke", "_selected_action": valid.pk}, "api_key.revoke")


CHOSEN = {"target": "task", "task": "onbeat.echo", "kind": "cron", "backoff": "fixed", "overlap": "allow", "args": "[]"}
CHOSEN |= {"misfire": "skip", "kwargs": "{}", "keep_result": "", "lives_elsewhere": "", "asynchronous": ""}


def root_client() -> Client:
    return visitor(User.objects.filter(username="root").first() or User.objects.create_superuser("root"))


@pytest.fixture
def there(db: None, furniture: Furniture, caplog: pytest.LogCaptureFixture, broker: Queues) -> Furniture:
    caplog.set_level(logging.ERROR, logger="django.request")
    DeadMessage.objects.update(queue=queues.work_queue("default").name)  # of this test
    return furniture


def test_every_address_is_in_the_table() -> None:
    ours = {pattern for pattern in patterns() if not pattern.startswith(DJANGOS)}
    assert ours == {*NEEDS, *BY_POST_ALONE, *OTHERS}


# ── By everybody ─────────────────────────────────────────────────────────────────────────────────────────────────

PEOPLE: dict[str, tuple[Role | None, dict[str, Any]]] = {
    **{role.value: (role, {}) for role in Role},
    "superuser": (ADMIN, {"is_superuser": True}),
    "staff without a role": (None, {"is_staff": True}),
    "neither": (None, {}),
}


def somebody(name: str) -> tuple[Client, Role | None]:
    role, more = PEOPLE[name]
    return a_visitor(None if more else role, **more), role


class Look(NamedTuple):
    pattern: str
    address: str
    status: int
    page: Page


_looks: dict[str, list[Look]] = {}


def _answer(client: Client, address: str) -> tuple[int, Page]:
    response = client.get(address)
    return response.status_code, Page(response.content.decode() if response.status_code == 200 else "")


def looks(name: str, there: Furniture) -> list[Look]:
    """What somebody finds at each address, and on the pages whose buttons differ; looked at once for all tests."""
    if name not in _looks:
        asked = [(pattern, addresses(pattern, there)[0]) for pattern in ("", *NEEDS)]
        asked += [(f"{JOB}<path:object_id>/change/", there.job(key)) for key in ("paused", "over")]
        states = ("failing", "running", "stopping", "dead", "succeeded", "stretch")
        asked += [(f"{EXECUTION}<path:object_id>/change/", there.execution(state)) for state in states]
        asked += [(EXECUTION, f"{ROOT}{EXECUTION}?job=plain")]
        client, _ = somebody(name)
        _looks[name] = [Look(pattern, address, *_answer(client, address)) for pattern, address in asked]
    return _looks[name]


@pytest.mark.parametrize("name", [name for name in PEOPLE if name != "superuser"])  # who looks everywhere elsewhere
def test_people_see_the_pages_of_their_role_and_no_other(there: Furniture, name: str) -> None:
    role = PEOPLE[name][0]
    for look in looks(name, there):
        needed = NEEDS.get(look.pattern)
        may = needed is not None and role is not None and role.includes(needed)
        if look.pattern:  # the first page is for all who come in
            assert look.status == (200 if may else 302 if name == "neither" else 403), look.address


@pytest.mark.parametrize("name", PEOPLE)
def test_people_do_what_their_role_includes_and_nothing_else(there: Furniture, name: str) -> None:
    every = list(deeds(there))
    client, role = somebody(name)
    before, entries = whole_database(), AuditEntry.objects.count()
    for deed in every:
        with transaction.atomic():
            response = client.post(deed.address, deed.says)
            if role is not None and role.includes(deed.needs):
                assert (response.status_code, LOGIN in response["Location"]) == (302, False), deed
                (entry,) = AuditEntry.objects.order_by("pk")[entries:]
                assert (entry.who, entry.through, entry.action) == ("ada", "admin", deed.action)
                transaction.set_rollback(True)
            else:
                assert response.status_code == (302 if name == "neither" else 403), deed
                assert name != "neither" or LOGIN in response["Location"]
    assert whole_database() == before


def test_who_is_not_signed_in_is_sent_to_the_login_from_everywhere(there: Furniture) -> None:
    every, client = list(deeds(there)), Client()
    before = whole_database()
    asked = {address: client.get(address) for address in everywhere(there, most=1)}
    asked |= {f"POST {deed.address}": client.post(deed.address, deed.says) for deed in every}
    elsewhere = {where for where, answer in asked.items() if LOGIN not in answer.get("Location", "")}
    assert elsewhere == {LOGIN, f"{ROOT}logout/"}
    assert whole_database() == before


def test_django_itself_changes_and_deletes_none_of_our_rows(there: Furniture) -> None:
    client, stolen = root_client(), {"post": "yes", "key": "stolen", "name": "stolen", "who": "nobody", "_save": "yes"}
    before = whole_database()
    for model in MODELS:
        for page in ("change/", "delete/"):
            (address, *_) = addresses(f"{model}<path:object_id>/{page}", there)
            assert client.post(address, stolen).status_code in (403, 405), address
        client.post(
            ROOT + model, {"action": "delete_selected", "_selected_action": there.ids[model[:-1]], "post": "yes"}
        )
    assert whole_database() == before


def test_who_was_locked_out_is_sent_to_the_login(there: Furniture) -> None:
    user = a_person(ADMIN)
    client = visitor(user)
    User.objects.filter(pk=user.pk).update(is_active=False)
    assert all(client.get(address).status_code == 302 for address in everywhere(there, most=1)[1:7])


@pytest.mark.parametrize("role", [None, VIEWER])
def test_permissions_of_django_give_no_role(there: Furniture, role: Role | None) -> None:
    user = a_person(role, is_staff=True)
    user.user_permissions.set(Permission.objects.all())
    client = visitor(user)
    assert {client.post(deed.address, deed.says).status_code for deed in list(deeds(there))} == {403}


def test_somebody_without_a_role_is_shown_nothing_of_the_platform_on_the_first_page(there: Furniture) -> None:
    page = a_visitor(is_staff=True).get(ROOT).content.decode()
    assert "You have no role here." in page
    assert "plain" not in page
    assert "onbeat_" not in page


# ── Links and buttons ────────────────────────────────────────────────────────────────────────────────────────────


def view(link: str) -> str:
    try:
        return str(resolve(urlsplit(link).path).route).removeprefix("admin/")
    except Resolver404:
        return link


@pytest.mark.parametrize("role", Role)
def test_a_page_leads_people_to_all_that_they_may_do_and_to_nothing_else(there: Furniture, role: Role) -> None:
    ways = {**NEEDS, **{view(deed.address): deed.needs for deed in deeds(there)}}
    shown = {
        view(link)
        for look in looks(role.value, there)
        for link in (*look.page.links, *(post or look.address for post in look.page.posts))
        if link.startswith(ROOT)
    }
    for led in shown & set(ways):
        needed = ways[led]
        assert needed is not None, led
        assert role.includes(needed), led
    others = {led for led in shown - set(ways) if not led.startswith(DJANGOS)}
    assert others <= OTHERS
    done = {view(deed.address) for deed in deeds(there) if role.includes(deed.needs)}
    assert done - shown == set()


def test_a_viewer_has_no_button_that_does_anything(there: Furniture) -> None:
    for look in looks("viewer", there):
        assert set(look.page.posts) <= {f"{ROOT}logout/"}, look.address


# ── The login ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("role", "more", "may"),
    [
        (VIEWER, {}, True),
        (ADMIN, {}, True),
        (None, {"is_staff": True}, True),
        (None, {}, False),
        (ADMIN, {"is_active": False}, False),
    ],
)
def test_who_has_a_role_or_is_of_the_staff_comes_in_by_the_login(
    role: Role | None, more: dict[str, Any], may: bool
) -> None:
    a_person(role, password="open sesame", **more)
    client = Client()
    response = client.post(LOGIN, {"username": "ada", "password": "open sesame", "next": ROOT})
    assert response.status_code == (302 if may else 200)
    assert ("_auth_user_id" in client.session) == may
    if not may:
        assert "Please enter the correct username and password" in response.content.decode()
