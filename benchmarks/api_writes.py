"""What is asked of the API by apps: make jobs, run one now, run one ten thousand times.

A run starts when its row says so (`started_at`, written by the worker by the database's clock). The request is sent by
the clock of the machine that the database is on as well, so the two can be compared.
"""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

from benchmarks.budgets import Line, milliseconds, percentile
from benchmarks.our_web import Caller, Web
from benchmarks.stage import Process
from launcher.refusal import Refusal

CREATE_P50_MS = 30
START_P50_MS = 60
BULK_S = 2
THREADS = 4
RUN_JOB, BULK_JOB = "bench-run-now", "bench-in-bulk"
_WARM_UP = 10
_PAUSE_SECONDS = 0.05  # between two runs: the worker is idle when the next one comes
_DELAY_SECONDS = 86_400  # of runs in bulk: none comes while somebody measures


def time_creates(web: Web, jobs: int) -> Iterator[Line]:
    """A recurring job each, one after another; then as many again by several callers at once."""
    caller = web.caller()
    for number in range(_WARM_UP):
        _create(caller, f"warm-{number}")
    alone = [_create(caller, f"alone-{number}") for number in range(jobs)]
    callers = [web.caller() for _ in range(THREADS)]

    def share(which: int) -> list[float]:
        return [_create(callers[which], f"together-{which}-{number}") for number in range(-(-jobs // THREADS))]

    started = time.perf_counter()
    with ThreadPoolExecutor(THREADS) as threads:
        together = [seconds for shared in threads.map(share, range(THREADS)) for seconds in shared]
    per_second = len(together) / (time.perf_counter() - started)
    yield _p50("create_job", "create a job", alone, CREATE_P50_MS)
    yield _p95("create_job", "create a job", alone)
    yield _p50(f"create_job_{THREADS}_threads", f"create a job, {THREADS} callers at once", together)
    yield _p95(f"create_job_{THREADS}_threads", f"create a job, {THREADS} callers at once", together)
    yield Line("create_job_per_s", f"jobs created by {THREADS} callers at once", round(per_second, 1), "per s")


def _create(caller: Caller, key: str) -> float:
    body = {
        "key": f"bench-create-{key}",
        "target": {"task": "onbeat.echo"},
        "kwargs": {"tenant": "acme"},
        "schedule": {"cron": "0 3 1 1 *", "timezone": "America/Los_Angeles"},  # far away: the beat has no part in this
        "retry": {"max_attempts": 3, "backoff": "exponential", "initial_delay": 30},
        "timeout": 600,
        "tags": ["bench"],
    }
    return caller.post("/jobs", body).seconds


def time_starts(web: Web, worker: Process, runs: int) -> Iterator[Line]:
    caller = web.caller()
    caller.post("/jobs", {"key": RUN_JOB, "target": {"task": "onbeat.echo"}})
    for _ in range(_WARM_UP):  # until each process of the worker has its connection
        _run(caller, worker)
    answered, started = zip(*(_run(caller, worker) for _ in range(runs)), strict=True)
    yield _p50("run_now_to_start", "run now, until the task starts", started, START_P50_MS)
    yield _p95("run_now_to_start", "run now, until the task starts", started)
    yield _p50("run_now_answer", "run now, until it is answered", answered)
    yield _p95("run_now_answer", "run now, until it is answered", answered)


def _run(caller: Caller, worker: Process) -> tuple[float, float]:
    """How long the answer took, and the start."""
    from executions.models import Execution
    from executions.states import State

    answer = caller.post(f"/jobs/{RUN_JOB}/runs", {"kwargs": {"message": "now"}})
    row = Execution.objects.filter(pk=answer.body["id"], state=State.SUCCEEDED)
    found = worker.wait_until(row.first, what="the run has succeeded", every=0.01)
    assert found is not None  # it was waited for
    assert found.started_at is not None  # what has succeeded was started
    time.sleep(_PAUSE_SECONDS)
    return answer.seconds, (found.started_at - datetime.fromtimestamp(answer.sent_at, UTC)).total_seconds()


def time_bulks(web: Web, runs: int) -> Iterator[Line]:
    caller = web.caller()
    caller.post("/jobs", {"key": BULK_JOB, "target": {"task": "onbeat.echo"}})
    _bulk(caller, min(runs, 100), "warm")
    yield Line("bulk_run", f"{runs:,} runs in one request", _bulk(caller, runs, ""), "s", BULK_S)
    with_keys = _bulk(caller, runs, "first")
    yield Line("bulk_run_with_keys", f"{runs:,} runs with run keys in one request", with_keys, "s", BULK_S)
    again = _bulk(caller, runs, "first", new=0)
    yield Line("bulk_run_again", f"{runs:,} runs whose keys are in use", again, "s")


def _bulk(caller: Caller, runs: int, key: str, *, new: int | None = None) -> float:
    wanted: list[dict[str, Any]] = [
        {"delay": _DELAY_SECONDS, "kwargs": {"user": number, "kind": "reminder"}} for number in range(runs)
    ]
    for number, one in enumerate(wanted):
        one |= {"run_key": f"{key}-{number}"} if key else {}
    answer = caller.post(f"/jobs/{BULK_JOB}/bulk-runs", {"runs": wanted})
    count = sum(one["is_new"] for one in answer.body["runs"])
    if count != (runs if new is None else new):
        raise Refusal(f"{runs:,} runs were asked for and {count:,} are new: no figure is worth that.")
    return round(answer.seconds, 3)


def _p50(name: str, what: str, seconds: Any, budget: float | None = None) -> Line:
    return Line(f"{name}_p50", f"{what}: p50", milliseconds(percentile(seconds, 50)), "ms", budget)


def _p95(name: str, what: str, seconds: Any) -> Line:
    return Line(f"{name}_p95", f"{what}: p95", milliseconds(percentile(seconds, 95)), "ms")
