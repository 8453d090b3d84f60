"""Which part of the jobs a beat looks after.

Every job belongs to one of 64 shards, and the beats that live share the shards: by rendezvous hashing, so that all of
them come to the same answer alone, and a beat that comes or goes moves only its own share. Invariant: shards save work
and decide nothing. Two beats that hold the same shard, since one has not heard yet of the other, plan each fire once.
"""

import time
from collections.abc import Iterable
from datetime import timedelta
from hashlib import blake2b
from typing import Any, TypeVar

from django.db.models import F, QuerySet

from executions.parts import ALL_JOBS, Part

COUNT = 64
ALL = frozenset(range(COUNT))

Rows = TypeVar("Rows", bound=QuerySet[Any])


def share_of(beat: str, members: Iterable[str]) -> frozenset[int]:
    """The shards that fall to one of the beats."""
    rivals = sorted({*members} - {beat})
    return frozenset(shard for shard in ALL if all(_weight(beat, shard) > _weight(rival, shard) for rival in rivals))


def _weight(beat: str, shard: int) -> tuple[bytes, str]:
    """The same on every machine and in every release, which Python's own hash is not."""
    return blake2b(f"{shard}:{beat}".encode(), digest_size=8).digest(), beat


def within(rows: Rows, shards: frozenset[int]) -> Rows:
    """Those rows whose job is in one of the shards; for tables with a `job_id`."""
    if shards == ALL:
        return rows
    if not shards:
        return rows.none()
    narrowed: Rows = rows.alias(shard=F("job_id") % COUNT).filter(shard__in=sorted(shards))
    return narrowed


def part(shards: frozenset[int]) -> Part:
    """The same for the outbox."""
    return ALL_JOBS if shards == ALL else Part(COUNT, shards)


class Shards:
    """The shards of one beat, as they come and go."""

    def __init__(self, beat: str, *, linger: timedelta) -> None:
        self._beat = beat
        self._linger_seconds = linger.total_seconds()
        self.planning = ALL  # until others are heard of
        self._members: frozenset[str] = frozenset()
        self._held_until: dict[int, float] = {}

    def share(self, members: frozenset[str]) -> bool:
        """Share with those that live. True if that gave us other shards than before."""
        if members == self._members:
            return False
        is_first, self._members = not self._members, members
        before, after = self.planning, share_of(self._beat, members)
        if after == before:
            return False
        if is_first:
            before = after  # who has just begun has planned nothing yet
        until = time.monotonic() + self._linger_seconds
        self._held_until = {**self._held_until, **dict.fromkeys(before - after, until)}
        self.planning = after
        return True

    @property
    def publishing(self) -> frozenset[int]:
        """Ours, and those that we lost a moment ago: what we planned there is under our leases."""
        now = time.monotonic()
        return self.planning | {shard for shard, until in self._held_until.items() if until > now}
