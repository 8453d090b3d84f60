"""Fires that are to get their rows, and stretches of fires that will not run. Pure: no Django."""

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple


class Fire(NamedTuple):
    """One that will run."""

    job_id: int
    fire_time: datetime
    available_at: datetime


@dataclass(frozen=True)
class Stretch:
    """Fires that will not run, told in one row."""

    job_id: int
    first: datetime
    last: datetime
    count: int | None  # None: too many to count
    reason: str
