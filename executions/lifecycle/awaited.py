"""An attempt whose worker is done and whose end is told from elsewhere: it goes on running, without signs of life."""

import uuid
from datetime import datetime

from django.db import transaction
from django.db.models import Q

from executions import concurrency
from executions.identity import fire_time_of
from executions.lifecycle.ends import fail, stop
from executions.lifecycle.rows import held_by
from executions.lifecycle.running import standing_claim
from executions.models import Attempt, Execution
from executions.outcomes import Claim, Finish
from executions.states import Outcome

_NO_WORD = "No word came from the receiver in time: it answered that it would tell how this ends, and did not."


def await_end(claim: Claim, *, until: datetime, now: datetime) -> Finish:
    """Let the end come from elsewhere, by a moment. REFUSED: it was told already, or the claim no longer stands."""
    wanted = held_by(claim).filter(cancel_requested_at=None)
    if wanted.update(awaited_until=until, heartbeat_at=None, response=claim.response):
        return Finish.AWAITED
    finish = stop(claim, now=now)
    if finish is Finish.REFUSED:
        attempts = Attempt.objects.filter(execution=claim.execution_id, fire_time=fire_time_of(claim.execution_id))
        attempts.filter(number=claim.attempt, response__isnull=True).update(response=claim.response)
    return finish


def claim_from_elsewhere(execution_id: uuid.UUID, attempt: int) -> Claim | None:
    """For whoever was asked to tell how an attempt ends, also before its worker is done with it."""
    return standing_claim(execution_id, attempt, Q())


def unheard(now: datetime, *, limit: int = 100) -> list[tuple[uuid.UUID, int]]:
    """Those whose time is over, and those that somebody asked to stop. Only looks."""
    over = Execution.objects.awaited().filter(Q(awaited_until__lte=now) | Q(cancel_requested_at__isnull=False))
    return list(over.order_by("awaited_until").values_list("pk", "attempt")[:limit])


def end_unheard(execution_id: uuid.UUID, attempt: int, *, now: datetime) -> Finish:
    """End one of them, as cancelled or as timed out; nobody else would. REFUSED also while somebody holds it."""
    with transaction.atomic():
        claim = claim_from_elsewhere(execution_id, attempt)
        if claim is None:
            return Finish.REFUSED
        jobs: set[int] = set() if claim.limited_job is None else {claim.limited_job}
        free = held_by(claim).select_for_update(skip_locked=True).values_list("pk", flat=True)
        if concurrency.lock_free(jobs) != jobs or not list(free):
            return Finish.REFUSED
        finish = stop(claim, now=now)
        if finish is not Finish.REFUSED:
            return finish
        return fail(claim, error=_NO_WORD, kinds=("TimeoutError",), outcome=Outcome.TIMED_OUT, now=now)
