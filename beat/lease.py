"""Leases in Redis: an economy, never the guarantee.

One beat carries a fire from plan to publish; the others leave it alone. Invariant: nothing depends on a lease for being
right. Redis away or never configured is one code path: every lease is granted, and the database decides.
"""

import time
from collections.abc import Sequence
from datetime import timedelta

import redis

from executions import events
from executions.identity import milliseconds
from executions.models import Execution
from executions.states import FIRE_TRIGGERS

_TIMEOUT_SECONDS = 1.0
_REST_SECONDS = 5.0

# One call for all leases of a batch. Taking again what one holds prolongs it.
_TAKE = """
local taken = {}
for i, key in ipairs(KEYS) do
  local holder = redis.call('GET', key)
  if not holder or holder == ARGV[1] then
    redis.call('SET', key, ARGV[1], 'PX', ARGV[2])
    taken[i] = 1
  else
    taken[i] = 0
  end
end
return taken
"""


def fire_key(job_id: int, fire_time_ms: int) -> str:
    return f"lease:{job_id}:{fire_time_ms}"


def execution_key(execution: Execution) -> str:
    """The fire's own lease for its first attempt, so that the beat that planned it publishes it."""
    if execution.attempt == 1 and execution.trigger in FIRE_TRIGGERS:
        return fire_key(execution.job_id, milliseconds(execution.fire_time))
    return f"lease:{execution.pk}:{execution.attempt}"


class Leases:
    """The leases that one beat takes under its name."""

    def __init__(self, *, url: str, prefix: str, holder: str, life: timedelta) -> None:
        self._redis = (
            redis.Redis.from_url(url, socket_timeout=_TIMEOUT_SECONDS, socket_connect_timeout=_TIMEOUT_SECONDS)
            if url
            else None
        )
        self._prefix = prefix
        self._holder = holder
        self._life_ms = int(life.total_seconds() * 1000)
        self.is_away = False
        self._ask_again_at = 0.0

    def take(self, keys: Sequence[str]) -> list[bool]:
        """Which of the keys are ours now."""
        if self._redis is None or not keys or time.monotonic() < self._ask_again_at:
            return [True] * len(keys)
        try:
            names = [self._prefix + key for key in keys]
            taken = self._redis.eval(_TAKE, len(names), *names, self._holder, self._life_ms)
        except redis.RedisError as error:
            self._say_away(error)
            return [True] * len(keys)
        self._say_back()
        return [bool(answer) for answer in taken]

    def _say_away(self, error: redis.RedisError) -> None:
        # A Redis that hangs costs its timeout at each question, so it is left alone for a while.
        self._ask_again_at = time.monotonic() + _REST_SECONDS
        if not self.is_away:
            events.warn("Redis is away: beats go on without leases, the database decides", error=type(error).__name__)
        self.is_away = True

    def _say_back(self) -> None:
        if self.is_away:
            events.emit("Redis is back: leases are taken again")
        self.is_away = False
