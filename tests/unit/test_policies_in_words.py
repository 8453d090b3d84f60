"""The policies of a job, as sentences."""

from typing import Any

import pytest

from console.jobs.policies import Said, in_words
from executions.retry import Backoff, RetryPolicy
from executions.states import Overlap
from jobs.misfires import Misfire

USUAL = Said(
    retry=RetryPolicy(),
    max_lost=3,
    overlap=Overlap.ALLOW,
    max_concurrency=None,
    timeout_seconds=None,
    default_timeout_seconds=3600,
    stop_grace_seconds=30,
    priority=5,
    keep_result=False,
)


def sentences(**changes: Any) -> dict[str, str]:
    return {policy.name: policy.sentence for policy in in_words(USUAL._replace(**changes))}


def test_a_job_that_says_nothing_is_told_as_it_is_by_default() -> None:
    assert sentences() == {
        "Retries": "Up to 3 attempts, after 30 s, then twice as long each time, 1 h at most.",
        "Lost workers": "Given up when 3 workers vanished while running it.",
        "Overlap": "Any number may run at once.",
        "Time limit": "As its task says, or 1 h; asked to stop then, and killed 30 s later.",
        "Priority": "5 of 9 (as usual) within its queue.",
    }


@pytest.mark.parametrize(
    ("policy", "sentence"),
    [
        ({"max_attempts": 1}, "One attempt; a failure is a dead letter at once."),
        ({"backoff": Backoff.FIXED, "max_attempts": 3}, "Up to 3 attempts, 30 s apart."),
        (
            {"backoff": Backoff.LINEAR, "max_attempts": 2, "cap_seconds": 90},
            "Up to 2 attempts, after 30 s, then 30 s more each time, 1 min 30 s at most.",
        ),
        (
            {"backoff": Backoff.FIXED, "jitter": 0.25, "retry_on": ("KeyError",), "give_up_on": ("A", "b.C")},
            "Up to 3 attempts, 30 s apart; up to 25% sooner. Only after KeyError. Never after A, b.C.",
        ),
    ],
)
def test_retries(policy: dict[str, Any], sentence: str) -> None:
    assert sentences(retry=RetryPolicy(**policy))["Retries"] == sentence


@pytest.mark.parametrize(
    ("overlap", "most", "sentence"),
    [
        (Overlap.ALLOW, 2, "Up to 2 at once; further ones wait for their turn."),
        (Overlap.SKIP, 1, "One at a time; further ones are skipped, with the reason."),
        (Overlap.QUEUE, 1, "One at a time; one more waits, further ones are skipped."),
        (Overlap.CANCEL_PREVIOUS, 1, "One at a time; a further one waits while the oldest is asked to stop."),
    ],
)
def test_overlap(overlap: Overlap, most: int, sentence: str) -> None:
    assert sentences(overlap=overlap, max_concurrency=most)["Overlap"] == sentence


@pytest.mark.parametrize(
    ("misfire", "sentence"),
    [
        (Misfire.SKIP, "Fires up to 5 min late all run; of older ones none runs."),
        (Misfire.FIRE_ONCE, "Fires up to 5 min late all run; of older ones the latest runs."),
        (Misfire.FIRE_ALL, "Fires up to 5 min late all run; of older ones the latest 100 run."),
    ],
)
def test_late_fires_of_a_schedule(misfire: Misfire, sentence: str) -> None:
    said = sentences(misfire=misfire, misfire_grace_seconds=300, misfire_limit=100)
    assert said["Late fires"] == sentence
    assert "Late fires" not in sentences()


def test_what_is_set_is_told() -> None:
    said = sentences(timeout_seconds=90, stop_grace_seconds=0, priority=9, keep_result=True, jitter_seconds=30)
    assert said["Time limit"] == "An attempt may take 1 min 30 s; asked to stop then, and killed 0 ms later."
    assert said["Priority"] == "9 of 9 (critical) within its queue."
    assert said["Result"] == "Also kept for Celery's AsyncResult."
    assert said["Jitter"] == "A fire comes up to 30 s later, always the same for one fire."


def test_every_choice_has_its_words() -> None:
    for overlap in Overlap:
        assert sentences(overlap=overlap, max_concurrency=2)
    for misfire in Misfire:
        assert sentences(misfire=misfire)
    for backoff in Backoff:
        assert sentences(retry=RetryPolicy(backoff=backoff))
