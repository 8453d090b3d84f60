"""Where the launcher keeps its things, and who may use them at a time."""

import fcntl
import os
import secrets
from pathlib import Path
from typing import IO

from launcher.refusal import Refusal

ROOT = Path(__file__).resolve().parent.parent


def data_dir() -> Path:
    """The folder for all data, made if needed."""
    path = Path(os.environ.get("DATA_DIR") or ROOT / "var").expanduser().resolve()
    try:
        path.mkdir(parents=True, exist_ok=True)
        probe = path / ".writable"
        probe.touch()
        probe.unlink(missing_ok=True)  # another command may look at the same moment
    except OSError as error:
        raise Refusal(
            f"The folder {path} cannot be written to ({error.strerror}); "
            "set DATA_DIR to a folder that you may write to."
        ) from None
    return path


def hold(path: Path) -> IO[str]:
    """Take a data folder for this process; the kernel gives it back however the process ends."""
    lock = (path / "onbeat.lock").open("a+", encoding="utf-8")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.seek(0)
        holder = lock.read().strip() or "another process"
        raise Refusal(
            f"Onbeat runs on the data in {path} already ({holder}); stop that one first, "
            "or set DATA_DIR to another folder."
        ) from None
    say_holder(lock, f"process {os.getpid()}")
    return lock


def say_holder(lock: IO[str], text: str) -> None:
    """What a second start is told about this one."""
    lock.seek(0)
    lock.truncate()
    lock.write(text)
    lock.flush()


def keep_secret_key(path: Path) -> None:
    """Make the installation's own secret key, once."""
    _keep(path / "secret_key", secrets.token_urlsafe(48))


def keep_flower_password(path: Path) -> Path:
    """Make the password by which people get into Flower, once; the file that holds it."""
    file = path / "flower_password"
    _keep(file, secrets.token_urlsafe(18))
    return file


def _keep(file: Path, text: str) -> None:
    if not file.exists():
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as content:
            content.write(text)
