"""An attempt whose worker is done and whose end is told from elsewhere: it goes on running, without signs of life."""

import uuid
from datetime import datetime

from django.db.models import Q

from executions.lifecycle.ends import fail, stop
from executions.lifecycle.rows import held_by
from executions.lifecycle.running import standing_claim
from executions.models import Execution
from executions.outcomes import Claim, Finish
from executions.states import Outcome

_NO_WORD = "No word came from the receiver in time: it answered that it would tell how this ends, and did not."


def await_end(claim: Claim, *, until: datetime, now: datetime) -> Finish:
    """Let the end come from elsewhere, by a moment. REFUSED: it was told already, or the claim no longer stands."""
    wanted = held_by(claim).filter(cancel_requested_at=None)
    if wanted.update(awaited_until=until, heartbeat_at=None, response=claim.response):
        return Finish.AWAITED
    return stop(claim, now=now)


def claim_from_elsewhere(execution_id: uuid.UUID, attempt: int) -> Claim | None:
    """For whoever was asked to tell how an attempt ends, also before its worker is done with it."""
    return standing_claim(execution_id, attempt, Q())


def end_unheard(now: datetime, *, limit: int = 100) -> list[tuple[uuid.UUID, int, Finish]]:
    """End those whose time is over, as timed out, and those that somebody asked to stop: nobody else would."""
    unheard = Execution.objects.awaited().filter(Q(awaited_until__lte=now) | Q(cancel_requested_at__isnull=False))
    ended = []
    for execution_id, attempt in list(unheard.order_by("awaited_until").values_list("pk", "attempt")[:limit]):
        claim = claim_from_elsewhere(execution_id, attempt)
        if claim is not None:
            # A failure ends as cancelled where that was asked for.
            finish = fail(claim, error=_NO_WORD, kinds=("TimeoutError",), outcome=Outcome.TIMED_OUT, now=now)
            ended.append((execution_id, attempt, finish))
    return ended
