"""The admin in a real browser, on a platform that runs."""

import uuid

import pytest
from playwright.sync_api import expect

from access.roles import Role
from tests.acceptance.room import Room
from tests.browser import PHONE, Browse
from tests.tiers import once_full

pytestmark = once_full
JOBS = "/admin/onbeat_jobs/job/"


@pytest.fixture
def key(room: Room) -> str:
    """Of a job of the test's own."""
    key = f"job-{uuid.uuid4().hex[:8]}"
    room.ask(f"definitions.create(key={key!r}, task='onbeat.echo').key")
    return key


@pytest.mark.parametrize("looks", [{}, {"width": PHONE, "is_dark": True, "timezone": "Asia/Kathmandu"}], ids=str)
def test_a_person_logs_in_and_sees_the_list_of_jobs(
    room: Room, browse: Browse, key: str, looks: dict[str, object]
) -> None:
    page = room.let_in(browse(**looks), Role.VIEWER, path=JOBS)
    expect(page.get_by_role("link", name=key, exact=True)).to_be_visible()


def test_who_has_a_role_gets_in(room: Room, browse: Browse) -> None:
    page = room.let_in(browse(), Role.VIEWER)
    expect(page.get_by_text(room.person(Role.VIEWER).name).first).to_be_visible()


def test_a_wrong_password_shows_an_error_and_lets_nobody_in(room: Room, browse: Browse) -> None:
    window = browse()
    window.log_in(room.url, room.person().name, "a guess")
    expect(window.page.get_by_text("Please enter the correct username and password")).to_be_visible()
    window.page.goto(f"{room.url}{JOBS}")
    assert "/login/" in window.page.url


def test_all_that_the_pages_load_is_on_this_machine(room: Room, browse: Browse, key: str) -> None:
    window = browse()
    page = room.let_in(window, path=JOBS)
    page.get_by_role("link", name=key, exact=True).click()
    expect(page.get_by_text(key).first).to_be_visible()
    page.goto(f"{room.url}/api/docs")
    page.wait_for_load_state("networkidle")
    assert window.hosts == {"127.0.0.1"}
