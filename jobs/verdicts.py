"""What became of a fire, in a word: the answers to "did it run, and why not?". Pure: no Django."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from uuid import UUID


class Verdict(StrEnum):
    RAN = "RAN"  # it succeeded
    FAILED = "FAILED"  # it was given up
    RUNS = "RUNS"  # it runs now
    WAITS = "WAITS"  # its time has come, and something holds it
    SKIPPED = "SKIPPED"  # its row says why
    CANCELLED = "CANCELLED"  # somebody stopped it
    PAUSED = "PAUSED"  # the job was paused
    NOT_YET = "NOT_YET"  # its time is yet to come
    NOT_DUE = "NOT_DUE"  # the schedule of that time names no such fire
    NO_SUCH_JOB_THEN = "NO_SUCH_JOB_THEN"  # the job was not made yet
    OVER = "OVER"  # the job was completed or archived
    REMOVED = "REMOVED"  # older than the days that rows are kept
    UNPLANNED = "UNPLANNED"  # no beat has planned it, and one still will
    MISSING = "MISSING"  # a fault: its schedule went past it, and there is no row


@dataclass(frozen=True)
class Explained:
    """One fire, and what became of it."""

    fire_time: datetime | None  # None: there was none to speak of
    verdict: Verdict
    says: str  # a sentence
    remedy: str = ""  # a command to type; empty: there is none, or none is needed
    execution_id: UUID | None = None
    facts: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Explanation:
    """What was asked of a job, and the answers."""

    key: str
    timezone: str
    start: datetime | None  # None: the latest fire was asked for
    end: datetime | None
    remark: str  # such as that no fire was due at that very moment
    fires: tuple[Explained, ...]  # in the order of their times
    left_out: Mapping[Verdict, int] = field(default_factory=dict)  # fires of the range that are not among them
    next_fire_at: datetime | None = None
    next_says: str = ""


@dataclass(frozen=True)
class Around:
    """How the platform is at this moment, as far as it can hold a fire back."""

    consumed: frozenset[str] = frozenset()  # the queues that workers take from, as the broker names them
    beats: str = ""  # what is to be said of the beats
    troubles: tuple[str, ...] = ()  # what is amiss with beats, broker and Redis
