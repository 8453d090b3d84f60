"""What handlers did, kept outside the product: one file for each process, one line for each thing that happened.

Invariant: a line is written in one call before the handler goes on, so a process that is killed has told all that it
did. No Django, no database, no broker.
"""

import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = "CHAOS_LEDGER"


def note(**facts: Any) -> None:
    """Append a line. The clock is that of the machine, which no fault moves."""
    line = json.dumps({"at": time.time(), "pid": os.getpid(), **facts}) + "\n"
    path = Path(os.environ[FOLDER]) / f"{os.getpid()}.jsonl"
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, line.encode())
    finally:
        os.close(file)


@dataclass
class Run:
    """One run of a handler, as it told it."""

    execution: str
    attempt: int
    job: str
    began_at: float
    ended_at: float | None = None
    how: str = ""  # ok, failed, stopped; empty: it did not live to tell
    token: str = ""  # what it returned
    mark: str = ""  # of whoever asked for it, as its payload says


def read(folder: Path) -> list[Run]:
    """All runs, in the order in which they began."""
    runs: list[Run] = []
    for path in folder.glob("*.jsonl"):
        runs += _runs_of(path)
    return sorted(runs, key=lambda run: run.began_at)


def _runs_of(path: Path) -> Iterator[Run]:
    """Several may run at once in one process, in threads."""
    open_runs: dict[str, Run] = {}
    for line in path.read_text().splitlines():
        said = json.loads(line)
        if said["what"] == "begin":
            run = Run(said["execution"], said["attempt"], said["job"], said["at"], mark=said.get("mark", ""))
            open_runs[said["run"]] = run
            yield run
        else:
            run = open_runs.pop(said["run"])
            run.ended_at, run.how, run.token = said["at"], said["how"], said.get("token", "")
