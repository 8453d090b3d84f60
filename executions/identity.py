"""Execution ids: time-ordered and carrying the fire time. Pure: no Django.

An id is a UUID in the layout of version 7 whose 48 timestamp bits are the fire time in milliseconds, so that ids sort
by fire time and the fire time can be read back from the id alone. The other 74 bits are random: uniqueness of a fire
is the database's business, never the id's.
"""

import secrets
import uuid
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from io import BytesIO

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)  # to which an id carries its fire time
_LAST_STAMP = (datetime(9999, 12, 1, tzinfo=UTC) - _EPOCH) // MILLISECOND
_RANDOM_BYTES = 10
# The six bits below the timestamp that say the version and the variant; and all the others.
_VERSION_7 = 0x7 << 76 | 0b10 << 62
_RANDOM_BITS = (1 << 80) - 1 ^ (0xF << 76 | 0b11 << 62)


def milliseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // MILLISECOND


def new_execution_id(fire_time: datetime) -> uuid.UUID:
    return new_execution_ids([fire_time])[0]


def new_execution_ids(fire_times: Collection[datetime]) -> list[uuid.UUID]:
    """One for each. The system is asked for the random bits of all at once: asking takes longer than they do."""
    drawn = BytesIO(secrets.token_bytes(_RANDOM_BYTES * len(fire_times)))
    return [_execution_id(fire_time, drawn.read(_RANDOM_BYTES)) for fire_time in fire_times]


def _execution_id(fire_time: datetime, drawn: bytes) -> uuid.UUID:
    stamp = milliseconds(fire_time)
    if not 0 <= stamp < 1 << 48:
        raise ValueError(f"A fire time must lie between 1970 and the year 10889, not {fire_time.isoformat()}.")
    return uuid.UUID(int=stamp << 80 | _VERSION_7 | int.from_bytes(drawn) & _RANDOM_BITS)


def earliest_id(fire_time: datetime) -> uuid.UUID:
    """No id of this fire time or a later one is smaller. Not an id itself: the bound of a range of ids."""
    return uuid.UUID(int=max(milliseconds(fire_time), 0) << 80)


def ids_beginning(digits: str) -> tuple[uuid.UUID, uuid.UUID]:
    """The first and the last of all that begin with these hexadecimal digits."""
    return uuid.UUID(digits.ljust(32, "0")), uuid.UUID(digits.ljust(32, "f"))


def is_ours(execution_id: uuid.UUID) -> bool:
    """Whether an id can be one of these. Others come from people and apps, and name nothing."""
    return execution_id.int >> 80 <= _LAST_STAMP


def fire_time_of(execution_id: uuid.UUID) -> datetime:
    """The fire time that an id carries, to the millisecond."""
    return _EPOCH + (execution_id.int >> 80) * MILLISECOND
