"""Runs whose claim a crashed PostgreSQL has forgotten.

The commit of a claim is not waited for (`executions/lazily.py`), unless its job has a limit. A server that crashes in
the next moments forgets it, and the attempt is anybody's again: that is promised, and no breach. Only what began just
before a crash or during it may be forgotten, and only if the rows tell another story: another run of that attempt is
recorded, or none.
"""

from collections.abc import Collection, Mapping, Sequence

from chaos.ledger import Run

# PostgreSQL writes down what nobody waits for within three times its `wal_writer_delay`: 0.6 s.
_FORGETS_SECONDS = 1.0
_CLOCKS_DIFFER_SECONDS = 0.25
CRASHES = ("PostgreSQL restarted, immediate", "the disk full")

Stretch = tuple[float, float]  # of a crash: from when until when


def remembered(
    runs: Sequence[Run],
    *,
    recorded: Mapping[tuple[str, int], float],
    limited: Collection[str],
    crashes: Sequence[Stretch],
) -> list[Run]:
    """All runs but those that were forgotten; recorded is when each attempt of which there is a record was claimed."""
    return [run for run in runs if not _is_forgotten(run, recorded, limited, crashes)]


def _is_forgotten(
    run: Run, recorded: Mapping[tuple[str, int], float], limited: Collection[str], crashes: Sequence[Stretch]
) -> bool:
    may_be = any(start - _FORGETS_SECONDS <= run.began_at <= end for start, end in crashes)
    claimed_at = recorded.get((run.execution, run.attempt))
    is_another = claimed_at is None or claimed_at - run.began_at > _CLOCKS_DIFFER_SECONDS
    return may_be and is_another and run.job not in limited
