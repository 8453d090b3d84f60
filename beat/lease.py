"""Leases in Redis: an economy, never the guarantee.

One beat carries a fire from plan to publish; the others leave it alone, unless that beat is gone. Invariant: nothing
depends on a lease for being right. Redis away or never configured is one code path: every lease is granted, and the
database decides.
"""

from collections.abc import Sequence
from datetime import timedelta

from beat.members import MEMBERS_KEY
from executions.identity import milliseconds
from executions.models import Execution
from executions.outgoing import Due
from executions.redis_link import RedisLink
from executions.states import FIRE_TRIGGERS

# What a beat says of a Redis that goes and comes.
WITHOUT_REDIS = "beats go on without leases, the database decides"
REDIS_AGAIN = "leases are taken again"

# One call for all leases of a batch. Taking again what one holds prolongs it; a holder that is no member is gone.
_TAKE = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local is_rival = {[ARGV[1]] = false}
local taken = {}
for i = 2, #KEYS do
  local holder = redis.call('GET', KEYS[i])
  if holder and is_rival[holder] == nil then
    local expires = redis.call('ZSCORE', KEYS[1], holder)
    is_rival[holder] = expires and tonumber(expires) > now
  end
  if holder and is_rival[holder] then
    taken[i - 1] = 0
  else
    redis.call('SET', KEYS[i], ARGV[1], 'PX', ARGV[2])
    taken[i - 1] = 1
  end
end
return taken
"""
_RELEASE = """
for _, key in ipairs(KEYS) do
  if redis.call('GET', key) == ARGV[1] then redis.call('DEL', key) end
end
return 1
"""


def fire_key(job_id: int, fire_time_ms: int) -> str:
    return f"lease:{job_id}:{fire_time_ms}"


def execution_key(execution: Execution | Due) -> str:
    """The fire's own lease for its first attempt, so that the beat that planned it publishes it."""
    if execution.attempt == 1 and execution.trigger in FIRE_TRIGGERS:
        return fire_key(execution.job_id, milliseconds(execution.fire_time))
    return f"lease:{execution.pk}:{execution.attempt}"


def duty_key(name: str) -> str:
    return f"lease:duty:{name}"


class Leases:
    """The leases that one beat takes under its name."""

    def __init__(self, link: RedisLink, *, holder: str, life: timedelta) -> None:
        self._link = link
        self._holder = holder
        self._life = life
        self.asked = self.refused = 0  # since this beat began: what is refused was read for nothing

    def take(self, keys: Sequence[str], *, life: timedelta | None = None) -> list[bool]:
        """Which of the keys are ours now."""
        if not keys:
            return []
        life_ms = int((life or self._life).total_seconds() * 1000)
        taken = self._link.ask(_TAKE, [MEMBERS_KEY, *keys], self._holder, life_ms)
        if taken is None:
            return [True] * len(keys)
        self.asked += len(keys)
        self.refused += taken.count(0)
        return [bool(answer) for answer in taken]

    def release(self, keys: Sequence[str]) -> None:
        """Let others have what we could not finish."""
        if keys:
            self._link.ask(_RELEASE, keys, self._holder)
