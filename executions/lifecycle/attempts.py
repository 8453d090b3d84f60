"""The end of an attempt: its execution changes and its record is written, both or neither.

Said in plain SQL: Django takes a millisecond and three round trips for it, and it is said for each execution.
Invariant: it happens only if the claim still stands, as `rows.held_by` says it.
"""

from collections.abc import Mapping
from typing import Any

from django.db import connection, transaction
from django.db.models import Model

from executions import value_lists
from executions.identity import MILLISECOND, fire_time_of
from executions.models import Attempt, Execution
from executions.outcomes import Claim

ASKED_TO_STOP = "AND cancel_requested_at IS NOT NULL"
NOT_ASKED_TO_STOP = "AND cancel_requested_at IS NULL"

_CHANGE = """
UPDATE onbeat_execution SET {changes}
WHERE id = %s AND fire_time >= %s AND fire_time < %s
AND state = 'RUNNING' AND attempt = %s AND worker = %s AND started_at = %s {only}
"""
_RECORD = "INSERT INTO onbeat_attempt ({columns}) SELECT {values}"
# On PostgreSQL both are one statement, which needs no transaction around it. SQLite cannot say that.
_BOTH = f"WITH ended AS ({_CHANGE} RETURNING 1) {_RECORD} FROM ended"


def end_attempt(claim: Claim, attempt: Attempt, changes: Mapping[str, object], *, only: str = "") -> bool:
    """Change the claimed execution and record its attempt. False: the claim no longer stands, or `only` does not hold.

    Its commit is waited for: the message is let go next, and the work would be lost to a server that forgets it.
    """
    fire_time = fire_time_of(claim.execution_id)
    fence = (claim.execution_id, fire_time, fire_time + MILLISECOND, claim.attempt, claim.worker, claim.started_at)
    changed = _stored(Execution, changes)
    change = [*changed.values(), *map(value_lists.parameter, fence)]
    names = [field.attname for field in Attempt._meta.concrete_fields if not field.primary_key]
    recorded = _stored(Attempt, {name: getattr(attempt, name) for name in names})
    parts = {
        "changes": ", ".join(f"{column} = %s" for column in changed),
        "only": only,
        "columns": ", ".join(recorded),
        "values": ", ".join(["%s"] * len(recorded)),
    }
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(_BOTH.format(**parts), [*change, *recorded.values()])
            return bool(cursor.rowcount)
        with transaction.atomic():
            cursor.execute(_CHANGE.format(**parts), change)
            has_changed = bool(cursor.rowcount)
            if has_changed:
                cursor.execute(_RECORD.format(**parts), list(recorded.values()))
            return has_changed


def _stored(model: type[Model], values: Mapping[str, object]) -> dict[str, Any]:
    """By column, as the database takes them."""
    fields = {name: model._meta.get_field(name) for name in values}
    return {
        str(field.column): field.get_db_prep_save(values[name], connection)  # type: ignore[union-attr]
        for name, field in fields.items()
    }
