"""The connection to Redis, which may be away.

Owns what a process does about a Redis that is down, slow or was never configured: it goes on without. Invariant: no
question to Redis takes longer than its timeout, and a Redis that failed is left alone for a while.
"""

import threading
import time
from collections.abc import Sequence
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from executions import events

_TIMEOUT_SECONDS = 0.5
_REST_SECONDS = 5.0


class RedisLink:
    """Asks Redis, and remembers whether it answers. Threads share it.

    Its owner gives the words that tell people what is different `without` Redis, and what is so `again` with it.
    """

    def __init__(
        self, url: str, *, prefix: str, without: str = "what asks it goes on without", again: str = "it is asked again"
    ) -> None:
        self._redis = (
            redis.Redis.from_url(
                url,
                socket_timeout=_TIMEOUT_SECONDS,
                socket_connect_timeout=_TIMEOUT_SECONDS,
                # A connection that broke while it was not used is made anew; one that hangs is not waited for twice.
                retry=Retry(NoBackoff(), 1, supported_errors=(redis.ConnectionError,)),
            )
            if url
            else None
        )
        self._prefix = prefix
        self._without = without
        self._again = again
        self._lock = threading.Lock()
        self._ask_again_at = 0.0
        self.is_away = False

    def ask(self, script: str, keys: Sequence[str], *arguments: str | int) -> Any | None:
        """What the Lua script answers; None if there is no Redis to ask."""
        if self._redis is None or time.monotonic() < self._ask_again_at:
            return None
        try:
            answer = self._redis.eval(script, len(keys), *(self._prefix + key for key in keys), *arguments)
        except (redis.RedisError, OSError) as error:  # of a line that is reset as it opens, redis-py tells as it is
            self._say_away(error)
            return None
        self._say_back()
        return answer

    def _say_away(self, error: Exception) -> None:
        with self._lock:
            # A Redis that hangs costs its timeout at each question.
            self._ask_again_at = time.monotonic() + _REST_SECONDS
            if not self.is_away:
                events.warn(f"Redis is away: {self._without}", error=type(error).__name__)
            self.is_away = True

    def _say_back(self) -> None:
        if not self.is_away:
            return
        with self._lock:
            if self.is_away:
                events.emit(f"Redis is back: {self._again}")
            self.is_away = False
