"""The fires around a moment, of a stored schedule or of one that is only thought of. Pure: no Django."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import islice

from jobs.recurrence import Recurrence

MOST_SHOWN = 100
_INSTANT = timedelta(microseconds=1)
_MINUTE = timedelta(minutes=1)


def upcoming(recurrence: Recurrence, *, after: datetime, count: int) -> list[datetime]:
    """The next so many, or as many as there are."""
    return list(islice(_fires(recurrence, after), count))


def _fires(recurrence: Recurrence, after: datetime) -> Iterator[datetime]:
    moment = recurrence.next_after(after)
    while moment is not None:
        yield moment
        moment = recurrence.next_after(moment)


def between(recurrence: Recurrence, *, after: datetime, until: datetime) -> Iterator[datetime]:
    """All fires after one moment and up to another, which is included."""
    for fire in _fires(recurrence, after):
        if fire > until:
            return
        yield fire


def is_fire(recurrence: Recurrence, moment: datetime) -> bool:
    return recurrence.next_after(moment - _INSTANT) == moment


def latest(recurrence: Recurrence, *, after: datetime, until: datetime) -> datetime | None:
    """The last fire after one moment and up to another. Looks back through a window that grows until it holds one."""
    window = _MINUTE
    while True:
        start = max(after, until - window)
        fire = recurrence.next_after(start)
        if fire is not None and fire <= until:
            return _last_from(fire, recurrence, until)
        if start == after:
            return None
        window *= 4


def _last_from(fire: datetime, recurrence: Recurrence, until: datetime) -> datetime:
    """The last one from a fire on: by halves, since there may be far too many to walk."""
    beyond = until
    while (following := recurrence.next_after(fire)) is not None and following <= until:
        middle = recurrence.next_after(fire + (beyond - fire) / 2)
        if middle is None or middle > until:
            beyond = fire + (beyond - fire) / 2
            fire = following
        else:
            fire = middle
    return fire
