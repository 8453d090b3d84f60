"""Headless Chromium for tests: one for all of them, and for each test windows that remember nothing.

Invariant: no window reaches anything but 127.0.0.1, and whatever went wrong in one (an error of a script, a line in the
console, a request that failed or wanted to go elsewhere) is a problem of its test.
"""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, ConsoleMessage, Page, Playwright, Request, Response, expect, sync_playwright

HOME = "127.0.0.1"
DESKTOP, PHONE = 1440, 390
_HEIGHTS = {DESKTOP: 900, PHONE: 844}
_WAIT_MILLISECONDS = 30_000  # as `wait_until`: it only ends a test that hangs
_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-proxy-server",
    # Holds for addresses in numbers too.
    f"--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE {HOME}",
]
_OWN_WORDS_FOR_A_REQUEST = "Failed to load resource"  # which is noted with its address as it fails


class Chromium:
    """Starts with the first window. As long as it runs, this thread has an event loop, and Django's ORM refuses it."""

    def __init__(self, program: Path) -> None:
        self._program = program
        self._playwright: Playwright | None = None
        self._browser: Browser | None = None

    def window(self, **looks: Any) -> "Window":
        return Window(self._started(), **looks)

    def close(self) -> None:
        if self._browser:
            self._browser.close()
        if self._playwright:
            self._playwright.stop()

    def _started(self) -> Browser:
        if self._browser is None:
            expect.set_options(timeout=_WAIT_MILLISECONDS)
            self._playwright = sync_playwright().start()
            self._browser = self._playwright.chromium.launch(
                executable_path=self._program, headless=True, args=_ARGUMENTS
            )
        return self._browser


class Window:
    """A page with cookies, size, colours and timezone of its own. `allowed`: what may go wrong, as patterns."""

    def __init__(
        self,
        browser: Browser,
        *,
        width: int = DESKTOP,
        is_dark: bool = False,
        timezone: str = "UTC",
        allowed: Sequence[str] = (),
    ) -> None:
        self._noted: list[str] = []
        self.hosts: set[str | None] = set()  # that were asked for anything
        self._allowed = [re.compile(pattern) for pattern in allowed]
        self.context = browser.new_context(
            viewport={"width": width, "height": _HEIGHTS.get(width, 900)},
            color_scheme="dark" if is_dark else "light",
            timezone_id=timezone,
            locale="en-GB",
            reduced_motion="reduce",
        )
        self.context.set_default_timeout(_WAIT_MILLISECONDS)
        self.context.on("console", self._on_console)
        self.context.on("weberror", lambda error: self._noted.append(f"error of a script: {error.error}"))
        self.context.on("request", self._on_request)
        self.context.on("requestfailed", self._on_failed_request)
        self.context.on("response", self._on_response)
        self.page: Page = self.context.new_page()

    def log_in(self, url: str, name: str, password: str) -> None:
        """By the form, as a person does."""
        if "/login/" not in self.page.url:
            self.page.goto(f"{url}/admin/login/?next=/admin/")
        self.page.fill("input[name=username]", name)
        self.page.fill("input[name=password]", password)
        self.page.click("form [type=submit]")

    def noted(self) -> list[str]:
        """All that went wrong so far."""
        self.context.cookies()  # any question to the browser: what it said before is heard when it answers
        return self._noted

    def problems(self) -> list[str]:
        """What was not allowed to."""
        return [noted for noted in self.noted() if not any(pattern.search(noted) for pattern in self._allowed)]

    def keep(self, folder: Path, name: str) -> str:
        """A picture and the HTML of each page, for whoever reads of a failure; where they are."""
        kept = []
        for number, page in enumerate(self.context.pages):
            file = folder / f"{name}-{number}"
            page.screenshot(path=file.with_suffix(".png"), full_page=True)
            file.with_suffix(".html").write_text(page.content(), encoding="utf-8")
            kept.append(f"{page.url}: {file}.png and .html")
        return "\n".join(kept)

    def close(self) -> None:
        self.context.close()

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type == "error" and not message.text.startswith(_OWN_WORDS_FOR_A_REQUEST):
            self._noted.append(f"console: {message.text} ({message.location['url']})")

    def _on_request(self, request: Request) -> None:
        parts = urlsplit(request.url)
        if parts.scheme in ("data", "blob"):
            return
        self.hosts.add(parts.hostname)
        if parts.hostname != HOME:
            self._noted.append(f"not on this machine: {request.method} {request.url}")

    def _on_failed_request(self, request: Request) -> None:
        # Whoever goes to another page breaks off what the one before was still loading.
        if request.failure != "net::ERR_ABORTED":
            self._noted.append(f"failed: {request.method} {request.url} ({request.failure})")

    def _on_response(self, response: Response) -> None:
        if response.status >= 400:
            self._noted.append(f"{response.status}: {response.request.method} {response.url}")


Browse = Callable[..., Window]  # opens one, of the looks that are named
