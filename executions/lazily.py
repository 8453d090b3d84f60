"""Commits that nobody waits for.

PostgreSQL answers before such a commit is on disk; a server that crashes within the next moments forgets it. Everybody
sees it at once all the same, and a later commit that is waited for takes it along. Invariant: only what may be
forgotten is said lazily: that a worker has begun an attempt, and that a message is in its queue. Why these may be is
told in docs/explanation/guarantees.md.
"""

from django.db import connection

_SOURCE = ", (SELECT set_config('synchronous_commit', 'off', true)) AS lazily"


def source() -> str:
    """To stand after the last source of a statement's FROM. Nothing within a transaction: others may have to wait."""
    return _SOURCE if connection.vendor == "postgresql" and not connection.in_atomic_block else ""
