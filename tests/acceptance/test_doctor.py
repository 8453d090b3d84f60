"""The doctor before a real installation: it finds nothing, and then who was killed."""

import json
import subprocess
import sys
from typing import Any

from tests.platform import ROOT, Platform
from tests.tiers import once_full
from tests.waiting import wait_until

pytestmark = once_full
DEFINE = """
from executions.clock import database_now
from jobs import definitions
from jobs.recurrence import Cron
definitions.create(key="pulse", task="onbeat.echo", schedule=Cron("* * * * * *"), now=database_now())
"""
PROCESSES = ("--only", "beats", "--only", "workers")
SUCCEEDED = "SELECT count(*) FROM onbeat_execution WHERE state = 'SUCCEEDED'"


def doctor(platform: Platform, *words: str) -> tuple[dict[str, Any], int]:
    command = [sys.executable, "manage.py", "doctor", "--json", *words]
    done = subprocess.run(command, cwd=ROOT, env=platform.environment, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return json.loads(done.stdout), done.returncode


def bad(document: dict[str, Any]) -> dict[str, str]:
    """What was found, without notes."""
    found = [finding for area in document["areas"] for finding in area["findings"]]
    return {finding["id"]: finding["says"] for finding in found if finding["severity"] != "NOTE"}


def test_a_real_installation_has_no_findings_until_its_processes_are_killed(platform: Platform) -> None:
    platform.environment["ONBEAT_BEAT_SILENT_AFTER_SECONDS"] = "2"
    platform.migrate()
    platform.manage("shell", "-c", DEFINE)
    beat, worker = platform.beat(), platform.worker()
    wait_until(lambda: platform.count(SUCCEEDED) > 1, what="executions run")

    document, code = doctor(platform)
    assert (bad(document), code) == ({}, 0)
    assert all(area["is_examined"] for area in document["areas"])
    says = {area["name"]: area["says"] for area in document["areas"]}
    assert says["workers"] == "1 alive, for 2 attempts at once"
    assert says["beats"].startswith("1 ticking")

    beat.kill_all()
    worker.kill_all()
    wait_until(
        lambda: (
            {"beats.E01", "beats.W02", "workers.E01"}
            <= set(bad(doctor(platform, "--only", "beats", "--only", "workers")[0]))
        ),
        what="the doctor tells that nobody is there any more",
    )
    assert doctor(platform)[1] == 1


def test_before_anything_was_prepared_it_says_what_to_do(platform: Platform) -> None:
    document, code = doctor(platform)
    assert code == 1
    assert "migrations are missing" in bad(document)["database.E03"]
    passed_by = [area["name"] for area in document["areas"] if not area["is_examined"]]
    assert passed_by[-1] == "upkeep"


def test_an_area_that_is_none_is_refused_with_those_that_are(platform: Platform) -> None:
    command = [sys.executable, "manage.py", "doctor", "--only", "databse"]
    done = subprocess.run(command, cwd=ROOT, env=platform.environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--only 'databse' is none of settings, database, " in done.stderr
