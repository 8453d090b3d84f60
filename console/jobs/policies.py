"""The policies of a job as sentences. Pure: no Django.

Owns the words; what they mean is decided in `executions/retry.py`, `jobs/misfires.py` and the claim.
"""

from collections.abc import Iterator
from typing import NamedTuple

from executions.retry import Backoff, RetryPolicy
from executions.words import count, duration


class Policy(NamedTuple):
    name: str
    sentence: str


class Said(NamedTuple):
    """What of a job decides."""

    retry: RetryPolicy
    max_lost: int
    overlap: str
    max_concurrency: int | None
    timeout_seconds: int | None
    default_timeout_seconds: float
    stop_grace_seconds: int
    priority: int
    keep_result: bool
    misfire: str | None = None  # of its schedule; None: it has none
    misfire_grace_seconds: int = 0
    misfire_limit: int = 0
    jitter_seconds: int = 0


def in_words(said: Said) -> list[Policy]:
    return list(_policies(said))


def _policies(said: Said) -> Iterator[Policy]:
    yield Policy("Retries", _retries(said.retry))
    yield Policy("Lost workers", f"Given up when {count(said.max_lost, 'worker')} vanished while running it.")
    yield Policy("Overlap", _overlap(said.overlap, said.max_concurrency))
    if said.misfire is not None:
        yield Policy("Late fires", _misfire(said.misfire, said.misfire_grace_seconds, said.misfire_limit))
    if said.jitter_seconds:
        yield Policy(
            "Jitter", f"A fire comes up to {duration(said.jitter_seconds)} later, always the same for one fire."
        )
    yield Policy("Time limit", _limit(said))
    level = {0: " (lowest)", 5: " (as usual)", 9: " (critical)"}.get(said.priority, "")
    yield Policy("Priority", f"{said.priority} of 9{level} within its queue.")
    if said.keep_result:
        yield Policy("Result", "Also kept for Celery's AsyncResult.")


def _retries(retry: RetryPolicy) -> str:
    if retry.max_attempts == 1:
        return "One attempt; a failure is a dead letter at once."
    first = duration(retry.initial_seconds)
    growth = {
        Backoff.EXPONENTIAL: f"after {first}, then twice as long each time",
        Backoff.LINEAR: f"after {first}, then {first} more each time",
        Backoff.FIXED: f"{first} apart",
    }[Backoff(retry.backoff)]
    cap = "" if retry.backoff == Backoff.FIXED else f", {duration(retry.cap_seconds)} at most"
    jitter = f"; up to {retry.jitter:.0%} sooner" if retry.jitter else ""
    only = f" Only after {', '.join(retry.retry_on)}." if retry.retry_on else ""
    never = f" Never after {', '.join(retry.give_up_on)}." if retry.give_up_on else ""
    return f"Up to {retry.max_attempts} attempts, {growth}{cap}{jitter}.{only}{never}"


def _overlap(overlap: str, most: int | None) -> str:
    if most is None:
        return "Any number may run at once."
    limit = "One at a time" if most == 1 else f"Up to {most} at once"
    return {
        "ALLOW": f"{limit}; further ones wait for their turn.",
        "SKIP": f"{limit}; further ones are skipped, with the reason.",
        "QUEUE": f"{limit}; one more waits, further ones are skipped.",
        "CANCEL_PREVIOUS": f"{limit}; a further one waits while the oldest is asked to stop.",
    }[overlap]


def _misfire(misfire: str, grace: int, limit: int) -> str:
    late = f"Fires up to {duration(grace)} late all run; of older ones "
    return (
        late
        + {
            "SKIP": "none runs.",
            "FIRE_ONCE": "the latest runs.",
            "FIRE_ALL": f"the latest {limit} run.",
        }[misfire]
    )


def _limit(said: Said) -> str:
    if said.timeout_seconds is not None:
        limit = f"An attempt may take {duration(said.timeout_seconds)}"
    else:
        limit = f"As its task says, or {duration(said.default_timeout_seconds)}"
    return f"{limit}; asked to stop then, and killed {duration(said.stop_grace_seconds)} later."
