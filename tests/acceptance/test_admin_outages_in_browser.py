"""The admin while the broker or Redis hangs: a badge, and never a broken page."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from access.roles import Role
from chaos.proxy import Proxy
from tests.acceptance.room import Room
from tests.browser import Browse

pytestmark = pytest.mark.full
PAGES = ["/admin/", "/admin/onbeat_jobs/job/", "/admin/onbeat_executions/execution/", "/admin/dead-letters/"]


@pytest.fixture(scope="module")
def cut_off(room: Room) -> Iterator[Room]:
    """The same platform by a web process whose lines to broker and Redis take everything and answer nothing."""
    environment = room.crew.platform.environment
    with Proxy(environment["CELERY_BROKER_URL"]) as broker, Proxy(environment["REDIS_URL"]) as redis:
        broker.freeze()
        redis.freeze()
        url = room.crew.platform.web("web-cut-off", CELERY_BROKER_URL=broker.url, REDIS_URL=redis.url)
        yield room.at(url)


def test_pages_open_and_the_queues_have_a_badge(cut_off: Room, browse: Browse) -> None:
    page = cut_off.let_in(browse(), Role.OPERATOR, path="/admin/queues/")
    expect(page.locator("#main .ob-pill", has_text="Broker away")).to_be_visible()
    expect(page.get_by_role("row").filter(has_text="default").first).to_be_visible()
    for path in PAGES:
        answer = page.goto(cut_off.url + path)
        assert answer is not None
        assert answer.ok


def test_what_is_asked_for_meanwhile_is_done_by_a_beat(room: Room, cut_off: Room, browse: Browse) -> None:
    key = "asked-for-while-cut-off"
    room.ask(f"definitions.create(key={key!r}, task='onbeat.echo').key")
    page = cut_off.let_in(browse(), Role.OPERATOR, path=f"/admin/onbeat_jobs/job/?search={key}")
    page.get_by_role("button", name=f"Run {key} now").click()
    expect(page.get_by_text(f"{key} was asked to run.")).to_be_visible()
    execution = str(room.ask(f"[str(e.pk) for e in Execution.objects.filter(job__key={key!r})][0]"))
    room.crew.reaches(execution, "SUCCEEDED")
