"""API keys and the audit trail in the admin: for admins alone, and a secret is shown once."""

import re
from datetime import datetime, timedelta

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group, Permission, User
from django.contrib.sessions.models import Session
from django.db import connection
from django.http import HttpResponse
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from access import api_keys, audit
from access.api_keys import Denied, Made
from access.models import ApiKey, AuditEntry
from tests.tiers import once_embedded

pytestmark = [pytest.mark.django_db, once_embedded]
KEYS, ENTRIES = "/admin/onbeat_access/apikey/", "/admin/onbeat_access/auditentry/"
SECRET = re.compile("onbeat_[a-z0-9]{12}_[a-zA-Z0-9]{43}")
NEW = {"name": "billing server", "role": "editor", "expires_at": "", "viewer_zone": "UTC", "confirmed": "yes"}


@pytest.fixture
def made(noon: datetime) -> Made:
    return api_keys.make(name="<b>billing</b>", role="editor", by="ada", now=noon)


def signed_in(client: Client, group: str, *, permissions: bool = False) -> Client:
    """As somebody of the staff who is in this group."""
    user = User.objects.create_user("bob", is_staff=True)
    user.groups.add(Group.objects.get_or_create(name=group)[0])
    if permissions:
        user.user_permissions.set(Permission.objects.all())
    client.force_login(user)
    return client


@pytest.fixture
def admin(client: Client) -> Client:
    return signed_in(client, "Onbeat admins")


def text(client: Client, address: str) -> str:
    response = client.get(address)
    assert response.status_code == 200
    return response.content.decode()


def revoke(client: Client, *keys: ApiKey) -> HttpResponse:
    data = {"action": "revoke", "_selected_action": [key.pk for key in keys]}
    return client.post(KEYS, {**data, "confirmed": "yes"}, follow=True)


# ── Who may ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("group", ["Onbeat viewers", "Onbeat operators", "Onbeat editors", "Others"])
@pytest.mark.parametrize("permissions", [False, True])
def test_who_is_no_admin_reaches_neither_keys_nor_the_audit_trail(
    client: Client, made: Made, group: str, permissions: bool
) -> None:
    signed_in(client, group, permissions=permissions)
    entry = AuditEntry.objects.get()
    for address in (
        *(KEYS, f"{KEYS}add/", f"{KEYS}{made.key.pk}/change/", f"{KEYS}{made.key.pk}/delete/"),
        *(f"{KEYS}{made.key.pk}/history/", ENTRIES, f"{ENTRIES}{entry.pk}/change/"),
    ):
        assert client.get(address).status_code == 403, address
    assert client.post(f"{KEYS}add/", NEW).status_code == 403
    assert revoke(client, made.key).status_code == 403
    assert "onbeat_access" not in text(client, "/admin/")
    assert api_keys.find(made.secret, now=made.key.created_at) == made.key


def test_who_is_in_the_group_of_admins_reaches_them_without_further_permissions(admin: Client, made: Made) -> None:
    for address in (KEYS, f"{KEYS}add/", f"{KEYS}{made.key.pk}/change/", ENTRIES):
        text(admin, address)
    assert "API keys" in text(admin, "/admin/")


def test_a_superuser_reaches_them(admin_client: Client, made: Made) -> None:
    for address in (KEYS, f"{KEYS}add/", ENTRIES):
        text(admin_client, address)


def test_a_stranger_is_sent_to_the_login(client: Client) -> None:
    assert [client.get(address).status_code for address in (KEYS, ENTRIES)] == [302, 302]


# ── Make ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_secret_appears_exactly_once(admin: Client, caplog: pytest.LogCaptureFixture) -> None:
    page = admin.post(f"{KEYS}add/", NEW, follow=True)
    (secret,) = SECRET.findall(page.content.decode())
    assert page.content.decode().count("it is shown only this once") == 1
    key = ApiKey.objects.get()
    assert api_keys.find(secret, now=key.created_at) == key
    for address in (KEYS, f"{KEYS}{key.pk}/change/", f"{KEYS}{key.pk}/history/", "/admin/", ENTRIES):
        assert secret not in text(admin, address)
    assert secret not in caplog.text


def test_the_secret_is_in_no_table(admin: Client) -> None:
    admin.post(f"{KEYS}add/", NEW)  # not followed: now the message waits to be shown
    rows = [*ApiKey.objects.values(), *AuditEntry.objects.values(), *LogEntry.objects.values()]
    sessions = [session.get_decoded() for session in Session.objects.all()]
    assert (len(rows), len(sessions)) == (2, 1)
    (secret,) = SECRET.findall(text(admin, KEYS))
    assert secret not in repr([rows, sessions])


def test_a_new_key_is_as_the_form_says_and_told_of(admin: Client) -> None:
    end = (timezone.now() + timedelta(days=30)).replace(microsecond=0)
    said = {**NEW, "expires_at": f"{end + timedelta(hours=9):%Y-%m-%dT%H:%M:%S}", "viewer_zone": "Asia/Tokyo"}
    assert admin.post(f"{KEYS}add/", said).status_code == 302
    key, entry = ApiKey.objects.get(), AuditEntry.objects.get()
    assert (key.name, key.role, key.expires_at, key.created_by) == ("billing server", "editor", end, "bob")
    assert (entry.who, entry.through, entry.action) == ("bob", "admin", "api_key.create")


def test_what_is_sent_along_with_the_form_is_not_taken(admin: Client) -> None:
    admin.post(f"{KEYS}add/", {**NEW, "prefix": "mine", "digest": "0" * 64, "created_by": "eve", "revoked_by": "eve"})
    key = ApiKey.objects.get()
    assert key.prefix != "mine"
    assert key.digest != "0" * 64
    assert (key.created_by, key.revoked_by) == ("bob", "")


@pytest.mark.parametrize(
    ("said", "says"),
    [
        ({"name": ""}, "This field is required."),
        ({"name": "n" * 101}, "at most 100 characters"),
        ({"name": "a\u200bb"}, "holds characters that cannot be shown"),
        ({"role": "root"}, "root is not one of the available choices"),
        ({"expires_at": "2020-01-01T12:00"}, "is past; choose a later one, or none."),
        ({"expires_at": "soon"}, "is no date and time; write it as 2026-11-17T08:30:00."),
    ],
)
def test_what_cannot_be_is_told_beside_the_form(admin: Client, said: dict[str, str], says: str) -> None:
    page = admin.post(f"{KEYS}add/", {**NEW, **said})
    assert page.status_code == 422
    assert says in page.content.decode()
    assert not ApiKey.objects.exists()
    assert not AuditEntry.objects.exists()


def test_a_name_is_escaped_in_the_message(admin: Client) -> None:
    page = admin.post(f"{KEYS}add/", {**NEW, "name": "<script>alert(1)</script>"}, follow=True).content.decode()
    assert "<script>alert(1)" not in page
    assert "&lt;script&gt;alert(1)" in page


# ── Look ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_list_says_in_a_word_what_each_key_is(admin: Client, made: Made, noon: datetime) -> None:
    api_keys.make(name="short", role="viewer", expires_at=noon + timedelta(hours=1), now=noon)
    api_keys.revoke(api_keys.make(name="leaked", role="viewer", now=noon).key.prefix, now=noon)
    page = text(admin, KEYS)
    states = re.findall(r'ob-pill ob-\w+">(valid|expired|revoked)<', page)
    assert sorted(states) == ["expired", "revoked", "valid"]
    assert "<b>billing</b>" not in page


def test_the_page_of_a_key_shows_all_but_its_digest(admin: Client, made: Made) -> None:
    page = text(admin, f"{KEYS}{made.key.pk}/change/")
    assert all(said in page for said in (made.key.prefix, "Editor", "valid", "ada"))
    assert made.key.digest not in page


def test_a_key_can_be_neither_changed_nor_deleted(admin: Client, made: Made) -> None:
    for action in ("change", "delete"):
        assert admin.post(f"{KEYS}{made.key.pk}/{action}/", {**NEW, "post": "yes"}).status_code == 403
    admin.post(KEYS, {"action": "delete_selected", "_selected_action": [made.key.pk], "post": "yes"})
    assert ApiKey.objects.get().name == made.key.name


# ── Revoke ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_selected_keys_are_revoked_and_no_other(admin: Client, made: Made, noon: datetime) -> None:
    others = [api_keys.make(name=name, role="viewer", now=noon) for name in ("one", "two")]
    page = revoke(admin, *(other.key for other in others)).content.decode()
    (told,) = re.findall(r"Revoked: (.+)\.\s*<", page)
    assert sorted(told.split(", ")) == sorted(str(other.key) for other in others)
    assert [api_keys.find(other.secret, now=noon) for other in others] == [Denied.REVOKED] * 2
    assert api_keys.find(made.secret, now=noon) == made.key
    entries = AuditEntry.objects.filter(action="api_key.revoke")
    assert {(entry.who, entry.through) for entry in entries} == {("bob", "admin")}
    assert entries.count() == 2


def test_asking_for_an_action_by_get_changes_nothing(admin: Client, made: Made) -> None:
    for more in ("", "&index=0&select_across=1", "&post=yes"):
        admin.get(f"{KEYS}?action=revoke&_selected_action={made.key.pk}{more}")
    assert ApiKey.objects.get().revoked_at is None


def test_without_a_token_of_the_form_nothing_is_revoked_or_made(made: Made) -> None:
    client = signed_in(Client(enforce_csrf_checks=True), "Onbeat admins")
    assert revoke(client, made.key).status_code == 403
    assert client.post(f"{KEYS}add/", NEW).status_code == 403
    assert ApiKey.objects.get().revoked_at is None


# ── The audit trail ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def deeds(noon: datetime) -> None:
    audit.record(who="ada", through="rest", action="job.create", subject="job:daily", now=noon)
    audit.record(who="bob", through="admin", action="job.pause", subject="job:weekly", note="<i>late</i>", now=noon)
    audit.record(
        who="eve", through="rest", action="execution.cancel", subject="execution:7", after={"n": 7077}, now=noon
    )


@pytest.mark.parametrize(
    ("query", "who"),
    [
        ("", ["eve", "bob", "ada"]),
        ("?through__exact=rest", ["eve", "ada"]),
        ("?action=job.pause", ["bob"]),
        ("?q=job:", ["bob", "ada"]),
        ("?q=daily", []),
        ("?at__gte=2026-06-16+00:00:00%2B00:00", []),
    ],
)
def test_entries_are_shown_newest_first_and_can_be_filtered(
    admin: Client, deeds: None, query: str, who: list[str]
) -> None:
    assert re.findall(r"field-who[^>]*>\s*(\w+)\s*<", text(admin, ENTRIES + query)) == who


def test_the_filter_offers_the_actions_there_are(admin: Client, deeds: None) -> None:
    page = text(admin, ENTRIES)
    assert re.findall(r"\?action=([\w.]+)", page) == ["execution.cancel", "job.create", "job.pause"]


def test_an_entry_shows_what_changed_and_escapes_what_people_wrote(admin: Client, deeds: None) -> None:
    page = "".join(text(admin, f"{ENTRIES}{entry.pk}/change/") for entry in AuditEntry.objects.all())
    assert "7077" in page
    assert "<i>late" not in page + text(admin, ENTRIES)


def test_an_entry_can_be_neither_made_nor_changed_nor_deleted(admin: Client, deeds: None) -> None:
    entry = AuditEntry.objects.latest("pk")
    before = list(AuditEntry.objects.values())
    for address in ("add/", f"{entry.pk}/change/", f"{entry.pk}/delete/"):
        assert admin.post(ENTRIES + address, {"who": "nobody", "post": "yes"}).status_code == 403
    admin.post(ENTRIES, {"action": "delete_selected", "_selected_action": [entry.pk], "post": "yes"})
    assert list(AuditEntry.objects.values()) == before


def test_the_list_counts_no_entries(admin: Client, deeds: None) -> None:
    with CaptureQueriesContext(connection) as queries:
        text(admin, f"{ENTRIES}?action=job.pause")
    assert [query["sql"] for query in queries if "COUNT(*)" in query["sql"] and "audit" in query["sql"]] == []
