"""Words from a worker's parent to its children: which call is to stop, and why.

Shared memory that children inherit over the fork. A signal carries no name, so the name lies here when it arrives; a
child whose call is another one finds nothing addressed to it. The latest words overwrite the oldest.
"""

import hashlib
import mmap
from collections.abc import Iterator
from enum import IntEnum
from itertools import count
from struct import Struct

_ENTRY = Struct("<I16sB")  # process, name of the call, why
_ENTRIES = 1024
_memory = mmap.mmap(-1, _ENTRY.size * _ENTRIES)
_places = count()


class Why(IntEnum):
    """Zero is an entry that was never written."""

    CANCELLED = 1
    TIMED_OUT = 2


def name_of(task_id: str, attempt: int) -> bytes:
    """What a call is called by. An attempt is never made twice, so neither is its name given twice."""
    return hashlib.blake2b(f"{task_id} {attempt}".encode(), digest_size=16).digest()


def give(process: int, name: bytes, why: Why) -> None:
    place = next(_places) % _ENTRIES * _ENTRY.size
    _memory[place : place + _ENTRY.size] = _ENTRY.pack(process, name, why)


def given(process: int, name: bytes) -> Iterator[Why]:
    """What was said to a process about one call."""
    for whom, what, why in _ENTRY.iter_unpack(_memory[:]):
        if whom == process and what == name and why:
            yield Why(why)
