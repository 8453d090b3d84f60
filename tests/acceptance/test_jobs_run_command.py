"""`jobs run` with a real beat and worker: what it waits for, its exit codes, and that Ctrl-C ends the waiting alone."""

import json
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.crew import Crew, a_crew
from tests.platform import ROOT, Process
from tests.tiers import once_full
from tests.waiting import wait_until

pytestmark = once_full


@pytest.fixture(scope="module")
def crew(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crew]:
    with a_crew(tmp_path_factory) as started, started.working("only"):
        yield started


class Done:
    """A command that ended: its exit code and what it printed."""

    def __init__(self, crew: Crew, *words: str, said: str = "") -> None:
        command = [sys.executable, "manage.py", "jobs", *words]
        environment = {**crew.platform.environment, "LOGNAME": "anna"}
        done = subprocess.run(
            command, cwd=ROOT, env=environment, input=said, capture_output=True, text=True, check=False, timeout=120
        )
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr
        assert "Traceback" not in self.err, self.err

    @property
    def data(self) -> Any:
        (line,) = self.out.splitlines()
        return json.loads(line)


def a_job(crew: Crew, task: str, *, attempts: int = 1, **fields: object) -> str:
    key = f"job-{uuid.uuid4().hex[:8]}"
    fields = {"key": key, "task": task, "task_lives_elsewhere": True, **fields}
    retry = f"RetryPolicy(max_attempts={attempts}, initial_seconds=1, cap_seconds=1)"
    crew.ask(f"definitions.create(retry={retry}, **{fields!r}).pk")
    return key


def test_who_succeeds_ends_with_0_and_each_state_is_told(crew: Crew) -> None:
    done = Done(crew, "run", a_job(crew, "onbeat.echo"), "--payload", '{"message": "héllo"}', "--wait")
    assert done.code == 0, done.err
    first, *_, told, result = done.out.splitlines()
    execution = first.removeprefix("Asked for the execution ").removesuffix(".")
    assert crew.state(execution) == "SUCCEEDED"
    assert "SUCCEEDED" in done.out
    assert told.startswith("Attempt 1 succeeded at ")
    assert result == 'Result: "héllo"'


def test_who_dies_ends_with_1_and_says_why(crew: Crew) -> None:
    key = a_job(crew, "onbeat.fail_until")
    done = Done(crew, "run", key, "--payload", "[9]", "--wait")
    assert done.code == 1
    assert "attempt 1 fails on purpose" in done.out.splitlines()[-1]
    data = Done(crew, "run", key, "--payload", "[9]", "--wait", "--json")
    assert (data.code, data.data["state"], data.data["args"]) == (1, "DEAD", [9])


def test_a_retry_is_waited_for(crew: Crew) -> None:
    done = Done(crew, "run", a_job(crew, "onbeat.fail_until", attempts=2), "--wait")
    assert done.code == 0
    assert "attempt 2 of 2" in done.out


def test_what_is_not_over_in_time_ends_with_3_and_goes_on(crew: Crew, tmp_path: Path) -> None:
    door = tmp_path / "door"
    key = a_job(crew, "crew.wait_for", args=[str(door)])
    done = Done(crew, "run", key, "--wait", "--timeout", "1", "--json")
    assert done.code == 3
    execution = done.data["id"]
    crew.reaches(execution, "RUNNING")
    door.touch()
    crew.reaches(execution, "SUCCEEDED")


def test_ctrl_c_ends_the_waiting_with_130_and_the_run_goes_on(crew: Crew, tmp_path: Path) -> None:
    door = tmp_path / "door"
    key = a_job(crew, "crew.wait_for", args=[str(door)])
    command = [sys.executable, "manage.py", "jobs", "run", key, "--wait"]
    waiting: Process = crew.platform.start(f"waiting-{key}", command)
    wait_until(lambda: "RUNNING" in waiting.output(), what="the command sees it run")
    waiting.signal(signal.SIGINT)
    wait_until(lambda: not waiting.is_running(), what="the command ends")
    assert waiting.terminate() == 130
    assert "Traceback" not in waiting.output()
    assert "KeyboardInterrupt" not in waiting.output()
    execution = waiting.output().split(".")[0].removeprefix("Asked for the execution ")
    assert crew.state(execution) == "RUNNING"
    door.touch()
    crew.reaches(execution, "SUCCEEDED")


def test_a_payload_is_an_object_a_list_a_file_or_the_standard_input(crew: Crew, tmp_path: Path) -> None:
    key = a_job(crew, "onbeat.echo", kwargs={"message": "of the job"})
    file = tmp_path / "payload.json"
    file.write_text('{"message": "of a file"}')

    def result(*payload: str, said: str = "") -> Any:
        return Done(crew, "run", key, "--wait", "--json", *payload, said=said).data["result"]

    assert result() == "of the job"
    assert result("--payload", '{"message": "of an object"}') == "of an object"
    assert result("--payload", f"@{file}") == "of a file"
    assert result("--payload", "-", said='{"message": "of the input"}') == "of the input"
    plain = a_job(crew, "onbeat.echo")
    assert Done(crew, "run", plain, "--payload", '["of a list"]', "--wait", "--json").data["result"] == "of a list"


def test_a_delayed_run_comes_later_and_its_key_finds_it_again(crew: Crew) -> None:
    key = a_job(crew, "onbeat.echo")
    first = Done(crew, "run", key, "--delay", "1h", "--run-key", "user-1", "--json").data
    again = Done(crew, "run", key, "--at", "3h", "--run-key", "user-1", "--json").data
    assert (first["is_new"], first["state"]) == (True, "SCHEDULED")
    assert again == {**first, "is_new": False}
    assert Done(crew, "run", key, "--run-key", "user-1").out.startswith("This run key is in use by the execution ")
    soon = Done(crew, "run", key, "--delay", "1", "--wait", "--json")
    assert (soon.code, soon.data["state"], soon.data["trigger"]) == (0, "SUCCEEDED", "DELAYED")


def test_who_asked_stands_in_the_audit_trail(crew: Crew) -> None:
    key = a_job(crew, "onbeat.echo")
    Done(crew, "run", key)
    Done(crew, "run", key, "--by", "ops")
    entries = crew.platform.rows(
        f"SELECT who, through, action FROM onbeat_audit_entry WHERE subject = 'job:{key}' ORDER BY id"
    )
    assert entries == [("anna", "command", "job.run"), ("ops", "command", "job.run")]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--timeout", "5"], "--timeout is for --wait; leave it out, or wait."),
        (["--wait", "--timeout", ""], "--timeout '' is no duration; write one such as 90s, 15m, 2h or 3d."),
        (["--payload", "5"], "--payload must be a JSON object for named arguments, or a list for positional ones."),
        (
            ["--payload", '{"a": NaN}'],
            "--payload must be plain JSON: Out of range float values",
        ),
        (["--priority", "99"], "--priority must be 0 (low) to 9 (critical), not 99."),
        (["--at", "2020-01-01"], "--at 2020-01-01T00:00:00+00:00 is past; leave it out to run now."),
        (["--at", "1h", "--delay", "1h"], "--delay and --at exclude each other; say one of them."),
    ],
)
def test_a_run_that_cannot_be_is_one_sentence_and_none_is_asked_for(crew: Crew, options: list[str], says: str) -> None:
    before = crew.platform.count("SELECT count(*) FROM onbeat_execution")
    done = Done(crew, "run", a_job(crew, "onbeat.echo"), *options)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"onbeat: {says}")
    assert done.err.count("\n") == 1
    assert crew.platform.count("SELECT count(*) FROM onbeat_execution") == before
