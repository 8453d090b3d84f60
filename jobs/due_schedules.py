"""Schedules as a beat reads them, thousands at a time: what they say, and the fires that come of it.

Rows of the model would take several times as long. Moments are read from text, as for what goes out
(`executions/outgoing.py`).
"""

from collections.abc import Hashable
from datetime import datetime
from typing import NamedTuple

from django.db import models
from django.db.models.functions import Cast

from executions.fires import Fire, Stretch
from executions.outgoing import moment_of
from jobs.cron import depends_on_key
from jobs.jitter import jitter_of
from jobs.misfires import Misfire, Skipped, why_skipped
from jobs.models import Kind, ScheduleQuerySet, recurrence_of
from jobs.recurrence import Recurrence


class DueSchedule(NamedTuple):
    job_id: int
    key: str  # of its job
    version: int
    jitter_seconds: int
    due_at: datetime  # its next fire
    fires_left: int | None
    misfire: str
    misfire_limit: int
    misfire_grace_seconds: int
    kind: str
    expression: str
    timezone: str
    anchor_at: str | None  # these as text: they are needed once for all schedules that say the same
    start_at: str | None
    end_at: str | None

    @property
    def says(self) -> Hashable:
        """Schedules that say the same fire at the same times."""
        key = self.key if self.kind == Kind.CRON and depends_on_key(self.expression) else ""
        return (key, *self[_FIRST_SAID:])

    @property
    def recurrence(self) -> Recurrence:
        anchor_at, start_at, end_at = (
            text and moment_of(text) for text in (self.anchor_at, self.start_at, self.end_at)
        )
        return recurrence_of(
            self.kind, self.expression, self.timezone, anchor_at or None, start_at or None, end_at or None, key=self.key
        )

    def fire(self, fire_time: datetime) -> Fire:
        """One that will run. It keeps the instant of the schedule, and comes after its jitter."""
        if not self.jitter_seconds:
            return Fire(self.job_id, fire_time, fire_time)
        return Fire(self.job_id, fire_time, fire_time + jitter_of(self.key, fire_time, seconds=self.jitter_seconds))

    def left_out(self, stretch: Skipped) -> Stretch:
        """Fires that its misfire policy leaves out."""
        reason = why_skipped(Misfire(self.misfire), self.misfire_limit)
        return Stretch(self.job_id, stretch.first, stretch.last, stretch.count, reason)


_FIRST_SAID = DueSchedule._fields.index("due_at")
_MOMENTS = ("due_at", "anchor_at", "start_at", "end_at")
_NAMES = {"key": "job__key", **{name: f"{name}_text" for name in _MOMENTS}}


def read(schedules: ScheduleQuerySet) -> list[DueSchedule]:
    """Only the key of the job: what to run is copied within the database."""
    texts = {f"{name}_text": Cast(name.replace("due_at", "next_fire_at"), models.TextField()) for name in _MOMENTS}
    rows = schedules.annotate(**texts).values_list(*(_NAMES.get(name, name) for name in DueSchedule._fields))
    return [
        DueSchedule._make((*row[:_FIRST_SAID], moment_of(row[_FIRST_SAID]), *row[_FIRST_SAID + 1 :])) for row in rows
    ]
