"""Prometheus and promtool for the tests of the alert rules: those of this machine, else Debian's package, unpacked.

Unpacked and not installed: no server is started, no user is made, and nothing outside the checkout is touched. As with
the browser, that there is none is an answer, not an error.
"""

import shutil
from dataclasses import dataclass
from pathlib import Path

from launcher import packages
from launcher.folders import ROOT
from launcher.progress import Say
from launcher.service_record import ServicesUnavailable

PACKAGE = "prometheus"
UNPACKED = ROOT / "var" / "prometheus"  # whatever DATA_DIR says: it belongs to the checkout, as .venv does
MISSING = "There is no Prometheus on this machine for the tests of the alert rules."
HOW_TO_GET_IT = (
    "`./onbeat test` unpacks Debian's package where there is apt-get; "
    f"else put `prometheus` and `promtool` on the PATH (`brew install {PACKAGE}`)."
)


@dataclass(frozen=True)
class Programs:
    prometheus: Path
    promtool: Path


def find() -> Programs | None:
    """Both, of the same place."""
    on_path = shutil.which("promtool")
    for folder in ([Path(on_path).parent] if on_path else []) + [UNPACKED / "usr" / "bin"]:
        programs = Programs(folder / "prometheus", folder / "promtool")
        if programs.prometheus.exists() and programs.promtool.exists():
            return programs
    return None


def provide(log: Path, say: Say) -> Programs | None:
    """The programs, unpacked if they were missing and can be had. If that fails it is said, and there are none."""
    if (found := find()) or not packages.can_unpack():
        return found
    try:
        packages.unpack(PACKAGE, UNPACKED, log, say)
    except ServicesUnavailable as reason:
        say(str(reason))
    return find()
