"""The pictures of the documentation: make screenshots

A platform of its own in a temporary folder, filled with the lively demo, and headless Chromium that reaches 127.0.0.1
alone. No beat and no worker runs: their rows are part of the demo, and are kept fresh while the pictures are taken.
"""

import contextlib
import secrets
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, expect

from launcher import browser
from launcher.folders import ROOT
from launcher.refusal import Refusal
from tests.browser import PHONE, Chromium
from tests.platform import Platform
from tests.waiting import wait_until

FOLDER = ROOT / "docs" / "images"
_ZONE = "Europe/Berlin"
_WIDTH = 1360
_NAME = "admin"
_JOBS, _EXECUTIONS = "/admin/onbeat_jobs/job/", "/admin/onbeat_executions/execution/"


@dataclass(frozen=True)
class Shot:
    name: str
    go: Callable[["Visit"], None]  # to what it shows
    height: int = 900  # as much of the page as is shown; 0: all of it
    width: int = _WIDTH
    is_dark: bool = False


@dataclass
class Visit:
    page: Page
    url: str

    def see(self, path: str) -> None:
        self.page.goto(self.url + path)
        self.page.wait_for_load_state("networkidle")

    def follow(self, text: str) -> None:
        self.page.get_by_role("link", name=text, exact=True).first.click()
        self.page.wait_for_load_state("networkidle")


def _dashboard(visit: Visit) -> None:
    visit.see("/admin/")


def _jobs(visit: Visit) -> None:
    visit.see(_JOBS)


def _job(visit: Visit) -> None:
    visit.see(f"{_JOBS}?search=crm.sync-contacts")
    visit.follow("crm.sync-contacts")


def _new_job(visit: Visit) -> None:
    visit.see(f"{_JOBS}add/")
    page = visit.page
    page.fill("#id_key", "billing.send-reminders")
    page.fill("#id_task", "onbeat.echo")
    page.fill("#id_cron", "30 8 * * mon-fri")
    page.fill("#id_timezone", "America/New_York")
    expect(page.locator("[data-check]")).to_contain_text("New York")
    page.wait_for_load_state("networkidle")
    page.evaluate("document.activeElement.blur()")


def _executions(visit: Visit) -> None:
    visit.see(f"{_EXECUTIONS}?queue=billing")


def _execution(visit: Visit) -> None:
    visit.see("/admin/dead-letters/")
    visit.follow("A sample")


def _running(visit: Visit) -> None:
    visit.see(f"{_EXECUTIONS}?state=RUNNING&job=search.rebuild-index")
    visit.page.locator("tbody a").first.click()
    visit.page.wait_for_load_state("networkidle")


def _dead_letters(visit: Visit) -> None:
    visit.see("/admin/dead-letters/")


def _queues(visit: Visit) -> None:
    visit.see("/admin/queues/")
    expect(visit.page.get_by_text("Broker away")).to_have_count(0)


SHOTS = [
    Shot("dashboard", _dashboard, height=0),
    Shot("dashboard-dark", _dashboard, height=0, is_dark=True),
    Shot("jobs", _jobs, height=1000),
    Shot("job", _job, height=1010),
    Shot("new-job", _new_job, height=980),
    Shot("executions", _executions),
    Shot("execution", _execution, height=1150),
    Shot("execution-running", _running),
    Shot("dead-letters", _dead_letters, height=620),
    Shot("queues", _queues, height=620),
    Shot("dashboard-phone", _dashboard, width=PHONE, height=1300),
    Shot("jobs-phone", _jobs, width=PHONE, height=1300),
]


def main() -> int:
    program = browser.find()
    if program is None:
        raise Refusal(f"There is no Chromium on this machine. {browser.HOW_TO_GET_IT}")
    began = time.monotonic()
    FOLDER.mkdir(parents=True, exist_ok=True)
    chromium = Chromium(program)
    password = secrets.token_urlsafe(12)
    try:
        with lively_platform(password) as url:
            cookies = _sign_in(chromium, url, password)
            for shot in SHOTS:
                _take(chromium, shot, url, cookies)
    finally:
        chromium.close()
    size = sum(file.stat().st_size for file in FOLDER.glob("*.png"))
    print(f"{len(SHOTS)} pictures, {size / 1e6:.1f} MB, in {time.monotonic() - began:.0f} s: {FOLDER}")
    return 0


@contextlib.contextmanager
def lively_platform(password: str) -> Iterator[str]:
    """The address of its web process, whose admin has this password."""
    with tempfile.TemporaryDirectory(prefix="onbeat-screenshots-") as folder:
        platform = Platform(Path(folder), is_full=False)
        for name in ("ONBEAT_WORKERS_HEARTBEAT_SECONDS", "ONBEAT_WORKERS_LOST_AFTER_SECONDS"):
            del platform.environment[name]
        platform.environment |= {
            # Named one by one: whatever the caller's environment names is left alone.
            "DATABASE_URL": f"sqlite://{folder}/onbeat.sqlite3",
            "CELERY_BROKER_URL": f"folder://{folder}/broker",
            "REDIS_URL": "",
            "ONBEAT_EXECUTIONS_PREFIX": "onbeat.",
            "ONBEAT_CONSOLE_LABEL": "Demo",
            "ONBEAT_CONSOLE_FLOWER_URL": "http://127.0.0.1:5555",
            "ONBEAT_ADMIN_PASSWORD": password,
        }
        with platform:
            platform.manage("prepare")
            demo = platform.start("demo", [sys.executable, "-m", "examples.lively_demo", "--stay"])
            wait_until(lambda: "signs of life" in demo.output() or not demo.is_running(), what="the demo is there")
            if not demo.is_running():
                raise Refusal(f"The demo could not be made. It said:\n{demo.output()}")
            yield platform.web()


def _sign_in(chromium: Chromium, url: str, password: str) -> Any:
    window = chromium.window()
    try:
        window.log_in(url, _NAME, password)
        window.page.wait_for_url(f"{url}/admin/")
        return window.context.cookies()
    finally:
        window.close()


def _take(chromium: Chromium, shot: Shot, url: str, cookies: Any) -> None:
    window = chromium.window(width=shot.width, is_dark=shot.is_dark, timezone=_ZONE)
    page = window.page
    try:
        window.context.add_cookies(cookies)
        page.set_viewport_size({"width": shot.width, "height": shot.height or 900})
        shot.go(Visit(page, url))
        _settle(page)
        if not shot.height:  # and not a picture of a page that is scrolled: the menu would end half-way
            height = page.evaluate("document.documentElement.scrollHeight")
            page.set_viewport_size({"width": shot.width, "height": height})
        page.screenshot(path=FOLDER / f"{shot.name}.png", animations="disabled")
        if problems := window.problems():
            raise Refusal(f"{shot.name}: " + "; ".join(problems))
    finally:
        window.close()


def _settle(page: Page) -> None:
    """Fonts are there, and nobody points at anything."""
    page.evaluate("document.fonts.ready")
    page.mouse.move(0, 0)


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except Refusal as refused:
        raise SystemExit(str(refused)) from None
