"""Which beats live.

Each says so twice a second; who has not for two seconds is gone. Kept in Redis, by Redis's own clock; without Redis in
the registry, by the database's. Invariant: nobody is counted as living who does not say so himself, and only a beat
that gets its work done says so (`beat/heartbeat.py`).
"""

from datetime import timedelta

from beat.models import Beat
from executions.clock import Clock
from executions.redis_link import RedisLink

EVERY = timedelta(seconds=0.5)
LIFE = timedelta(seconds=2)
MEMBERS_KEY = "members"

_RENEW = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
redis.call('ZREMRANGEBYSCORE', KEYS[1], now + 2 * ARGV[2], '+inf')  -- from before a clock was set back
if ARGV[1] ~= '' then
  redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[1])
  redis.call('PEXPIRE', KEYS[1], 10 * ARGV[2])
end
return redis.call('ZRANGE', KEYS[1], 0, -1)
"""
_LEAVE = "return redis.call('ZREM', KEYS[1], ARGV[1])"


class Members:
    """The beats that live, as one of them sees it."""

    def __init__(self, link: RedisLink, *, beat: str) -> None:
        self._link = link
        self._beat = beat
        self._clock = Clock()

    def renew(self) -> frozenset[str]:
        """Say that this beat lives; returns all that do."""
        return self._seen(self._beat)

    def look(self) -> frozenset[str]:
        """All that live, without a word from this one."""
        return self._seen("")

    def leave(self) -> None:
        """Be gone at once, so that the others need not find out."""
        self._link.ask(_LEAVE, [MEMBERS_KEY], self._beat)
        Beat.objects.filter(name=self._beat).update(renewed_at=None)

    def _seen(self, renewed: str) -> frozenset[str]:
        names = self._link.ask(_RENEW, [MEMBERS_KEY], renewed, int(LIFE.total_seconds() * 1000))
        if names is not None:
            return frozenset(name.decode() for name in names)
        now = self._clock.now()
        if renewed:
            Beat.objects.filter(name=renewed).update(renewed_at=now)
        # Nothing from the future either: a clock was set back since.
        alive = Beat.objects.filter(renewed_at__gt=now - LIFE, renewed_at__lt=now + LIFE)
        return frozenset(alive.values_list("name", flat=True))
