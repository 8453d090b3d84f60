"""The end of an attempt: its execution changes and its record is written, both or neither.

Said in plain SQL: Django takes a millisecond and three round trips for it, and it is said for each execution.
Invariant: it happens only if the claim still stands, as `rows.held_by` says it.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db import connection, transaction
from django.db.models import JSONField

from executions import partitions, prepared, value_lists
from executions.identity import MILLISECOND, fire_time_of
from executions.models import Attempt, Execution
from executions.outcomes import Claim
from executions.states import Outcome

ASKED_TO_STOP = "AND cancel_requested_at IS NOT NULL"
NOT_ASKED_TO_STOP = "AND cancel_requested_at IS NULL"

_CHANGE = """
UPDATE onbeat_execution SET {changes}
WHERE id = %s AND fire_time >= %s AND fire_time < %s {month}
AND state = 'RUNNING' AND attempt = %s AND worker = %s AND started_at = %s {only}
"""
_RECORDED = (
    "execution_id",
    "fire_time",
    "number",
    "outcome",
    "worker",
    "started_at",
    "finished_at",
    "error",
    "response",
)
_RECORD = f"INSERT INTO onbeat_attempt ({', '.join(_RECORDED)}) SELECT {'%s, ' * (len(_RECORDED) - 1)}{{response}}"
# Both in one. A response that is missing says its type here, where nothing else does.
_BOTH = "WITH ended AS ({change} RETURNING 1) " + _RECORD.format(response="%s::jsonb") + " FROM ended"
_DOCUMENTS = {
    field.attname: field
    for field in (*Execution._meta.concrete_fields, *Attempt._meta.concrete_fields)
    if isinstance(field, JSONField)
}


def end_attempt(
    claim: Claim, outcome: Outcome, changes: Mapping[str, object], *, error: str, now: datetime, only: str = ""
) -> bool:
    """Change the claimed execution and record its attempt. False: the claim no longer stands, or `only` does not hold.

    Its commit is waited for: the message is let go next, and the work would be lost to a server that forgets it.
    """
    fire_time = fire_time_of(claim.execution_id)
    fence = (claim.execution_id, fire_time, fire_time + MILLISECOND, claim.attempt, claim.worker, claim.started_at)
    change = value_lists.as_parameters([*map(_stored, changes, changes.values()), *fence])
    attempt = (claim.execution_id, fire_time, claim.attempt, outcome, claim.worker, claim.started_at, now, error)
    recorded = zip(_RECORDED, (*attempt, claim.response), strict=True)
    record = value_lists.as_parameters(_stored(name, value) for name, value in recorded)
    assignments, month = ", ".join(f"{name} = %s" for name in changes), partitions.month_in_words(fire_time)
    changed = _CHANGE.format(changes=assignments, month=month, only=only)
    with prepared.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(_BOTH.format(change=changed), [*change, *record])
            return bool(cursor.rowcount)
        with transaction.atomic():  # SQLite cannot say both in one
            cursor.execute(changed, change)
            has_changed = bool(cursor.rowcount)
            if has_changed:
                cursor.execute(_RECORD.format(response="%s"), record)
            return has_changed


def _stored(name: str, value: object) -> Any:
    """A document as the database takes it, and a word of ours as its text."""
    if name in _DOCUMENTS:
        return _DOCUMENTS[name].get_db_prep_save(value, connection)
    return str(value) if isinstance(value, str) else value
