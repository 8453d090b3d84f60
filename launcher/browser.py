"""Chromium for the tests of the pages: the one of this machine, else Debian's package where we may install it.

It costs nothing when there is one. That there is none is an answer, not an error: the tests which need it say what
that means for them.
"""

import shutil
from pathlib import Path

from launcher import packages
from launcher.progress import Say
from launcher.service_record import ServicesUnavailable

_PACKAGE = "chromium"
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_ELSEWHERE = (
    Path("/Applications/Chromium.app/Contents/MacOS/Chromium"),
    Path("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"),
)
MISSING = "There is no Chromium on this machine for the tests in a browser."
HOW_TO_GET_IT = f"Install it with `sudo apt-get install {_PACKAGE}` or `brew install --cask {_PACKAGE}`."


def find() -> Path | None:
    on_path = (shutil.which(name) for name in _NAMES)
    return next((Path(found) for found in on_path if found), next((path for path in _ELSEWHERE if path.exists()), None))


def provide(log: Path, say: Say) -> Path | None:
    """The browser, installed if it was missing and may be. If that fails it is said, and there is none."""
    if (found := find()) or not packages.can_install():
        return found
    try:
        packages.install([_PACKAGE], log, say)
    except ServicesUnavailable as reason:
        say(str(reason))
    return find()
