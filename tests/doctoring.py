"""The doctor as tests call it, and an installation in which it finds nothing."""

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from io import StringIO
from typing import Any

from django.core.management import call_command

from beat import shards
from beat.models import Beat
from executions import queues
from executions.version import VERSION
from jobs import forecasting
from jobs.targets import known_tasks
from workers.models import Worker


@dataclass(frozen=True)
class Told:
    """What the doctor said as JSON, and its exit code."""

    document: dict[str, Any]
    code: int

    @property
    def findings(self) -> list[dict[str, Any]]:
        return [finding for area in self.document["areas"] for finding in area["findings"]]

    @property
    def ids(self) -> list[str]:
        return [finding["id"] for finding in self.findings]

    @property
    def bad(self) -> list[str]:
        """Without the notes."""
        return [finding["id"] for finding in self.findings if finding["severity"] != "NOTE"]

    def says(self, area: str) -> str:
        return str(next(each["says"] for each in self.document["areas"] if each["name"] == area))

    def only(self, fault: str) -> dict[str, Any]:
        """The one finding of this id."""
        (finding,) = [finding for finding in self.findings if finding["id"] == fault]
        return finding


def doctor(*areas: str) -> Told:
    output = StringIO()
    words = [word for area in areas for word in ("--only", area)]
    code = 0
    try:
        call_command("doctor", "--json", *words, stdout=output)
    except SystemExit as left:
        code = int(left.code or 0)
    told = Told(json.loads(output.getvalue()), code)
    assert code == (1 if told.document["errors"] else 0)
    return told


def a_beat(now: datetime, **more: Any) -> Beat:
    """One that has been ticking for an hour."""
    facts = {"name": "beat-1", "host": "here", "pid": 1, "version": VERSION, "shards": shards.COUNT}
    facts |= {"started_at": now - timedelta(hours=1), "ticked_at": now, "seen_at": now}
    return Beat.objects.create(**{**facts, **more})


def a_worker(now: datetime, **more: Any) -> Worker:
    facts = {"name": "worker@here", "host": "here", "pid": 1, "pool": "prefork", "concurrency": 2, "version": VERSION}
    facts |= {"queues": [queues.work_queue(name).name for name in ("default", "http")]}
    facts |= {"tasks": sorted(known_tasks()), "started_at": now, "heartbeat_at": now}
    return Worker.objects.create(**{**facts, **more})


def all_is_well(now: datetime) -> None:
    """A beat and a worker that do their work, and traces of the upkeep."""
    a_beat(now)
    a_worker(now)
    forecasting.refresh(now)
