"""The browser of the tests itself: what goes wrong in a window is noted, and nothing beyond this machine is reached."""

from pathlib import Path

import pytest

from tests.browser import PHONE, Browse
from tests.tiers import once_full
from tests.waiting import wait_until

pytestmark = once_full


def test_whoever_asks_for_windows_is_marked(browse: Browse, request: pytest.FixtureRequest) -> None:
    assert request.node.get_closest_marker("browser")


@pytest.mark.parametrize("host", ["example.com", "192.0.2.1", "127.0.0.2", "localhost"])
def test_nothing_but_the_own_address_is_reached_and_the_attempt_is_noted(browse: Browse, host: str) -> None:
    window = browse(allowed=[host])
    window.page.set_content(f"<img src='http://{host}/logo.png'>")
    wait_until(lambda: len(window.noted()) == 2, what="the request fails")
    assert window.noted() == [
        f"not on this machine: GET http://{host}/logo.png",
        f"failed: GET http://{host}/logo.png (net::ERR_NAME_NOT_RESOLVED)",
    ]
    assert window.problems() == []


@pytest.mark.parametrize(
    ("script", "problem"),
    [("console.error('no ink')", "console: no ink"), ("setTimeout(() => missing())", "missing is not defined")],
)
def test_what_a_script_gets_wrong_is_a_problem_unless_it_is_allowed(browse: Browse, script: str, problem: str) -> None:
    strict, lenient = browse(), browse(allowed=[problem])
    for window in (strict, lenient):
        window.page.set_content(f"<script>{script}</script>")
        wait_until(window.noted, what="the script runs")
    assert len(strict.problems()) == 1
    assert problem in strict.problems()[0]
    assert lenient.problems() == []
    strict.noted().clear()  # or this test would fail, as it should


def test_a_window_has_the_size_colours_and_timezone_that_were_asked_for(browse: Browse, tmp_path: Path) -> None:
    seen = "[innerWidth, matchMedia('(prefers-color-scheme: dark)').matches, new Date(0).getHours()]"
    assert browse().page.evaluate(seen) == [1440, False, 0]
    window = browse(width=PHONE, is_dark=True, timezone="Asia/Tokyo")
    assert window.page.evaluate(seen) == [390, True, 9]
    window.page.set_content("<h1>Kept</h1>")
    window.keep(tmp_path, "failed")
    assert "<h1>Kept</h1>" in (tmp_path / "failed-0.html").read_text()
    assert (tmp_path / "failed-0.png").read_bytes().startswith(b"\x89PNG")
