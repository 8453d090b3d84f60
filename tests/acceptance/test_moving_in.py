"""Fifty tasks of a real django-celery-beat are moved in, and fire when they fired there, by its own code.

What may differ is what the report said: a task without a note fires at the same instants, and one whose note tells of
clock changes differs around these alone.
"""

import json
import subprocess
import sys
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import islice, takewhile
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from zoneinfo import ZoneInfo

import psycopg
import pytest
from django.conf import settings

from api.jobs import bodies
from api.jobs.bodies import ScheduleBody
from jobs import dst
from jobs.moving_in.translation import ABOUT_FIRES
from tests.platform import ROOT, Platform
from tests.tiers import once_full

pytestmark = once_full

BERLIN, NEW_YORK = ZoneInfo("Europe/Berlin"), ZoneInfo("America/New_York")
_NIGHT = timedelta(hours=4)
_MANY_A_DAY = 100


@dataclass(frozen=True)
class OldBeat:
    """The project that is left, with tables of its own."""

    address: str
    now: datetime  # when its tasks were stored

    def fires(self, asked: Sequence[dict[str, Any]]) -> list[set[datetime]]:
        """When they come there, to the second."""
        found = json.loads(_run("fires", self.address, json.dumps(asked)))
        return [{datetime.fromisoformat(text).replace(microsecond=0) for text in fires} for fires in found]


def _run(module: str, address: str, said: str = "") -> str:
    environment = {
        "PATH": "/usr/bin:/bin",
        "OLD_DATABASE_URL": address,
        "DJANGO_SETTINGS_MODULE": "tests.acceptance.old_beat.settings",
    }
    command = [sys.executable, "-m", f"tests.acceptance.old_beat.{module}"]
    done = subprocess.run(command, cwd=ROOT, env=environment, input=said, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def old_beat(tmp_path: Path, is_full: bool) -> Iterator[OldBeat]:
    if not is_full:
        address = f"sqlite://{tmp_path}/old beat.sqlite3".replace(" ", "%20")
        yield OldBeat(address, datetime.fromisoformat(_run("store", address)))
        return
    name = f"old{uuid.uuid4().hex[:10]}"
    address = urlunsplit(urlsplit(settings.DATABASE_URL)._replace(path=f"/{name}"))
    with psycopg.connect(settings.DATABASE_URL, autocommit=True) as server:
        server.execute(f'CREATE DATABASE "{name}"'.encode())
        try:
            yield OldBeat(address, datetime.fromisoformat(_run("store", address)))
        finally:
            server.execute(f'DROP DATABASE "{name}" WITH (FORCE)'.encode())


@pytest.fixture
def here(platform: Platform, old_beat: OldBeat) -> Platform:
    """Without the address on a command line."""
    platform.migrate()
    platform.environment["OLD_DATABASE_URL"] = old_beat.address
    return platform


def import_beat(platform: Platform, *options: str, code: int = 0) -> dict[str, Any]:
    command = [sys.executable, "manage.py", "import_beat", "--json", *options]
    done = subprocess.run(
        command, cwd=ROOT, env=platform.environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == code, done.stdout + done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


@dataclass(frozen=True)
class Compared:
    """One job and a stretch of time."""

    name: str
    schedule: dict[str, Any]
    notes: frozenset[str]
    start: datetime
    end: datetime
    is_begun_anew: bool  # as if it had run at the start; or else as it is stored there

    def here(self) -> set[datetime]:
        recurrence = bodies.recurrence(ScheduleBody().run_validation(self.schedule), now=self.start)

        def following() -> Iterator[datetime]:
            moment = recurrence.next_after(self.start)
            while moment is not None:
                yield moment
                moment = recurrence.next_after(moment)

        fires = islice(following(), self.schedule.get("max_fires"))
        return set(takewhile(lambda fire: fire <= self.end, fires))

    def asked_there(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "start": self.start.isoformat(),
            "end": self.end.isoformat(),
            "last_run_at": self.start.isoformat() if self.is_begun_anew else None,
        }


def changes_around(now: datetime) -> list[tuple[dst.Change, dst.Change]]:
    """The next change of Berlin in spring and in autumn, each with the one of New York beside it."""
    pairs = []
    change = dst.next_change(BERLIN, now + timedelta(days=20), until=now + timedelta(days=400))
    while change is not None and len(pairs) < 2:
        beside = dst.next_change(
            NEW_YORK, change.instant - timedelta(days=25), until=change.instant + timedelta(days=25)
        )
        assert beside is not None
        pairs.append((change, beside))
        change = dst.next_change(BERLIN, change.instant, until=now + timedelta(days=800))
    return pairs


def stretches(job: Compared, now: datetime) -> Iterator[Compared]:
    """The next thirty days, and thirty around each clock change; of what fires all the time a few around it."""
    is_dense = len(replace(job, start=now, end=now + timedelta(days=1), is_begun_anew=False).here()) > _MANY_A_DAY
    yield replace(job, start=now, end=now + timedelta(days=1 if is_dense else 30, seconds=37), is_begun_anew=False)
    if "cron" not in job.schedule or job.schedule["max_fires"] or job.schedule["end"]:
        return
    for pair in changes_around(now):
        start = min(change.instant for change in pair) - timedelta(days=3)
        spans = [(start, start + timedelta(days=30))]
        if is_dense:
            day = timedelta(days=1, minutes=3)
            spans = [(change.instant - day, change.instant + day) for change in pair]
        yield from (replace(job, start=start, end=end, is_begun_anew=True) for start, end in spans)


def is_near_a_change(fire: datetime, zone: str) -> bool:
    return dst.next_change(dst.zone_named(zone), fire - _NIGHT, until=fire + _NIGHT) is not None


def test_fifty_tasks_that_are_moved_in_fire_when_they_fired_there_but_where_the_report_says_so(
    here: Platform, old_beat: OldBeat
) -> None:
    told = import_beat(here, "--database-from-env", "OLD_DATABASE_URL", "--apply", code=1)
    stored = {job["key"]: job for job in json.loads(here.manage("jobs", "list", "--limit", "200", "--json"))["items"]}
    assert set(stored) == {job["key"] for job in told["jobs"]}
    now = old_beat.now
    jobs = [
        Compared(
            job["name"], stored[job["key"]]["schedule"], frozenset(n["about"] for n in job["notes"]), now, now, False
        )
        for job in told["jobs"]
        if job["state"] == "ACTIVE"
    ]
    assert len(told["jobs"]) + len(told["cannot_move"]) + len(told["left_out"]) >= 50
    compared = [each for job in jobs for each in stretches(job, now)]
    there = old_beat.fires([each.asked_there() for each in compared])
    wrong, differing = [], set()
    for each, theirs in zip(compared, there, strict=True):
        off = each.here() ^ theirs
        if "clock-change" in each.notes and off:
            differing.add(each.name)
            off = {fire for fire in off if not is_near_a_change(fire, each.schedule["timezone"])}
        if off and not each.notes & (ABOUT_FIRES - {"clock-change"}):
            wrong.append((each.name, each.schedule, sorted(off)[:3]))
    assert wrong == []
    assert sum(map(len, there)) > 10_000
    noted = {each.name for each in compared if "clock-change" in each.notes}
    assert {name for name in noted if name.startswith(("berlin", "new-york", "london"))} <= differing
    assert {"berlin.breakfast", "berlin.even-hours", "berlin.quarters-at-night", "new-york.open"}.isdisjoint(noted)


def test_to_move_in_again_changes_nothing_and_what_cannot_be_moved_is_told_each_time(here: Platform) -> None:
    options = ("--database-from-env", "OLD_DATABASE_URL", "--paused", "--by", "ops")
    first = import_beat(here, *options, "--apply", code=1)
    assert first["counts"]["created"] >= 45
    before = here.rows("SELECT key, version, state FROM onbeat_job ORDER BY key")
    assert {state for _, _, state in before} == {"PAUSED"}
    again = import_beat(here, *options, "--apply", code=1)
    assert again["counts"]["unchanged"] == first["counts"]["created"]
    assert again["counts"]["created"] == again["counts"]["changed"] == 0
    assert again["cannot_move"] == first["cannot_move"]
    assert here.rows("SELECT key, version, state FROM onbeat_job ORDER BY key") == before


def test_the_schedule_of_a_celery_app_is_read_in_a_process_of_its_own(here: Platform) -> None:
    told = import_beat(here, "--app", "tests.acceptance.old_beat:app", "--workdir", str(ROOT))
    jobs = {job["name"]: job for job in told["jobs"]}
    schedules = {name: job["definition"]["schedule"] for name, job in jobs.items()}
    assert schedules == {
        "every-ten-minutes": {"every": 600},
        "hourly": {"every": 3600},
        "on-the-hour": {"every": 3600, "anchor": "2019-12-31T23:00:00Z"},
        "breakfast": {"cron": "30 7 * * mon-fri", "timezone": "Europe/Berlin"},
        "some-minutes": {"cron": "5,20 12 * * *", "timezone": "Europe/Berlin"},
        "countdown": {"every": 60},
    }
    assert jobs["breakfast"]["definition"]["args"] == ["x"]
    assert (jobs["hourly"]["definition"]["queue"], jobs["hourly"]["definition"]["priority"]) == ("mail", 7)
    assert {note["about"] for note in jobs["countdown"]["notes"]} == {"options", "expiry"}
    assert {each["name"]: each["why"] for each in told["cannot_move"]} == {
        "sunset": "It follows the sun (sunset), and no schedule here does.",
        "tides": "Its schedule is of a class of its own, tests.acceptance.old_beat.settings.Tides.",
        "own-clock": "Its schedule has a clock of its own (nowfun).",
        "half-a-second": "Its interval is 0.5 s, and here it is a whole number of seconds, 1 or more.",
        "not json": next(each["why"] for each in told["cannot_move"] if each["name"] == "not json"),
    }
    assert next(each for each in told["cannot_move"] if each["name"] == "not json")["why"].startswith(
        "Its kwargs are not an object in JSON: \"{'of': <object object at "
    )
