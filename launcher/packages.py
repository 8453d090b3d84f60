"""Installing packages of Debian and Ubuntu without letting them start a server of their own, or only unpacking one.

Whatever `/usr/sbin/policy-rc.d` was before, it is again afterwards, also when the installation fails or an earlier
one was killed half-way.
"""

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from launcher.processes import tail
from launcher.progress import Say, step
from launcher.service_record import ServicesUnavailable

POLICY = Path("/usr/sbin/policy-rc.d")
_HOLD_BACK = "#!/bin/sh\n# Written by onbeat for the length of one installation.\nexit 101\n"


def can_install() -> bool:
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


def install(packages: Sequence[str], log: Path, say: Say) -> None:
    names = " and ".join([", ".join(packages[:-1]), packages[-1]] if len(packages) > 1 else packages)
    with default_servers_held_back(POLICY), step(say, f"Installing {names} with apt-get"):
        # A list that cannot be renewed is no reason to stop: an older one may still do.
        _apt_get(["update"], log)
        if _apt_get(["install", "--yes", "--no-install-recommends", *packages], log) != 0:
            raise ServicesUnavailable(
                f"apt-get could not install {names}; install what is missing by hand, then try again. "
                f"The log is {log}, and it ends with:\n{tail(log, 8)}"
            )
        _keep_from_starting_at_boot(packages, log)


def can_unpack() -> bool:
    """Any user may: nothing is installed."""
    return shutil.which("apt-get") is not None and shutil.which("dpkg-deb") is not None


def unpack(package: str, into: Path, log: Path, say: Say) -> None:
    """The files of one package, without what it depends on and without running anything of it."""
    into.parent.mkdir(parents=True, exist_ok=True)
    # Beside its place, so that it is there whole or not at all.
    with (
        step(say, f"Fetching {package} with apt-get"),
        tempfile.TemporaryDirectory(dir=into.parent, prefix=f"{package}-") as scratch,
    ):
        if can_install():
            _apt_get(["update"], log)
        files = Path(scratch, "files")
        if _apt_get(["download", package], log, folder=scratch) != 0 or not _unpacked(Path(scratch), files, log):
            raise ServicesUnavailable(
                f"apt-get could not fetch {package}. The log is {log}, and it ends with:\n{tail(log, 8)}"
            )
        shutil.rmtree(into, ignore_errors=True)
        files.rename(into)


def _unpacked(folder: Path, files: Path, log: Path) -> bool:
    (package,) = folder.glob("*.deb")
    with log.open("a") as output:
        command = ["dpkg-deb", "--extract", str(package), str(files)]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, check=False)
    return done.returncode == 0


@contextmanager
def default_servers_held_back(policy: Path) -> Iterator[None]:
    """Package scripts ask this file whether they may start a server; 101 means no."""
    # One installation at a time on this machine, or the second would restore what the first put there.
    folder = os.open(policy.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield from _with_policy_replaced(policy)
    finally:
        os.close(folder)


def _with_policy_replaced(policy: Path) -> Iterator[None]:
    kept = policy.with_name(policy.name + ".kept-by-onbeat")
    left_over = policy.is_file() and policy.read_text(errors="replace") == _HOLD_BACK
    if not left_over and os.path.lexists(policy):
        policy.replace(kept)
    try:
        policy.write_text(_HOLD_BACK)
        policy.chmod(0o755)
        yield
    finally:
        if os.path.lexists(kept):
            kept.replace(policy)
        else:
            policy.unlink(missing_ok=True)


def _apt_get(arguments: Sequence[str], log: Path, folder: str | None = None) -> int:
    command = ["apt-get", "-q", "-o", "DPkg::Lock::Timeout=120", *arguments]
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    with log.open("a") as output:
        # In a session of its own: Ctrl-C must not leave packages half installed.
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            return process.wait()
        except KeyboardInterrupt:
            process.wait()
            raise


def _keep_from_starting_at_boot(packages: Sequence[str], log: Path) -> None:
    """The package enables its default server for the next boot. We only wanted its programs."""
    if shutil.which("systemctl"):
        with log.open("a") as output:
            command = ["systemctl", "disable", *packages]
            subprocess.run(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, check=False)
