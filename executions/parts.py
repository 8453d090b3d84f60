"""A part of all jobs, as one beat of several looks after it. Pure: no Django."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Part:
    """Of all jobs those whose id leaves one of these remainders; None: whatever it leaves."""

    of: int = 1
    remainders: frozenset[int] | None = None


ALL_JOBS = Part()
