"""What the doctor finds: a fault that can be named, seen at a place. Pure: no Django.

Owns the ids. Invariant: an id never changes its meaning (docs/reference/findings.md lists them all), so that a script
may look for it; its letter says how bad it is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Severity(StrEnum):
    ERROR = "ERROR"  # something does not work, or a promise is at risk
    WARNING = "WARNING"  # it works, and may not for long
    NOTE = "NOTE"  # good to know


ORDER = list(Severity)
_LETTERS = {"E": Severity.ERROR, "W": Severity.WARNING, "N": Severity.NOTE}


@dataclass(frozen=True)
class Finding:
    id: str
    severity: Severity
    says: str  # what was seen here, in a sentence
    means: str
    remedy: str
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Fault:
    """A kind of finding: what it means and what to do is the same wherever it is seen."""

    id: str
    means: str
    remedy: str

    @property
    def severity(self) -> Severity:
        return _LETTERS[self.id.rpartition(".")[2][0]]

    def found(self, says: str, **facts: Any) -> Finding:
        return Finding(self.id, self.severity, says, self.means, self.remedy, facts)


@dataclass(frozen=True)
class Examined:
    """What became of one area."""

    says: str  # how it stands, in a line
    findings: Sequence[Finding] = ()
    is_examined: bool = True

    @property
    def worst(self) -> Severity | None:
        return min((finding.severity for finding in self.findings), key=ORDER.index, default=None)


def passed_by(why: str) -> Examined:
    return Examined(f"not looked at: {why}", is_examined=False)


def at_most(count: int, most: int, noun: str, plural: str = "") -> str:
    """A count, to begin a sentence; it stops at a limit, since more cost time and change nothing."""
    if count > most:
        return f"More than {most:,} {plural or noun + 's'}"
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def named(names: Sequence[str], most: int = 5) -> str:
    """The first of them, and how many more there are."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
