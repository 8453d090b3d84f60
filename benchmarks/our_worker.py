"""One real worker of ours on a stage, whose queue is full before it starts.

One job of `onbeat.echo` as anybody would define it, run so many times through the Python API, and published by a real
`manage.py run_beat`, which is killed when all are QUEUED: what a beat costs is another benchmark's. Then the worker
that `./onbeat up` starts for tasks.
"""

from benchmarks import drained, our_beat
from benchmarks.drained import Stretch
from benchmarks.stage import Stage
from launcher import platform
from launcher.progress import step
from launcher.refusal import Refusal

_JOB = "bench-echo"
_DEAD_LETTERS = "dead-letters"


def measure(stage: Stage, executions: int) -> Stretch:
    asked = executions + drained.WARM_UP
    with step(print, f"Publishing {asked:,} executions"):
        our_beat.prepare(stage)
        _publish(stage, asked)
    with step(print, "Letting a worker run them"):
        program, *_ = platform.workers({})
        worker = stage.start_program(program)
        measured = drained.drain(stage, worker, queue=our_beat.QUEUE, dead_letters=_DEAD_LETTERS, executions=executions)
    _see_that_each_ran_once(asked)
    return measured


def _publish(stage: Stage, count: int) -> None:
    from django.db import connection

    from jobs import definitions, runs

    job = definitions.create(key=_JOB, task="onbeat.echo")
    for first in range(0, count, runs.MOST_AT_ONCE):
        runs.run_many(job, [runs.Wanted()] * min(runs.MOST_AT_ONCE, count - first))
    beat = our_beat.start(stage)
    beat.wait_until(lambda: our_beat.queued() >= count, what=f"{count:,} executions are queued")
    beat.kill()
    if (messages := stage.depth(our_beat.QUEUE)) != count:
        raise Refusal(f"{count:,} executions became {messages:,} messages: no figure is worth that.")
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")  # as a database is that has run for a while
    our_beat.leave_database()


def _see_that_each_ran_once(count: int) -> None:
    from executions.models import Attempt, Execution
    from executions.states import Outcome, State

    rows, attempts = Execution.objects.count(), Attempt.objects.count()
    succeeded = Execution.objects.filter(state=State.SUCCEEDED, attempt=1).count()
    recorded = Attempt.objects.filter(outcome=Outcome.SUCCEEDED).values("execution_id").distinct().count()
    if {rows, attempts, succeeded, recorded} != {count}:
        raise Refusal(
            f"{count:,} executions became {rows:,} rows, of which {succeeded:,} succeeded at once, and {attempts:,} "
            f"attempts, of which {recorded:,} are of different executions that succeeded: no figure is worth that."
        )
