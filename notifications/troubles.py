"""What jobs are in, kept up with the facts.

Owns the rows of troubles. Invariant: for each receiver, job and kind there is at most one, from the first fact until it
is over; a fact that a receiver wants is counted in one of them, once.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from executions import many_rows
from notifications.facts import Fact
from notifications.kinds import FAILING, Kind
from notifications.lateness import Late, LateJobs
from notifications.models import Receiver, Trouble

_COLUMNS = ("last_at", "untold", "execution_id", "fire_time", "attempt", "said")
Place = tuple[int, int, str]  # receiver, job, kind


def add(facts: Sequence[Fact], receivers: Sequence[Receiver]) -> int:
    """Count these facts for whom they are for; how many there were for anybody."""
    wanted = list(_wanted(facts, receivers))
    if not wanted:
        return 0
    kept = _kept(receivers, {fact.job_id for _, fact, _ in wanted}, FAILING)
    for receiver, fact, kind in wanted:
        place = (receiver.pk, fact.job_id, kind)
        trouble = kept.get(place)
        if trouble is None:
            trouble = kept[place] = Trouble(receiver=receiver, job_id=fact.job_id, kind=kind, began_at=fact.at)
            trouble.last_at = fact.at
        trouble.untold += 1
        if fact.at >= trouble.last_at:
            trouble.last_at, trouble.said = fact.at, _said(fact)
            trouble.execution_id, trouble.fire_time, trouble.attempt = fact.execution_id, fact.fire_time, fact.attempt
    touched = {(receiver.pk, fact.job_id, kind) for receiver, fact, kind in wanted}
    _store([kept[place] for place in sorted(touched)])
    return len(wanted)


def _wanted(facts: Sequence[Fact], receivers: Sequence[Receiver]) -> Iterator[tuple[Receiver, Fact, Kind]]:
    for receiver in receivers:
        for fact in facts:
            kind = Kind.DEAD_LETTER if fact.is_dead and receiver.wants(Kind.DEAD_LETTER) else Kind.FAILURE
            if receiver.wants(kind) and fact.at >= receiver.since and receiver.covers(fact.job_key):
                yield receiver, fact, kind


def _said(fact: Fact) -> dict[str, Any]:
    return {
        "job": fact.job_key,
        "execution": str(fact.execution_id),
        "attempt": fact.attempt,
        "outcome": fact.outcome,
        "error": fact.error,
        "at": fact.at.isoformat(),
        "is_dead": fact.is_dead,
        "next_at": fact.next_at and fact.next_at.isoformat(),
    }


def begin_late(late: LateJobs, receivers: Sequence[Receiver], *, now: datetime) -> None:
    """The troubles of jobs that are late by now."""
    if not late.by_job:
        return
    kept = _kept(receivers, late.by_job, [Kind.LATENESS])
    begun = [
        Trouble(
            receiver=receiver,
            job_id=job_id,
            kind=Kind.LATENESS,
            began_at=one.since,
            last_at=one.since,
            untold=1,
            execution_id=one.execution_id,
            said=_said_late(one),
        )
        for receiver in receivers
        for job_id, one in late.by_job.items()
        if (receiver.pk, job_id, str(Kind.LATENESS)) not in kept
        and one.since < now - timedelta(seconds=receiver.late_after_seconds)
        and receiver.covers(one.job_key)
    ]
    many_rows.insert(begun, ending="ON CONFLICT DO NOTHING")


def caught_up(late: LateJobs, receivers: Sequence[Receiver], *, now: datetime) -> list[Trouble]:
    """Those of jobs that are late no more."""
    return [trouble for trouble in open_ones(receivers, [Kind.LATENESS]) if _is_over(trouble, late, now=now)]


def _is_over(trouble: Trouble, late: LateJobs, *, now: datetime) -> bool:
    """Not as soon as it is late by a second less than makes it late: else it would begin and end by turns."""
    one = late.by_job.get(trouble.job_id)
    if one is None:
        return late.is_all
    return one.since > now - timedelta(seconds=trouble.receiver.late_after_seconds) / 2


def _said_late(late: Late) -> dict[str, Any]:
    return {
        "job": late.job_key,
        "execution": str(late.execution_id) if late.execution_id else "",
        "since": late.since.isoformat(),
        "why": late.why,
    }


def open_ones(
    receivers: Iterable[Receiver], kinds: Sequence[Kind], *, most: int | None = None, **only: Any
) -> list[Trouble]:
    rows = Trouble.objects.filter(receiver__in=[r.pk for r in receivers], kind__in=kinds, **only)
    return list(rows.select_related("receiver", "job").order_by("pk")[:most])


def _kept(receivers: Sequence[Receiver], jobs: Iterable[int], kinds: Sequence[Kind]) -> dict[Place, Trouble]:
    rows = Trouble.objects.filter(receiver__in=[r.pk for r in receivers], job_id__in=list(jobs), kind__in=kinds)
    return {(row.receiver_id, row.job_id, row.kind): row for row in rows}


def _store(rows: Sequence[Trouble]) -> None:
    Trouble.objects.bulk_create(
        [Trouble(**{name: getattr(row, name) for name in _ALL}) for row in rows],
        update_conflicts=True,
        unique_fields=["receiver", "job", "kind"],
        update_fields=_COLUMNS,
    )


_ALL = ("receiver_id", "job_id", "kind", "began_at", *_COLUMNS, "told_at")
