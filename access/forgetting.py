"""How rows on which nothing hangs are removed.

Owns the pace: a batch per transaction, so that nobody waits for long, and a limited time per call.
"""

import time
from typing import Any

from django.db.models import QuerySet

BATCH_SIZE = 1000
# A beat has other duties beside this.
_PATIENCE_SECONDS = 1.0


def forget(old: QuerySet[Any], *, limit: int) -> int:
    """Remove these rows in their order, `limit` at a time; returns how many. What is left is for the next call."""
    gone = 0
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while ids := list(old.values_list("pk", flat=True)[:limit]):
        # Of these the ones that are still old: a row may have been used meanwhile.
        gone += old.order_by().filter(pk__in=ids)._raw_delete(old.db)
        if len(ids) < limit or time.monotonic() > deadline:
            break
    return gone
