"""Who did what, when, through what.

Owns the audit trail. Invariants: entries are added and, past their days, forgotten, never changed; whatever somebody
did can be told, so that a strange name or value never undoes the deed itself. In the transaction of the deed: both are
there or neither.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.core.serializers.json import DjangoJSONEncoder
from django.db.models import QuerySet

from access.forgetting import BATCH_SIZE, forget
from access.models import ENTRY_CHARACTERS, AuditEntry
from executions import many_rows
from executions.clock import database_now
from executions.storable import storable_result, storable_text

MOST_BYTES = 64 * 1024
MOST_BYTES_OF_ONE = 16 * 1024
_ABSENT = object()


@dataclass(frozen=True)
class Deed:
    action: str
    subject: str
    before: Any = None
    after: Any = None
    note: str = ""


def record(
    *,
    who: str,
    through: str,
    action: str,
    subject: str,
    before: Any = None,
    after: Any = None,
    note: str = "",
    now: datetime | None = None,
) -> None:
    """Store one entry. What is too large or cannot be stored is replaced by a note on it."""
    deed = Deed(action, subject, before=before, after=after, note=note)
    record_many([deed], who=who, through=through, now=now)


def record_many(deeds: Iterable[Deed], *, who: str, through: str, now: datetime | None = None) -> None:
    """What somebody did in one go: an entry for each, in one statement."""
    at = now or database_now()
    many_rows.insert([_entry(deed, who=who, through=through, at=at) for deed in deeds])


def _entry(deed: Deed, *, who: str, through: str, at: datetime) -> AuditEntry:
    texts = {"who": who, "through": through, "action": deed.action, "subject": deed.subject, "note": deed.note}
    return AuditEntry(
        at=at,
        before=_storable(deed.before),
        after=_storable(deed.after),
        **{name: storable_text(text, ENTRY_CHARACTERS[name]) for name, text in texts.items()},
    )


def _storable(value: Any) -> Any:
    """As JSON. Of many facts one that is large is left out alone."""
    if value is None:
        return None
    try:
        text = json.dumps(value, cls=DjangoJSONEncoder)
        value = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        pass  # it is told as what it is below
    else:
        # Where the whole is small, none of it is large; thousands of entries are made in one go.
        if isinstance(value, dict) and (len(text) > MOST_BYTES_OF_ONE or "NaN" in text or "Infinity" in text):
            value = {name: storable_result(fact, limit_bytes=MOST_BYTES_OF_ONE) for name, fact in value.items()}
    return storable_result(value, limit_bytes=MOST_BYTES)


def what_changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What differs between the two, at the top level: as it was, and as it is."""
    different = {name for name in {*before, *after} if before.get(name, _ABSENT) != after.get(name, _ABSENT)}
    return (
        {name: value for name, value in before.items() if name in different},
        {name: value for name, value in after.items() if name in different},
    )


def forget_older(now: datetime, *, limit: int = BATCH_SIZE) -> int:
    """Remove entries that are past their days, so many at a time; returns how many."""
    return forget(past_their_days(now).order_by("at", "pk"), limit=limit)


def past_their_days(now: datetime) -> QuerySet[AuditEntry]:
    return AuditEntry.objects.filter(at__lt=now - timedelta(days=settings.ONBEAT_ACCESS_AUDIT_DAYS))
