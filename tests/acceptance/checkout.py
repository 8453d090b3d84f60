"""A fresh checkout of the project in a folder of its own, started through `./onbeat` as a newcomer would."""

import contextlib
import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.platform import ROOT
from tests.waiting import wait_until

_TOLD_BY_CALLER = ("DATABASE_URL", "REDIS_URL", "CELERY_BROKER_URL", "ONBEAT_ENV_FILE", "DATA_DIR", "PORT")


class Checkout:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "var"
        for name in subprocess.check_output(
            ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, text=True
        ).split("\n"):
            if name and (ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, folder / name)
        # Installing takes a minute and is what every first `./onbeat test` does anyway.
        (folder / ".venv").symlink_to(Path(sys.prefix))
        self.started: list[subprocess.Popen[str]] = []

    def onbeat(self, *words: str, **environment: str) -> "subprocess.Popen[str]":
        kept = {name: value for name, value in os.environ.items() if name not in _TOLD_BY_CALLER}
        process = subprocess.Popen(
            [sys.executable, str(self.folder / "onbeat"), *words],
            cwd=self.folder.parent,
            env={**kept, "PYTHONUNBUFFERED": "1", **environment},
            stdin=subprocess.DEVNULL,
            stdout=(self.folder.parent / f"onbeat-{len(self.started)}.log").open("w"),
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.started.append(process)
        return process

    def refusal(self, *words: str, **environment: str) -> str:
        """What a start that must fail says."""
        process = self.onbeat(*words, **environment)
        assert process.wait(timeout=60) == 1
        return self.output(process)

    def output(self, process: "subprocess.Popen[str]") -> str:
        number = self.started.index(process)
        return (self.folder.parent / f"onbeat-{number}.log").read_text(encoding="utf-8")

    def address(self, process: "subprocess.Popen[str]", name: str = "admin") -> str:
        """An address that the start has printed when it was ready."""

        def printed() -> str:
            assert process.poll() is None, self.output(process)
            lines = (line.split() for line in self.output(process).splitlines())
            return next((words[1] for words in lines if len(words) == 2 and words[0] == name), "")

        return wait_until(printed, what=f"the {name} address is printed", seconds=90)

    def close(self) -> None:
        for process in self.started:
            kill_all(family(process.pid))
            process.wait()


def family(pid: int) -> list[int]:
    """A process and all its living descendants."""
    listing = subprocess.check_output(["ps", "-eo", "pid=,ppid="], text=True)
    parents = [tuple(map(int, line.split())) for line in listing.splitlines()]
    found = [pid]
    for member in found:
        found += [child for child, parent in parents if parent == member]
    return found


def kill_all(pids: list[int]) -> None:
    """kill -9, the eldest first, so that nobody starts a new one."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def is_alive(pid: int) -> bool:
    listing = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return bool(listing.stdout.strip()) and not listing.stdout.startswith("Z")


def get(address: str, path: str) -> tuple[int, Any]:
    host = address.removeprefix("http://").split("/")[0]
    connection = http.client.HTTPConnection(host, timeout=10)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        body = response.read()
        is_json = response.headers.get_content_type() == "application/json"
        return response.status, json.loads(body) if is_json else body.decode()
    finally:
        connection.close()
