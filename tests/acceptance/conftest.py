"""Windows of a browser for the tests that ask for them, which are marked `browser` by that.

Without a browser they are skipped; with CI=true they fail, since green must mean all of them.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from launcher import browser
from tests.acceptance.room import Room, a_room
from tests.browser import Browse, Chromium, Window

_HAS_FAILED = pytest.StashKey[bool]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "browse" in getattr(item, "fixturenames", ()):
            item.add_marker("browser")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report = yield
    if report.failed:
        item.stash[_HAS_FAILED] = True
    return report


@pytest.fixture(scope="package")
def chromium() -> Iterator[Chromium]:
    """One for all of these tests, and not for those of other folders: they use Django's ORM, which it stands in
    the way of."""
    program = browser.find()
    if program is None:
        say = pytest.fail if os.environ.get("CI", "").lower() in ("true", "1") else pytest.skip
        say(f"There is no Chromium on this machine. {browser.HOW_TO_GET_IT}")
    started = Chromium(program)
    yield started
    started.close()


@pytest.fixture
def browse(request: pytest.FixtureRequest, chromium: Chromium, tmp_path: Path) -> Iterator[Browse]:
    """Opens windows. The test fails if anything went wrong in one of them; then their pages are kept."""
    windows: list[Window] = []

    def open_window(**looks: object) -> Window:
        windows.append(chromium.window(**looks))
        return windows[-1]

    yield open_window
    try:
        problems = [problem for window in windows for problem in window.problems()]
        if problems or request.node.stash.get(_HAS_FAILED, False):
            for number, window in enumerate(windows):
                print(window.keep(tmp_path, f"window-{number}"))  # noqa: T201 - pytest shows it on failure
    finally:
        for window in windows:
            window.close()
    assert problems == []


@pytest.fixture(scope="package")
def room(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Room]:
    """One for all tests that look at pages: it takes long to start."""
    with a_room(tmp_path_factory) as started:
        yield started
