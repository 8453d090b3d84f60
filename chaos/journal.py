"""What callers asked for and what they were answered: the other half of the evidence, beside the ledger.

Invariant: an answer is noted only when the caller has it in hand. Without one the outcome is unknown, and both that it
was done and that it was not are right.
"""

import threading
import time
from dataclasses import asdict, dataclass, field
from typing import Any

NOT_KNOWN = "not known"


@dataclass
class Entry:
    """One deed of a caller."""

    caller: str
    deed: str  # run, cancel, move, change, pause, resume, create, archive
    job: str
    sent_at: float
    answered_at: float | None = None
    outcome: str = NOT_KNOWN
    execution: str = ""
    mark: str = ""  # in the payload of the run that was asked for
    run_key: str = ""
    version: int | None = None
    step: int | None = None


@dataclass
class Journal:
    entries: list[Entry] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, caller: str, deed: str, job: str, **facts: Any) -> Entry:
        entry = Entry(caller, deed, job, time.time(), **facts)
        with self._lock:
            self.entries.append(entry)
        return entry

    def plain(self) -> list[dict[str, Any]]:
        with self._lock:
            return [asdict(entry) for entry in self.entries]


def answered(entry: Entry, outcome: str, **facts: Any) -> None:
    entry.answered_at, entry.outcome = time.time(), outcome
    for name, value in facts.items():
        setattr(entry, name, value)
