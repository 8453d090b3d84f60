"""How long answers to requests with an Idempotency-Key are kept."""

from datetime import datetime, timedelta

from access.forgetting import BATCH_SIZE, forget
from access.models import IdempotentAnswer

IDEMPOTENT_HOURS = 24


def forget_answers(now: datetime, *, limit: int = BATCH_SIZE) -> int:
    """Remove answers that are past their time, so many at a time; returns how many."""
    hours_ago = now - timedelta(hours=IDEMPOTENT_HOURS)
    return forget(IdempotentAnswer.objects.filter(created_at__lt=hours_ago).order_by("created_at"), limit=limit)
