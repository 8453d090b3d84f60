"""The folder broker of the embedded set-up: whether it can be used, and whether somebody takes its messages."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from executions import folder_state, queues
from executions.folder_state import FolderQueue
from executions.words import count, duration
from terminal.doctor.findings import Examined, Fault, Finding
from terminal.doctor.visit import Visit

OLD = timedelta(days=1)

UNUSABLE = Fault(
    "folder.E01",
    means="Nothing can be published, and nobody can take work: what is due waits in the database.",
    remedy="Give the folder to the user who runs the processes, or name another in CELERY_BROKER_URL or DATA_DIR.",
)
NOBODY_TAKES = Fault(
    "folder.E02",
    means="Messages wait, and no worker reads this queue.",
    remedy="Start a worker for it: `./onbeat worker --queues` with the broker's name of the queue.",
)
OLD_MESSAGES = Fault(
    "folder.W01",
    means="Workers do not keep up with this queue, or pass by its messages.",
    remedy="Start more workers, or see in the workers' log what holds them up.",
)
SET_ASIDE = Fault(
    "folder.W02",
    means="Files in the queues were no messages; they are kept for a person to look at.",
    remedy="Look at them in the folder `undecodable` of the broker, and delete them.",
)
NOT_MADE = Fault(
    "folder.N01",
    means="Nothing was published here yet: whoever comes first makes the folder.",
    remedy="Start `./onbeat run`, if it is to be used.",
)


def examine(visit: Visit) -> Examined:
    if why := folder_state.why_unusable():
        return Examined("cannot be used", [UNUSABLE.found(f"The folder of the broker cannot be used: {why}.")])
    root = folder_state.root()
    if not root.is_dir():
        return Examined("not made yet", [NOT_MADE.found(f"There is no folder {root} yet.")])
    found = [queue for queue in folder_state.queues() if queue.name.startswith(queues.prefix())]
    waiting = sum(queue.messages for queue in found)
    findings = [finding for queue in found for finding in _queue(queue, visit)]
    if number := folder_state.set_aside():
        findings.append(SET_ASIDE.found(f"{count(number, 'file')} set aside in {root / 'undecodable'}.", files=number))
    return Examined(f"{count(len(found), 'queue')}, {count(waiting, 'message')} waiting", findings)


def _queue(queue: FolderQueue, visit: Visit) -> Iterator[Finding]:
    name = queues.job_queue_name(queue.name)
    # What lies among the dead letters is collected by a beat within seconds.
    is_taken = bool(visit.ticking) if name == queues.DEAD_LETTERS else name in visit.consumed
    if queue.messages and not is_taken:
        says = f"{count(queue.messages, 'message')} in {queue.name!r}, and no worker that lives reads it."
        yield NOBODY_TAKES.found(says, queue=queue.name, messages=queue.messages)
    elif queue.oldest_at is not None and queue.oldest_at < visit.now - OLD:
        says = f"The oldest message in {queue.name!r} waits for {_age(queue.oldest_at, visit.now)}."
        yield OLD_MESSAGES.found(says, queue=queue.name, oldest_at=queue.oldest_at)


def _age(moment: datetime, now: datetime) -> str:
    return duration(now - moment)
