"""Figures that are dear to take, kept for whoever asks: a beat takes them now and then, a scrape reads one row.

Owns their table. Invariant: a snapshot is whole, bears the moment it was taken, and replaces an older one only.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from executions.models import Snapshot


def keep(name: str, figures: Mapping[str, Any], *, at: datetime) -> None:
    if not Snapshot.objects.filter(name=name, at__lte=at).update(at=at, figures=dict(figures)):
        Snapshot.objects.bulk_create([Snapshot(name=name, at=at, figures=dict(figures))], ignore_conflicts=True)


def keep_instead_of(old: Snapshot, figures: Mapping[str, Any], *, at: datetime) -> bool:
    """False if another has replaced that one meanwhile."""
    return bool(Snapshot.objects.filter(name=old.name, at=old.at).update(at=at, figures=dict(figures)))


def kept(name: str) -> Snapshot | None:
    return Snapshot.objects.filter(name=name).first()
