"""What is allowed and probably not meant: said with the answer, and in nobody's way.

Owns the warnings of jobs. Invariant: many jobs are looked at in as many statements as one.
"""

import re
from collections.abc import Sequence

from executions import queues
from executions.models import DEFAULT_QUEUE
from jobs.http_target import HttpTarget, tells_of_a_secret
from jobs.models import Job, Kind
from workers.models import Worker

_STEP = re.compile(r"\*/(\d+)", re.ASCII)
# Of the minute and the hour: how many there are, what one is called, and how many seconds it takes.
_TURNS = ((60, "minute", 60), (24, "hour", 3600))


def of_jobs(jobs: Sequence[Job]) -> list[list[str]]:
    """For each of them, in the same order."""
    consumed = _consumed_queues()
    return [[*_of_queue(job, consumed), *_of_schedule(job), *_of_headers(job)] for job in jobs]


def _consumed_queues() -> set[str]:
    """All queues of workers that were seen of late; a worker that vanished is remembered for a day."""
    return {name for names in Worker.objects.values_list("queues", flat=True) for name in names}


def _of_queue(job: Job, consumed: set[str]) -> list[str]:
    name = queues.work_queue(job.queue).name
    if name in consumed:
        return []
    near = " (the default queue)" if job.queue == DEFAULT_QUEUE else ""
    return [f"No worker has consumed the queue {job.queue!r}{near} of late: start one with -Q {name}."]


def _of_schedule(job: Job) -> list[str]:
    schedule = getattr(job, "schedule", None)
    return [] if schedule is None or schedule.kind != Kind.CRON else uneven_steps(schedule.expression)


def _of_headers(job: Job) -> list[str]:
    headers = HttpTarget.stored(job.http).headers if job.http else {}
    return [
        f"Everybody who sees the job can read the value of its header {name}: keep it as a secret, and name that."
        for name, value in headers.items()
        if isinstance(value, str) and tells_of_a_secret(name)
    ]


def uneven_steps(expression: str) -> list[str]:
    """A step that does not divide its range begins anew at each turn: the last gap is shorter."""
    fields = expression.split()
    said = []
    for field, (size, unit, seconds) in zip(fields[-5:-3], _TURNS, strict=False):
        found = _STEP.fullmatch(field)
        step = int(found[1]) if found else 1
        if 0 < step < size and size % step:
            rest = size % step
            said.append(
                f"The step {field} of the {unit}s begins anew at each turn: the last gap is {rest} {unit}s and not "
                f'{step}. For an even rhythm use "every": {step * seconds}.'
            )
    return said
