"""Ways in which a claimed attempt ends, each with the answer that it must get."""

from datetime import datetime

from executions import lifecycle
from executions.outcomes import Claim, Finish


def succeed(claim: Claim, now: datetime) -> None:
    assert lifecycle.succeed(claim, result=None, now=now) is Finish.SUCCEEDED


def retry(claim: Claim, now: datetime) -> None:
    assert lifecycle.fail(claim, error="boom", now=now) is Finish.RETRY


def give_up(claim: Claim, now: datetime) -> None:
    """For a job that gives up on a KeyError."""
    assert lifecycle.fail(claim, error="boom", kinds=("KeyError",), now=now) is Finish.DEAD
