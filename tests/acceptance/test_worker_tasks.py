"""What handlers get from a real worker, embedded and full: context, results, plain Celery children, priorities."""

import json
import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.crew import Crew, a_crew
from tests.tiers import once_full
from tests.waiting import wait_until

pytestmark = once_full


@pytest.fixture(scope="module")
def crew(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crew]:
    with a_crew(tmp_path_factory) as started, started.working("only"):
        yield started


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "notes"


def test_an_attempt_goes_on_from_the_checkpoint_of_the_one_before_it(crew: Crew, path: Path) -> None:
    execution = crew.run("crew.pages", str(path), attempts=2)
    crew.reaches(execution, "SUCCEEDED")
    assert crew.lines(path) == ["page 1 attempt 1", "page 2 attempt 1", "page 3 attempt 2"]
    stored = crew.ask(
        f"list(Execution.objects.filter(pk='{execution}').values_list('result', 'checkpoint', 'progress'))"
    )
    assert stored == [["2 True True", {"page": 3}, {"done": 3, "total": 3, "note": "page 3"}]]


def test_chains_chords_and_tasks_on_commit_are_plain_celery(crew: Crew, path: Path) -> None:
    crew.reaches(crew.run("crew.parent", str(path)), "SUCCEEDED")
    lines = crew.begins(path, 3)
    assert sorted(lines) == ["noted 100 False", "noted 3 False", "noted 32 False"]


def test_a_kept_result_is_there_for_asyncresult_and_any_other_on_its_row_alone(crew: Crew) -> None:
    kept, plain = crew.run("onbeat.echo", "kept", keep_result=True), crew.run("onbeat.echo", "plain")
    failed = crew.run("onbeat.fail_until", 9, keep_result=True)
    for execution in (kept, plain):
        crew.reaches(execution, "SUCCEEDED")
    crew.reaches(failed, "DEAD")
    assert crew.ask(f"AsyncResult('{kept}').get(timeout=10)") == "kept"
    wait_until(lambda: crew.ask(f"AsyncResult('{failed}').state") == "FAILURE", what="the failure is told to Celery")
    assert "fails on purpose" in crew.ask(f"str(AsyncResult('{failed}').result)")
    assert crew.ask(f"AsyncResult('{plain}').state") == "PENDING"
    assert crew.ask(f"Execution.objects.get(pk='{plain}').result") == "plain"


def test_a_worker_tells_what_it_is_and_what_it_runs(crew: Crew, path: Path) -> None:
    execution = crew.run("crew.work", str(path), 2)
    crew.begins(path)
    wait_until(lambda: crew.ask("Worker.objects.get().running") == [execution], what="it tells what it runs")
    worker = json.loads(crew.ask("json.dumps(Worker.objects.values().get(), default=str)"))
    assert worker["name"].startswith("only-")
    assert (worker["pool"], worker["concurrency"]) == ("prefork", 2)
    assert worker["queues"] == [f"{crew.platform.name}.default"]
    assert {"onbeat.echo", "crew.work"} <= set(worker["tasks"])
    assert not any(name.startswith("celery.") for name in worker["tasks"])
    assert worker["version"]
    crew.reaches(execution, "SUCCEEDED")
    wait_until(lambda: crew.ask("Worker.objects.get().running") == [], what="it tells that it is idle")


def test_with_a_backlog_of_low_ones_a_critical_one_is_next(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, path: Path
) -> None:
    gate = tmp_path / "gate"
    with a_crew(tmp_path_factory) as crew, crew.working("single", "-c", "1"):
        first = crew.run("crew.wait_for", str(gate))
        crew.reaches(first, "RUNNING")
        low = [crew.run("crew.work", str(path), priority=1) for _ in range(5)]
        critical = crew.run("crew.work", str(path), priority=9)
        for execution in (*low, critical):
            crew.reaches(execution, "QUEUED")
        gate.touch()
        for execution in (*low, critical):
            crew.reaches(execution, "SUCCEEDED")
        begun = [line.split()[1] for line in crew.lines(path) if line.startswith("begin")]
        assert begun[0] == critical
        assert sorted(begun[1:]) == sorted(low)


def test_a_message_that_was_purged_is_published_again(tmp_path_factory: pytest.TempPathFactory, path: Path) -> None:
    with a_crew(tmp_path_factory) as crew:
        execution = crew.run("crew.work", str(path))
        crew.reaches(execution, "QUEUED")
        queue = f"{crew.platform.name}.default"
        assert crew.ask(f"app.connection_for_write().channel().queue_purge('{queue}')") == 1
        with crew.working("late"):
            find = "lost_messages.return_lost_messages(database_now())"  # a beat does so by itself every 15 s
            wait_until(lambda: crew.ask(find) or crew.state(execution) != "QUEUED", what="it is found to be lost")
            crew.reaches(execution, "SUCCEEDED")
        assert crew.attempts(execution) == [(1, "SUCCEEDED")]


def test_what_no_worker_can_take_is_never_run_and_becomes_a_dead_letter(crew: Crew, path: Path) -> None:
    unknown = crew.run("somebody.elses", attempts=1, task_lives_elsewhere=True)
    pickled = pickle.dumps(([f"open({str(path)!r}, 'w')"], {}, None))
    as_pickle = {"content_type": "application/x-python-serialize", "content_encoding": "binary"}
    crew.send(pickled, headers={"id": "foreign", "task": "builtins.exec"}, **as_pickle)
    crew.send("{}", headers={"hello": "world"})
    crew.send("[[], {}, {}]", headers={"id": "pretender", "task": "onbeat.echo", "onbeat_execution": "junk"})
    crew.reaches(unknown, "DEAD")
    assert "the task 'somebody.elses' is not registered there" in crew.row(unknown, "error")[0]
    kept = "list(DeadMessage.objects.order_by('error').values_list('error', flat=True))"
    errors = wait_until(lambda: len(found := crew.ask(kept)) == 3 and found, what="all of them are collected")
    assert [error.partition(": ")[2] for error in errors] == [
        "it names no task, so it is no message of Celery.",
        "its headers bear our name, but not what we write.",
        "workers do not read the content type 'application/x-python-serialize'.",
    ]
    assert not path.exists()


ODD_BODIES = [
    "",
    "null",
    "7",
    "{}",
    "[]",
    "[1]",
    "[[], {}]",
    "[{}, [], {}]",
    "[null, null, null]",
    "[[], {}, {}, 1]",
    "[[",
    "\x00",
]
ODD_HEADERS: list[dict[str, object]] = [
    {"timelimit": "soon"},
    {"timelimit": [1]},
    {"eta": "tomorrow"},
    {"expires": [3]},
    {"retries": "many"},
    {"id": None},
    {"id": 7},
    {"task": 7},
    {"task": ["a"]},
    {"task": None},
    {"root_id": {}},
    {"lang": "c", "shadow": 3},
    {"compression": "application/x-nothing"},
    {"onbeat_execution": 7},
    {"stamped_headers": "x", "stamps": 3},
]


def test_no_message_however_odd_ends_a_worker(crew: Crew) -> None:
    named = {"id": "odd", "task": "onbeat.echo"}
    for number, body in enumerate(ODD_BODIES):
        crew.send(body, headers={**named, "id": f"body-{number}"})
        crew.send(body)
    for headers in ODD_HEADERS:
        crew.send("[[], {}, {}]", headers={**named, **headers})
    for properties in ({"content_type": "no/such"}, {"content_encoding": "klingon"}, {"content_type": ""}):
        crew.send(b"[[], {}, {}]", headers=named, **properties)
    execution = crew.run("onbeat.echo", "still there", priority=0)
    crew.reaches(execution, "SUCCEEDED")
    assert crew.platform.processes[-1].is_running()
    depth = f"app.connection_for_read().channel().queue_declare('{crew.platform.name}.default', passive=True)"
    wait_until(lambda: crew.ask(f"{depth}.message_count") == 0, what="every message was dealt with")
