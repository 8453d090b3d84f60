"""The pages of the admin for everybody: on a phone, in the dark, by keyboard and by screen reader."""

import os
import uuid
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.acceptance import looks
from tests.acceptance.room import Room
from tests.browser import DESKTOP, PHONE, Browse
from tests.tiers import once_full

pytestmark = once_full
PAGES = {
    "dashboard": "/admin/",
    "jobs": "/admin/onbeat_jobs/job/",
    "job": "/admin/onbeat_jobs/job/{job}/change/",
    "new job": "/admin/onbeat_jobs/job/add/",
    "edit": "/admin/onbeat_jobs/job/{job}/edit/",
    "run": "/admin/onbeat_jobs/job/{job}/run/",
    "pause": "/admin/onbeat_jobs/job/{job}/pause/",
    "backfill": "/admin/onbeat_jobs/job/{job}/backfill/",
    "archive": "/admin/onbeat_jobs/job/{job}/archive/",
    "versions": "/admin/onbeat_jobs/job/{job}/versions/",
    "executions": "/admin/onbeat_executions/execution/?when=any",
    "execution": "/admin/onbeat_executions/execution/{execution}/change/",
    "cancel": "/admin/onbeat_executions/execution/{execution}/cancel/",
    "replay": "/admin/onbeat_executions/execution/{execution}/replay/",
    "dead letters": "/admin/dead-letters/",
    "queues": "/admin/queues/",
    "beats": "/admin/onbeat_beat/beat/",
    "workers": "/admin/onbeat_workers/worker/",
    "hosts": "/admin/onbeat_callbacks/host/",
    "notifications": "/admin/onbeat_notifications/receiver/",
    "receiver": "/admin/onbeat_notifications/receiver/{receiver}/change/",
    "new receiver": "/admin/onbeat_notifications/receiver/add/",
    "edit receiver": "/admin/onbeat_notifications/receiver/{receiver}/edit/",
    "remove receiver": "/admin/onbeat_notifications/receiver/{receiver}/remove/",
    "API keys": "/admin/onbeat_access/apikey/",
    "new API key": "/admin/onbeat_access/apikey/add/",
    "audit trail": "/admin/onbeat_access/auditentry/",
    "users": "/admin/auth/user/",
    "groups": "/admin/auth/group/",
}


# Each width and each colour once; all four at length.
LOOKS = [(DESKTOP, False), (PHONE, True)]
if os.environ.get("TEST_LONG"):
    LOOKS += [(DESKTOP, True), (PHONE, False)]
_NAME_OF_FOCUS = "document.activeElement.getAttribute('aria-label') || document.activeElement.innerText"


@pytest.fixture(scope="module")
def seen(room: Room) -> dict[str, Any]:
    """A job with a past, and one of its executions."""
    key = f"looked-at-{uuid.uuid4().hex[:8]}"
    fields = {"key": key, "task": "onbeat.echo", "owner": "finance", "tags": ["nightly"], "kwargs": {"a": [1, None]}}
    room.ask(f"definitions.create(schedule=Cron('0 3 * * *', 'Europe/Berlin'), **{fields!r}).key")
    room.ask(f"definitions.pause({key!r}, reason='the bank is closed').key")
    room.ask(f"definitions.resume({key!r}).key")
    run = room.ask(f"runs.run({key!r}, delay=timedelta(hours=1)).execution_id")
    job = room.ask(f"[job.pk for job in definitions.Job.objects.filter(key={key!r})][0]")
    url = "https://hooks.example.com/services/T0P/S3CRET"
    create = "__import__('notifications.receivers', fromlist=['create']).create"
    receiver = room.ask(f"{create}({key!r}, template='slack', url={url!r}, jobs=[{key!r}, 'billing.*']).receiver.pk")
    return {"job": job, "execution": run, "receiver": receiver}


@pytest.mark.parametrize(("width", "is_dark"), LOOKS)
def test_every_page_is_legible_named_and_as_wide_as_its_screen(
    room: Room, browse: Browse, seen: dict[str, Any], width: int, is_dark: bool
) -> None:
    page = room.let_in(browse(width=width, is_dark=is_dark))
    found = {}
    for name, address in PAGES.items():
        page.goto(room.url + address.format(**seen))
        if problems := looks.problems(page):
            found[name] = problems
    assert found == {}


def test_a_list_that_a_browser_sees_for_the_first_time_is_measured_with_its_fonts(room: Room, browse: Browse) -> None:
    room.let_in(browse())  # so that the next window, which has loaded nothing yet, begins with the list
    page = room.let_in(browse(width=PHONE), path="/admin/auth/group/")
    page.wait_for_load_state("networkidle")
    assert looks.problems(page) == []


def test_the_entries_of_the_menu_are_read_out_without_the_names_of_their_icons(room: Room, browse: Browse) -> None:
    page = room.let_in(browse())
    for name in ("Jobs", "Executions", "Queues", "Audit trail"):
        expect(page.get_by_role("link", name=name, exact=True).first).to_be_visible()


def test_the_menu_and_the_first_button_are_reached_by_keyboard(room: Room, browse: Browse) -> None:
    page = room.let_in(browse(), path="/admin/onbeat_jobs/job/")
    reached: list[str] = []
    for _ in range(40):
        page.keyboard.press("Tab")
        reached.append(
            str(page.evaluate("document.activeElement.getAttribute('aria-label') || document.activeElement.innerText"))
        )
    assert any("Executions" in name for name in reached)
    assert "Show or hide the menu" in reached
    assert any("New job" in name for name in reached)


def test_a_page_without_its_script_still_shows_times_and_forms(
    room: Room, browse: Browse, seen: dict[str, Any]
) -> None:
    window = browse(allowed=["console.js"])
    page = room.let_in(window)
    page.route("**/console.js", lambda route: route.abort())
    page.goto(room.url + PAGES["job"].format(**seen))
    expect(page.locator("time").first).to_contain_text("UTC")
    page.goto(room.url + PAGES["new job"])
    expect(page.get_by_label("Cron", exact=False).first).to_be_visible()
