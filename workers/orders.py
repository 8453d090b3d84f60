"""Words between a worker's parent and its children: which call is to stop, and why; and which call each is in.

Shared memory that children inherit over the fork. A signal carries no name, so the name lies here when it arrives; a
child whose call is another one finds nothing addressed to it. The latest words overwrite the oldest. A child in turn
has a place of its own, where it says which attempt it holds, since Celery forgets what it gave to a child at the moment
in which the broker went away; and which call it is in, since one whose work is done is not killed for the time it took.
"""

import hashlib
import mmap
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from itertools import count
from struct import Struct

from billiard import current_process

_ENTRY = Struct("<I16sB")  # process, name of the call, why
_ENTRIES = 1024
_memory = mmap.mmap(-1, _ENTRY.size * _ENTRIES)
_places = count()
_CHILDREN = 1024
_CALL = Struct("<I16s")  # process, name of the call
_calls = mmap.mmap(-1, _CALL.size * _CHILDREN)
_HOLD = Struct("<I16sI")  # process, execution, attempt
_holds = mmap.mmap(-1, _HOLD.size * _CHILDREN)
_held_here: set[tuple[uuid.UUID, int]] = set()  # by threads of the worker itself, where its pool has no children


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


def enter(name: bytes) -> None:
    """Say that this process is in a call from now on."""
    _say(_calls, _CALL.pack(os.getpid(), name))


def leave() -> None:
    _say(_calls, bytes(_CALL.size))


def _say(memory: mmap.mmap, what: bytes) -> None:
    place = (_own_place() or 0) % _CHILDREN * len(what)
    memory[place : place + len(what)] = what


def _own_place() -> int | None:
    """The pool gives each of its living children its own; None in a process that is no such child."""
    return getattr(current_process(), "index", None)


@contextmanager
def holding(execution_id: uuid.UUID, attempt: int) -> Iterator[None]:
    """From the claim to the finish: say that this process, or a thread of it, holds an attempt."""
    if _own_place() is None:
        _held_here.add((execution_id, attempt))
    else:
        _say(_holds, _HOLD.pack(os.getpid(), execution_id.bytes, attempt))
    try:
        yield
    finally:
        if _own_place() is None:
            _held_here.discard((execution_id, attempt))
        else:
            _say(_holds, bytes(_HOLD.size))


def held() -> set[tuple[uuid.UUID, int]]:
    """The attempts that living children, or threads of this process, say that they hold."""
    told = [(process, pair) for process, *pair in _HOLD.iter_unpack(_holds[:]) if process]
    of_children = {(uuid.UUID(bytes=execution), attempt) for process, (execution, attempt) in told if _lives(process)}
    return of_children | set(_held_here)


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except OSError:
        return False
    return True


def is_inside(process: int, name: bytes) -> bool:
    return (process, name) in _CALL.iter_unpack(_calls[:])


def given(process: int, name: bytes) -> Iterator[Why]:
    """What was said to a process about one call."""
    for whom, what, why in _ENTRY.iter_unpack(_memory[:]):
        if whom == process and what == name and why:
            yield Why(why)
