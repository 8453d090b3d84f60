"""The fires that are to come, of a stored schedule or of one that is only thought of. Pure: no Django."""

from collections.abc import Iterator
from datetime import datetime
from itertools import islice

from jobs.recurrence import Recurrence

MOST_SHOWN = 100


def upcoming(recurrence: Recurrence, *, after: datetime, count: int) -> list[datetime]:
    """The next so many, or as many as there are."""
    return list(islice(_fires(recurrence, after), count))


def _fires(recurrence: Recurrence, after: datetime) -> Iterator[datetime]:
    moment = recurrence.next_after(after)
    while moment is not None:
        yield moment
        moment = recurrence.next_after(moment)
