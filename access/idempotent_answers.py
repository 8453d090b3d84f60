"""How long answers to requests with an Idempotency-Key are kept."""

from datetime import datetime, timedelta

from django.db.models import QuerySet

from access.forgetting import BATCH_SIZE, forget
from access.models import IdempotentAnswer

IDEMPOTENT_HOURS = 24


def forget_answers(now: datetime, *, limit: int = BATCH_SIZE) -> int:
    """Remove answers that are past their time, so many at a time; returns how many."""
    return forget(past_their_hours(now).order_by("created_at"), limit=limit)


def past_their_hours(now: datetime) -> QuerySet[IdempotentAnswer]:
    return IdempotentAnswer.objects.filter(created_at__lt=now - timedelta(hours=IDEMPOTENT_HOURS))
