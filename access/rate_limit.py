"""Rate limits by name, counted in Redis for all processes.

Owns where the buckets are kept, and what happens while there is no Redis: each process counts for itself. Invariant: a
question is counted in one step, by one clock (that of Redis, or the monotonic one of the process), however many
processes and threads ask at once; and no bucket stays behind, neither in Redis nor in memory.
"""

import hashlib
import heapq
import threading
import time
from collections.abc import Callable

from django.conf import settings

from access import gcra
from access.gcra import Limit, Taken
from executions.redis_link import RedisLink

__all__ = ["RateLimit", "Taken"]

_MOST_NAMES = 10_000

# access.gcra.take, said in Lua. A bucket that is full again is as good as none: until then the key lives, and a second
# more, since a key's life is not measured by the microsecond.
_TAKE = """
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local interval, most, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local refill = most * interval
local kept = tonumber(redis.call('GET', KEYS[1]) or 0)
local full_at = math.min(math.max(kept, now), now + refill)
local wait = full_at + cost * interval - now - refill
local is_allowed = wait <= 0
if is_allowed then full_at = full_at + cost * interval end
if is_allowed or full_at < kept then
  local life_ms = math.ceil((full_at - now) / 1000) + 1000
  redis.call('SET', KEYS[1], full_at, 'PX', life_ms)
end
return {is_allowed and 1 or 0, math.floor((refill - (full_at - now)) / interval), wait}
"""


class RateLimit:
    """Takes from buckets. Threads share it; those who count together ask with the same name and the same limit."""

    def __init__(self, link: RedisLink | None = None, *, now_us: Callable[[], int] | None = None) -> None:
        """Without a link, to the Redis of the settings, at the first question. The clock is that of the process."""
        self._link = link
        self._lock = threading.Lock()
        self._buckets = _Buckets(now_us or _monotonic_us)

    def take(self, name: str, *, most: int, per_seconds: float, cost: int = 1) -> Taken:
        """`most` at once, and from then on as many as come back: `most` in `per_seconds`."""
        limit = Limit.of(most, per_seconds)
        key = _key(name, limit)
        answer = self._redis().ask(_TAKE, [key], limit.interval_us, limit.most, limit.payable(cost))
        if answer is None:
            return self._buckets.take(key, limit, cost)
        is_allowed, remaining, wait_us = (int(number) for number in answer)
        return limit.answer(is_allowed=bool(is_allowed), remaining=remaining, wait_us=wait_us, cost=cost)

    def _redis(self) -> RedisLink:
        with self._lock:
            if self._link is None:
                self._link = RedisLink(
                    settings.REDIS_URL,
                    prefix=settings.ONBEAT_EXECUTIONS_PREFIX,
                    without="each process limits requests for itself",
                    again="requests are limited over all processes",
                )
            return self._link


class _Buckets:
    """Those of this process."""

    def __init__(self, now_us: Callable[[], int]) -> None:
        self._now_us = now_us
        self._lock = threading.Lock()
        self._full_at_us: dict[str, int] = {}

    def take(self, key: str, limit: Limit, cost: int) -> Taken:
        with self._lock:
            now_us = self._now_us()  # inside the lock: no thread brings an older moment than the one before it
            taken, full_at_us = gcra.take(limit, cost=cost, full_at_us=self._full_at_us.get(key, 0), now_us=now_us)
            if full_at_us > now_us:
                self._keep(key, full_at_us, now_us)
            return taken

    def _keep(self, key: str, full_at_us: int, now_us: int) -> None:
        if key not in self._full_at_us and len(self._full_at_us) >= _MOST_NAMES:
            self._make_room(now_us)
        self._full_at_us[key] = full_at_us

    def _make_room(self, now_us: int) -> None:
        """Forget the full ones, and if few are full, those that will be so soonest: a tenth, so that it is seldom."""
        kept = self._full_at_us
        gone = [key for key, full_at_us in kept.items() if full_at_us <= now_us]
        at_least = max(_MOST_NAMES // 10, 1)
        if len(gone) < at_least:
            gone = heapq.nsmallest(at_least, kept, key=kept.__getitem__)
        for key in gone:
            del kept[key]


def _monotonic_us() -> int:
    return time.monotonic_ns() // 1000


def _key(name: str, limit: Limit) -> str:
    """Hashed, for a name may hold anything. The limit belongs to it: what one rule counts is nothing to another."""
    said = f"{limit.most}/{limit.interval_us}/{name}".encode("utf-8", "surrogatepass")
    return f"rate:{hashlib.sha256(said).hexdigest()}"
