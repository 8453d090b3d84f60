"""How many attempts of one job may run at once.

Owns the lock per job and the question whether there is room. Invariant: whoever changes how many of a limited job run
holds its lock until the change is committed; counting without it let two through at once in nearly every try. A job
without a limit takes no lock and pays nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from django.db import connection
from django.db.models import Exists, OuterRef

from executions import database_line
from executions.models import Execution
from executions.states import Overlap

_LOCK = 0x6F6E_6A6F  # the class of our advisory locks; the job's number is the other half
# Who is hurried and falls silent with the lock in its hand loses it, or the job would stand still until somebody came.
# A limit that the connection has already stays.
_SILENCE = "idle_in_transaction_session_timeout"
_LIMIT_SILENCE = f"set_config('{_SILENCE}', coalesce(nullif(current_setting('{_SILENCE}'), '0'), %s, '0'), true)"


@dataclass(frozen=True)
class Limit:
    """What a job says about running several at once."""

    job_id: int
    most: int | None
    overlap: Overlap

    def has_room(self) -> bool:
        return self.most is None or Execution.objects.running().filter(job_id=self.job_id).count() < self.most


def is_limited() -> Exists:
    """A condition on executions that asks the job as it is now, since a limit may have been set after the plan."""
    job = Execution._meta.get_field("job").related_model
    return Exists(job._default_manager.filter(pk=OuterRef("job_id"), max_concurrency__isnull=False))


def lock(job_ids: Iterable[int]) -> None:
    """Hold these jobs until the transaction ends. Before any row is locked, and in order: two such calls make no ring.

    SQLite has one writer at a time, so a transaction there holds everything already.
    """
    _lock_each("pg_advisory_xact_lock", job_ids)


def lock_free(job_ids: Iterable[int]) -> set[int]:
    """Hold those of the jobs that nobody else holds, without waiting; returns which."""
    return {job_id for job_id, is_ours in _lock_each("pg_try_advisory_xact_lock", job_ids) if is_ours is not False}


def _lock_each(function: str, job_ids: Iterable[int]) -> list[tuple[int, object]]:
    """Each job with what PostgreSQL answered; only a try can be answered with False."""
    ids = sorted(set(job_ids))
    if connection.vendor != "postgresql" or not ids:
        return [(job_id, None) for job_id in ids]
    patience = database_line.patience_seconds()
    limit = None if patience is None else f"{int(patience * 1000)}ms"
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT id, {function}(%s, (id %% 2147483647)::int), {_LIMIT_SILENCE} FROM unnest(%s::bigint[]) AS id",
            [_LOCK, limit, ids],
        )
        return [(job_id, answer) for job_id, answer, _ in cursor.fetchall()]
