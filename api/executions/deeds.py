"""What people and apps do about executions and dead letters, each with its entry in the audit trail.

Owns these deeds for all surfaces: the REST API, the admin and the commands call them, and say by whom and through what.
Invariant: a deed and its entry are stored together or not at all; what could not be done is refused (`TooLate`), and
leaves no entry.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction

from access import audit
from api.executions.named import found, subject_of
from executions.dead_letters import DEFAULT_REPLAYS_PER_SECOND
from executions.finding import Sought
from executions.models import Execution
from executions.outcomes import Cancelled
from jobs import dead_letters, runs, sweeps
from jobs.dead_letters import Matching, MessagesReplayed, Replayed
from jobs.refusals import TooLate
from jobs.sweeps import Swept

CANCELLED = "cancelled"
ASKED_TO_STOP = "asked to stop"
REPLAYED = "replayed"
_NOTES = {sweeps.Deed.CANCEL: CANCELLED, sweeps.Deed.REPLAY: REPLAYED}
_SELECTION = "a selection of executions"


# ── One execution ────────────────────────────────────────────────────────────────────────────────────────────────


def cancel(execution: Execution, *, reason: str = "", by: str, through: str) -> str:
    """Before it runs, or by a request to stop: which of the two it was."""
    reason = reason or CANCELLED
    with transaction.atomic():
        done = runs.cancel_executions([execution.pk], reason=reason)
        if not done.before_run and not done.asked_to_stop:
            raise TooLate("state", f"It is {found(execution.pk).state} and can no longer be cancelled.")
        _record("execution.cancel", subject_of(execution), note=reason, by=by, through=through)
    return CANCELLED if done.before_run else ASKED_TO_STOP


def retry_now(execution: Execution, *, by: str, through: str) -> None:
    with transaction.atomic():
        if not runs.retry_now([execution.pk]):
            raise TooLate(
                "state",
                f"It is {execution.state} at attempt {execution.attempt}: no retry waits for its time here.",
            )
        _record("execution.retry_now", subject_of(execution), by=by, through=through)


def replay(
    execution: Execution,
    *,
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    note: str = "",
    by: str,
    through: str,
) -> UUID:
    """As it was, or with another payload: the id of the new one."""
    with transaction.atomic():
        new = runs.replay([execution.pk], args=args, kwargs=kwargs, note=note or REPLAYED)
        if not new:
            raise TooLate(
                "state",
                f"It is {execution.state} and will still run, or stands for many fires; only what is over is replayed.",
            )
        _record("execution.replay", subject_of(execution), after={"replay": new[0]}, note=note, by=by, through=through)
    return new[0]


# ── A selection ──────────────────────────────────────────────────────────────────────────────────────────────────


def cancel_selection(ids: Collection[UUID], *, reason: str = "", by: str, through: str) -> Cancelled:
    reason = reason or CANCELLED
    with transaction.atomic():
        done = runs.cancel_executions(ids, reason=reason)
        after = {"done": len(done.before_run), "asked_to_stop": len(done.asked_to_stop)}
        _of_selection("execution.cancel", ids, after, note=reason, by=by, through=through)
    return done


def retry_selection_now(ids: Collection[UUID], *, by: str, through: str) -> int:
    with transaction.atomic():
        hurried = runs.retry_now(ids)
        _of_selection("execution.retry_now", ids, {"done": hurried}, by=by, through=through)
    return hurried


def replay_selection(ids: Collection[UUID], *, note: str = "", by: str, through: str) -> list[UUID]:
    note = note or REPLAYED
    with transaction.atomic():
        new = runs.replay(ids, note=note)
        _of_selection("execution.replay", ids, {"done": len(new)}, note=note, by=by, through=through)
    return new


def _of_selection(action: str, ids: Collection[UUID], after: Any, **more: str) -> None:
    _record(action, _SELECTION, before={"executions": list(ids)}, after=after, **more)


# ── All that match ───────────────────────────────────────────────────────────────────────────────────────────────


def sweep(
    deed: sweeps.Deed,
    sought: Sought,
    *,
    said: Any,
    note: str = "",
    limit: int = sweeps.DEFAULT_BATCH,
    after: UUID | None = None,
    now: datetime | None = None,
    by: str,
    through: str,
) -> Swept:
    """One batch of it. `said` is the filter as it was given."""
    note = note or _NOTES[deed]
    with transaction.atomic():
        swept = sweeps.sweep(deed, sought, note=note, limit=limit, after=after, now=now)
        _record(
            f"execution.{deed}",
            "executions matching a filter",
            before={"filter": said},
            after={"done": swept.done, "asked_to_stop": swept.asked_to_stop},
            note=note,
            by=by,
            through=through,
        )
    return swept


# ── Dead letters ─────────────────────────────────────────────────────────────────────────────────────────────────


def replay_dead(
    matching: Matching,
    *,
    subject: str,
    said: Any = None,
    note: str = "",
    per_second: int = DEFAULT_REPLAYS_PER_SECOND,
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    begins_at: datetime | None = None,
    most: int | None = None,
    by: str,
    through: str,
) -> Replayed:
    note = note or REPLAYED
    with transaction.atomic():
        done = dead_letters.replay(
            matching, per_second=per_second, note=note, args=args, kwargs=kwargs, begins_at=begins_at, most=most
        )
        _of_letters("dead_letter.replay", subject, said, {"replayed": done.count}, note=note, by=by, through=through)
    return done


def discard_dead(
    matching: Matching,
    *,
    subject: str,
    said: Any = None,
    note: str,
    most: int | None = None,
    by: str,
    through: str,
) -> int:
    with transaction.atomic():
        done = dead_letters.discard(matching, note=note, most=most)
        _of_letters("dead_letter.discard", subject, said, {"discarded": done}, note=note, by=by, through=through)
    return done


def _of_letters(action: str, subject: str, said: Any, after: Any, **more: str) -> None:
    _record(action, subject, before=None if said is None else {"filter": said}, after=after, **more)


def replay_messages(ids: Collection[int], *, note: str = "", by: str, through: str) -> MessagesReplayed:
    """Each in a transaction of its own: what the broker has cannot be taken back."""
    note = note or REPLAYED
    done = dead_letters.replay_messages(ids, note=note)
    after = {"replayed": done.replayed, "left": len(done.left)}
    _of_messages("dead_message.replay", ids, after, note=note, by=by, through=through)
    return done


def discard_messages(ids: Collection[int], *, note: str, by: str, through: str) -> int:
    with transaction.atomic():
        done = dead_letters.discard_messages(ids, note=note)
        _of_messages("dead_message.discard", ids, {"discarded": done}, note=note, by=by, through=through)
    return done


def _of_messages(action: str, ids: Collection[int], after: Any, **more: str) -> None:
    _record(action, "dead messages", before={"messages": list(ids)}, after=after, **more)


def _record(
    action: str, subject: str, *, before: Any = None, after: Any = None, note: str = "", by: str, through: str
) -> None:
    audit.record(who=by, through=through, action=action, subject=subject, before=before, after=after, note=note)
