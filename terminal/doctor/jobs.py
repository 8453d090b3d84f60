"""Jobs: whether somebody can run them, and whether the secrets that they name are there.

Invariant: workers are compared with each pair of task and queue once, however many jobs have it.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import reduce
from operator import or_

from django.db.models import Count, Q

from executions import queues
from executions.words import count
from jobs import kept_secrets
from jobs.models import Job
from terminal.doctor.findings import Examined, Fault, Finding, named
from terminal.doctor.visit import Visit
from workers.models import Worker

_NAMED = 5
_MOST_FINDINGS = 20

Pair = tuple[str, str]  # task, queue

TASK_UNKNOWN = Fault(
    "jobs.E01",
    means="Workers of its queue reject its messages: each attempt fails, and in the end it is a dead letter.",
    remedy="Correct the task's name, or start workers with the code that has it on this queue.",
)
QUEUE_UNREAD = Fault(
    "jobs.E02",
    means="Its executions are published and wait: no worker that lives takes from this queue.",
    remedy="Start a worker for it: `./onbeat worker --queues` with the broker's name of the queue.",
)
NO_SECRET = Fault(
    "jobs.E03",
    means="Its requests cannot be made: each attempt fails before anything is sent.",
    remedy="Store the secret with `./onbeat secrets`, or change the job.",
)
SEALED = Fault(
    "jobs.E04",
    means="It was sealed with a key that this process does not have: requests that need it fail.",
    remedy="Put the old key into ONBEAT_CALLBACKS_SECRET_KEYS, or replace the secret.",
)
KNOWN_TO_SOME = Fault(
    "jobs.W01",
    means="A message that comes to a worker without the task costs an attempt.",
    remedy="Bring all workers of the queue to the same code, or give the task a queue of its own.",
)


def examine(visit: Visit) -> Examined:
    open_jobs = Job.objects.open().order_by("task", "queue").values_list("task", "queue").annotate(Count("pk"))
    wanted: dict[Pair, int] = {(task, queue): jobs for task, queue, jobs in open_jobs}
    findings = [*_secrets()]
    if visit.alive:
        findings = [*_unread(wanted, visit.alive), *_unknown(wanted, visit.alive), *findings]
    says = f"{count(sum(wanted.values()), 'open job')}, {count(len(wanted), 'task and queue', 'tasks and queues')}"
    return Examined(says if visit.alive else f"{says}; no worker to compare them with", findings)


def _readers(workers: Sequence[Worker], queue: str) -> list[Worker]:
    return [worker for worker in workers if queues.work_queue(queue).name in worker.queues]


def _unread(wanted: Mapping[Pair, int], workers: Sequence[Worker]) -> Iterator[Finding]:
    by_queue: Counter[str] = Counter()
    for (_, queue), jobs in wanted.items():
        by_queue[queue] += jobs
    unread = [(queue, jobs) for queue, jobs in by_queue.most_common() if not _readers(workers, queue)]
    for queue, jobs in unread[:_MOST_FINDINGS]:
        keys = _keys(Q(queue=queue))
        says = f"Nobody takes from the queue {queue!r} of {count(jobs, 'job')}: {_some(keys, jobs)}."
        yield QUEUE_UNREAD.found(says, queue=queue, broker_queue=queues.work_queue(queue).name, jobs=jobs, keys=keys)


def _unknown(wanted: Mapping[Pair, int], workers: Sequence[Worker]) -> Iterator[Finding]:
    unknown: dict[str, list[Pair]] = {}
    partly: dict[str, list[Pair]] = {}
    for task, queue in wanted:
        readers = _readers(workers, queue)
        knowing = [worker for worker in readers if task in worker.tasks]
        if readers and not knowing:
            unknown.setdefault(task, []).append((task, queue))
        elif len(knowing) < len(readers):
            partly.setdefault(task, []).append((task, queue))
    yield from _of_tasks(TASK_UNKNOWN, "No worker of its queue knows the task", unknown, wanted)
    yield from _of_tasks(KNOWN_TO_SOME, "Only some workers of its queue know the task", partly, wanted)


def _of_tasks(
    fault: Fault, what: str, found: Mapping[str, list[Pair]], wanted: Mapping[Pair, int]
) -> Iterator[Finding]:
    for task, pairs in list(found.items())[:_MOST_FINDINGS]:
        jobs = sum(wanted[pair] for pair in pairs)
        keys = _keys(reduce(or_, (Q(task=task, queue=queue) for _, queue in pairs)))
        says = f"{what} {task!r} of {count(jobs, 'job')}: {_some(keys, jobs)}."
        yield fault.found(says, task=task, queues=sorted(queue for _, queue in pairs), jobs=jobs, keys=keys)


def _keys(condition: Q) -> list[str]:
    return list(Job.objects.open().filter(condition).order_by("key").values_list("key", flat=True)[:_NAMED])


def _some(keys: Collection[str], jobs: int) -> str:
    more = f" and {jobs - len(keys):,} more" if jobs > len(keys) else ""
    return ", ".join(keys) + more


def _secrets() -> Iterator[Finding]:
    for name, keys in list(kept_secrets.missing().items())[:_MOST_FINDINGS]:
        says = f"There is no secret {name!r}; {count(len(keys), 'job names', 'jobs name')} it: {named(keys)}."
        yield NO_SECRET.found(says, secret=name, keys=keys[:_NAMED])
    if sealed := kept_secrets.that_cannot_be_opened():
        says = f"{count(len(sealed), 'secret')} cannot be opened: {named(sealed)}."
        yield SEALED.found(says, secrets=sealed)
