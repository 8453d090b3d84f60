"""Redis: by which beats share their work. It guarantees nothing, so what is amiss here costs effort and no fire."""

import time
from collections.abc import Iterator
from statistics import median
from typing import Any

import redis
from django.conf import settings
from redis.backoff import NoBackoff
from redis.exceptions import NoPermissionError
from redis.retry import Retry

from executions.surroundings import without_secrets
from executions.words import duration
from terminal.doctor.findings import Examined, Fault, Finding
from terminal.doctor.visit import Visit

ANSWER_SECONDS = 2.0
OLDEST = 6
PINGS = 7
SLOW_SECONDS = 0.1  # a beat waits half a second for an answer, then goes on without
SLUGGISH_SECONDS = 0.01
_NO_EVICTION = "noeviction"

UNREACHABLE = Fault(
    "redis.E01",
    means="Beats go on without leases: several of them do some work twice, and workers drop the doubles.",
    remedy="Start it, or correct REDIS_URL; leave REDIS_URL out if there is to be none.",
)
TOO_OLD = Fault(
    "redis.E02",
    means="Leases and members are tried with Redis 6 and later only.",
    remedy="Upgrade the server to Redis 6 or later.",
)
EVICTS = Fault(
    "redis.E03",
    means="When its memory is full Redis throws away leases and members: beats seem gone, and do work twice.",
    remedy="Set maxmemory-policy to noeviction, or give Onbeat a Redis of its own.",
)
WOULD_EVICT = Fault(
    "redis.W01",
    means="No limit is set, so nothing is thrown away; with one, leases and members would be.",
    remedy="Set maxmemory-policy to noeviction before somebody sets maxmemory.",
)
SLOW = Fault(
    "redis.W02",
    means="Each tick asks Redis a few times; beats give it up after half a second and go on without.",
    remedy="See what keeps it busy (SLOWLOG GET), or bring it nearer to the beats.",
)
NONE_SET = Fault(
    "redis.N01",
    means="Beats share their work through the database alone. Fine for one beat; several do some work twice.",
    remedy="Set REDIS_URL if more than one beat runs.",
)
SLUGGISH = Fault(
    "redis.N02",
    means="It answers later than on the same network; each tick waits for it a few times.",
    remedy="Bring it nearer to the beats if fires are late.",
)
SAYS_LITTLE = Fault(
    "redis.N03",
    means="This user may not ask for INFO: version and eviction are not known.",
    remedy="Allow it the command INFO, or look by hand.",
)


def examine(_visit: Visit) -> Examined:
    if not settings.REDIS_URL:
        return Examined("none is set", [NONE_SET.found("There is no REDIS_URL.")])
    link = redis.Redis.from_url(
        settings.REDIS_URL,
        socket_timeout=ANSWER_SECONDS,
        socket_connect_timeout=ANSWER_SECONDS,
        retry=Retry(NoBackoff(), 0),
    )
    try:
        latency = median(_pings(link))
        return _examined(link, latency)
    except redis.RedisError as error:
        says = f"{without_secrets(settings.REDIS_URL)} does not answer: {_why(error)}."
        return Examined("does not answer", [UNREACHABLE.found(says)])
    finally:
        link.close()


def _examined(link: redis.Redis, latency: float) -> Examined:
    findings = list(_latency(latency))
    try:
        said: dict[str, Any] = {**link.info("server"), **link.info("memory")}
    except NoPermissionError:
        findings.append(SAYS_LITTLE.found("Redis does not tell this user of itself."))
        return Examined(f"answers in {duration(latency)}", findings)
    version = str(said["redis_version"])
    findings += [*_version(version), *_eviction(str(said["maxmemory_policy"]), int(said["maxmemory"]))]
    says = f"Redis {version}, answers in {latency * 1000:.1f} ms; nothing in it has to survive a restart"
    return Examined(says, findings)


def _pings(link: redis.Redis) -> Iterator[float]:
    link.ping()  # the first one also connects
    for _ in range(PINGS):
        asked_at = time.monotonic()
        link.ping()
        yield time.monotonic() - asked_at


def _latency(seconds: float) -> Iterator[Finding]:
    fault = SLOW if seconds > SLOW_SECONDS else SLUGGISH if seconds > SLUGGISH_SECONDS else None
    if fault:
        yield fault.found(f"Half of {PINGS} pings took longer than {duration(seconds)}.", seconds=seconds)


def _version(version: str) -> Iterator[Finding]:
    if int(version.split(".")[0]) < OLDEST:
        yield TOO_OLD.found(f"The server is Redis {version}.")


def _eviction(policy: str, most_bytes: int) -> Iterator[Finding]:
    if policy == _NO_EVICTION:
        return
    if most_bytes:
        says = f"maxmemory is {most_bytes:,} bytes, and the policy {policy}."
        yield EVICTS.found(says, policy=policy, maxmemory=most_bytes)
    else:
        yield WOULD_EVICT.found(f"The policy is {policy}; no maxmemory is set.", policy=policy)


def _why(error: redis.RedisError) -> str:
    """Without addresses, which may hold a password in other libraries' words."""
    if isinstance(error, redis.AuthenticationError):
        return "it refuses the user or the password"
    if isinstance(error, redis.TimeoutError):
        return f"not within {ANSWER_SECONDS:g} s"
    return str(error).rstrip(".") or type(error).__name__
