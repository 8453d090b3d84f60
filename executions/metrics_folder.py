"""The folder through which a process and its children count together.

Owns its life, and what becomes of the counts of a child that has ended: they are added to one file, so that nothing
counted is lost and a pool that renews its children every thousand tasks does not fill the disk. Invariant: one scrape
at a time reads and sweeps the folder, whichever of several web processes answers it.
"""

import atexit
import fcntl
import os
import shutil
import tempfile
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

_PREFIX = "onbeat-metrics-"
_OF_THE_ENDED = "0"  # no process has this number
_LOCK_FILE = "one-at-a-time"
_lock = threading.Lock()


def begin() -> str:
    """A folder for this process and its children, removed when it ends. Those of processes that were killed go now."""
    for left in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        pid = left.name.removeprefix(_PREFIX).partition("-")[0]
        with suppress(OSError):
            if pid.isdigit() and not is_alive(int(pid)) and left.stat().st_uid == os.getuid():
                shutil.rmtree(left, ignore_errors=True)
    folder, owner = tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"), os.getpid()
    atexit.register(_remove, folder, owner)
    return folder


def _remove(folder: str, owner: int) -> None:
    if os.getpid() == owner:  # a child may end in an orderly way as well
        shutil.rmtree(folder, ignore_errors=True)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def families(folder: str) -> Iterator[Any]:
    from prometheus_client import multiprocess

    collector: Any = multiprocess.MultiProcessCollector

    if not Path(folder).is_dir():  # it was taken away: what is counted here is lost
        return
    with _alone_in(Path(folder)):
        _sweep(Path(folder))
        found = list(collector.merge(map(str, _files(Path(folder), "*.db")), accumulate=True))
    yield from found


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Among the threads of this process, and the processes that share the folder."""
    with _lock, (folder / _LOCK_FILE).open("a") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)  # until the file is closed; one that is forked meanwhile does not hold it
        yield


def _files(folder: Path, pattern: str) -> list[Path]:
    """But for those that were made this moment, or by a process that was killed then: there is nothing in them yet."""
    return sorted(file for file in folder.glob(pattern) if file.stat().st_size)


def _sweep(folder: Path) -> None:
    """Add up the files of processes that have ended, kind by kind."""
    ended: dict[str, list[Path]] = {}
    for file in _files(folder, "*_*.db"):
        kind, _, pid = file.stem.rpartition("_")
        if pid.isdigit() and pid != _OF_THE_ENDED and not is_alive(int(pid)):
            ended.setdefault(kind, []).append(file)
    for kind, files in ended.items():
        if not kind.startswith("gauge"):
            _add_up(folder / f"{kind}_{_OF_THE_ENDED}.db", files)
        for file in files:
            file.unlink(missing_ok=True)


def _add_up(total: Path, files: Iterable[Path]) -> None:
    from prometheus_client import mmap_dict

    file_of_counts: Any = mmap_dict.MmapedDict

    sums: dict[str, float] = {}
    for file in (*([total] if total.exists() else []), *files):
        for key, value, _, _ in file_of_counts.read_all_values_from_file(str(file)):
            sums[key] = sums.get(key, 0.0) + value
    fresh = total.with_suffix(".new")
    fresh.unlink(missing_ok=True)
    written = file_of_counts(str(fresh))
    for key, value in sums.items():
        written.write_value(key, value, 0.0)
    written.close()
    fresh.replace(total)  # all at once
