"""The one clock that decides: the database's.

Owns the reading of time for beats and workers. Invariant: the machine's wall clock is never trusted, so a stepped or
wrong clock on one machine moves no fire. Between two looks at the database time advances by the monotonic clock.
"""

import time
from datetime import UTC, datetime, timedelta

from django.db import connection

# Short, because the monotonic clock stands still while a laptop sleeps.
_LOOK_AGAIN_AFTER_SECONDS = 5.0
# When within a longer answer the database looked at its clock, nobody knows.
_PROMPT_SECONDS = 1.0


def database_now() -> datetime:
    """One round trip for the database's own time."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SELECT clock_timestamp()")
            moment: datetime = cursor.fetchone()[0]
            return moment.astimezone(UTC)
        # SQLite runs inside this process, so its clock is this machine's; its own function has only milliseconds.
        return datetime.now(UTC)


class Clock:
    """The database's time, asked for now and then and carried on in between by the monotonic clock."""

    def __init__(self) -> None:
        self._base: datetime | None = None
        self._looked_at = 0.0
        self._look_again_at = 0.0
        self.offset = timedelta(0)  # how far this machine's clock was ahead of the database's

    def now(self) -> datetime:
        monotonic = time.monotonic()
        if self._base is None or monotonic > self._look_again_at:
            asked_at = datetime.now(UTC)
            self._base = database_now()
            self._looked_at = self._look_again_at = time.monotonic()
            took = self._looked_at - monotonic
            if took <= _PROMPT_SECONDS:
                self.offset = asked_at + timedelta(seconds=took) / 2 - self._base
                self._look_again_at += _LOOK_AGAIN_AFTER_SECONDS
            return self._base
        return self._base + timedelta(seconds=monotonic - self._looked_at)

    def is_off_by_more_than(self, seconds: float) -> bool:
        """Whether one of the two clocks, nobody knows which, is wrong."""
        return abs(self.offset.total_seconds()) > seconds
