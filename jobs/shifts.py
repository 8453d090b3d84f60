"""What clock changes do to fires, said beside each. Pure: no Django.

Owns the remarks. Invariant: a fire has one exactly when its zone's clocks changed between it and the fire before it
(or now), when its own time is skipped by such a change, or when its hour comes twice.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from jobs import dst
from jobs.recurrence import Cron, Every, Once, Within


@dataclass(frozen=True)
class ShownFire:
    at: datetime
    local: datetime  # in the zone of the schedule
    remark: str  # empty: nothing is special about it


def with_remarks(
    recurrence: Cron | Every | Once | Within, fires: Sequence[datetime], *, since: datetime
) -> list[ShownFire]:
    pattern = recurrence.recurrence if isinstance(recurrence, Within) else recurrence
    cron = pattern if isinstance(pattern, Cron) else None
    zone = dst.zone_named(cron.timezone if cron else "UTC")
    before = dst.offset_at(zone, since)
    shown = []
    for fire in fires:
        offset, local = dst.offset_at(zone, fire), fire.astimezone(zone)
        wall = local.replace(tzinfo=None, fold=0)
        if cron is not None and cron.fields.is_fixed_time and not _names(cron, wall):
            remark = "moved: the clocks skip its own time that night"
        elif len(dst.instants_of(zone, wall)) > 1:
            remark = "this hour comes twice" + (", and this is the second time" if local.fold else "")
        elif offset != before:
            way = "forward" if offset > before else "back"
            remark = f"after the clocks went {way}: UTC{signed(before)} became UTC{signed(offset)}"
        else:
            remark = ""
        shown.append(ShownFire(fire, local, remark))
        before = offset
    return shown


def _names(cron: Cron, wall: datetime) -> bool:
    fields = cron.fields
    return wall.hour in fields.hour.values and wall.minute in fields.minute.values


def signed(offset: timedelta) -> str:
    """Such as +05:30."""
    minutes = round(offset.total_seconds() / 60)
    sign = "-" if minutes < 0 else "+"
    return f"{sign}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"
