"""What a browser lets our pages do: all that they need, and nothing of what somebody puts into them."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.acceptance.room import Room
from tests.browser import Browse
from tests.tiers import once_full

pytestmark = once_full
WALK = [
    "/admin/",
    "/admin/onbeat_jobs/job/",
    "/admin/onbeat_jobs/job/add/",
    "/admin/onbeat_executions/execution/?when=any",
    "/admin/dead-letters/",
    "/admin/queues/",
    "/admin/onbeat_workers/worker/",
    "/admin/onbeat_access/apikey/add/",
    "/admin/onbeat_access/auditentry/",
    "/admin/auth/user/",
    "/admin/password_change/",
    "/api/docs",
]
# Kept over pages, for a violation may be told just before the next one.
LISTEN = """
document.addEventListener("securitypolicyviolation", (event) => {
  const told = JSON.parse(sessionStorage.told || "[]");
  told.push(`${location.pathname}: ${event.effectiveDirective} ${event.blockedURI} ${event.sample}`);
  sessionStorage.told = JSON.stringify(told);
});
"""


def violations(page: Page) -> list[str]:
    told: list[str] = page.evaluate("JSON.parse(sessionStorage.told || '[]')")
    return told


def test_all_pages_work_within_the_policy(room: Room, browse: Browse) -> None:
    window = browse()
    window.context.add_init_script(LISTEN)
    page = room.let_in(window)
    for address in WALK:
        page.goto(room.url + address)
        page.wait_for_load_state("networkidle")
    assert violations(page) == []


def test_the_theme_can_be_switched_and_people_log_out(room: Room, browse: Browse) -> None:
    window = browse()
    window.context.add_init_script(LISTEN)
    page, person = window.page, room.person()
    window.log_in(room.url, person.name, person.password)  # with a session of its own, to log out of
    page.wait_for_url(f"{room.url}/admin/")
    page.get_by_text(person.name).first.click()
    page.get_by_text("Dark", exact=True).click()
    expect(page.locator("html")).to_have_class(re.compile(r"\bdark\b"))
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_text(person.name)).to_have_count(0)
    page.goto(f"{room.url}/admin/")
    assert "/login/" in page.url
    assert violations(page) == []


def test_a_request_can_be_tried_on_the_page_of_the_api(room: Room, browse: Browse) -> None:
    window = browse()
    window.context.add_init_script(LISTEN)
    page = room.let_in(window, path="/admin/")
    page.goto(f"{room.url}/api/docs")
    page.locator("#operations-v1-v1_caller_retrieve, [id*=caller]").first.locator(".opblock-summary-control").click()
    page.get_by_role("button", name="Try it out").click()
    page.get_by_role("button", name="Execute").click()
    expect(page.locator(".live-responses-table .response-col_status").nth(1)).to_contain_text("200")
    assert violations(page) == []


@pytest.mark.parametrize("address", ["/admin/", "/api/docs"])
def test_a_script_that_got_into_a_page_does_not_run_and_reaches_nobody(
    room: Room, browse: Browse, address: str
) -> None:
    window = browse(allowed=["Content Security Policy", r"\(csp\)$"])
    window.context.add_init_script(LISTEN)
    page = room.let_in(window)
    page.goto(room.url + address)
    page.evaluate(
        """() => {
          const script = document.createElement("script");
          script.textContent = "window.ran = true";
          document.body.append(script);
          const add = (html) => document.body.insertAdjacentHTML("beforeend", html);
          add("<button id='pressed' onclick='window.ran = 1'>press</button>");
          add("<a id='inlined' href='javascript:window.ran = 2'>go</a>");
          document.getElementById("pressed").click();
          document.getElementById("inlined").click();
          document.body.append(Object.assign(document.createElement("script"), { src: "http://127.0.0.1:1/other.js" }));
          return fetch("http://127.0.0.1:1/taken").catch(() => {});
        }"""
    )
    page.wait_for_function("JSON.parse(sessionStorage.told || '[]').length >= 4")
    assert page.evaluate("window.ran") is None
    assert {told.split(": ")[1].split()[0] for told in violations(page)} >= {
        "script-src-elem",
        "script-src-attr",
        "connect-src",
    }
