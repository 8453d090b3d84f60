"""The jobs of a run: what fires, how often, and what it does.

Everything is said in numbers that the judge can walk by itself, without the product's calendar: a schedule is "every so
many seconds of the clock". Invariant: the load is less than the workers can carry, so that all of it can be over a
minute after the last fault.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
MANY = 1000  # attempts and losses: what should run in the end does, however often it is struck
STEPS = (1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30)  # seconds that a minute is a multiple of


@dataclass(frozen=True)
class Job:
    key: str
    task: str
    step: int | None = None  # fires at each multiple of so many seconds; None: only when asked
    kwargs: dict[str, Any] = field(default_factory=dict)
    is_interval: bool = False  # said as an interval with an anchor, not as cron
    fields: dict[str, Any] = field(default_factory=dict)
    path: str = ""  # of the receiver, for a callback

    @property
    def cron(self) -> str:
        return cron_of(self.step or 1)


def cron_of(step: int) -> str:
    return "* * * * * *" if step == 1 else f"*/{step} * * * * *"


def jobs() -> list[Job]:
    """Those that are there from the beginning, and are left as they are."""
    limited = {"overlap": "QUEUE", "max_concurrency": 1}
    return [
        *(Job(f"tick-{n}", "chaos.work", 1, fields={"priority": 9 - n}) for n in range(6)),
        *(Job(f"burst-{n:02}", "chaos.work", 10, fields={"priority": n % 10}) for n in range(25)),
        *(Job(f"interval-{n}", "chaos.work", 3 + 2 * n, is_interval=True) for n in range(2)),
        *(Job(f"flaky-{n}", "chaos.flaky", 2, {"failures": 1}, fields=_retrying(MANY)) for n in range(2)),
        Job("doomed", "chaos.flaky", 5, {"failures": 10 * MANY}, fields=_retrying(2)),
        Job("crash-once", "chaos.crash", 6, {"times": 1}),
        Job("crash-always", "chaos.crash", 20, {"times": MANY}, fields={"max_lost": 2}),
        Job("pages", "chaos.pages", 10, {"count": 5}, fields=_retrying(MANY)),
        Job("overtime", "chaos.work", 20, {"seconds": 60}, fields={**_retrying(1), "timeout_seconds": 1}),
        Job("limited-queue", "chaos.work", 1, {"seconds": 0.4}, fields=limited),
        Job("limited-two", "chaos.work", 3, {"seconds": 1.2}, fields={"max_concurrency": 2}),
        Job("limited-skip", "chaos.work", 2, {"seconds": 0.9}, fields={"overlap": "SKIP", "max_concurrency": 1}),
        Job("limited-cancel", "chaos.work", 6, {"seconds": 3}, fields={"overlap": "CANCEL_PREVIOUS"}),
        Job("call-ok", "", 3, path="/ok", fields=_retrying(MANY)),
        Job("call-flaky", "", 10, path="/flaky", fields=_retrying(MANY)),
        Job("call-later", "", 5, path="/later", fields={**_retrying(MANY), "timeout_seconds": 20}),
        Job("asked", "chaos.work"),
        Job("asked-slow", "chaos.work", kwargs={"seconds": 2}),
        Job("asked-flaky", "chaos.flaky", kwargs={"failures": 1}, fields=_retrying(MANY)),
        Job("asked-limited", "chaos.work", kwargs={"seconds": 0.3}, fields={"max_concurrency": 1}),
    ]


# How many each caller changes, pauses and resumes.
EDITED = 3


CALLERS = ("rest", "python")


def edited(caller: str) -> list[Job]:
    return [Job(f"edited-{caller}-{n}", "chaos.work", STEPS[n]) for n in range(EDITED)]


def made_at_the_beginning() -> list[Job]:
    return [*jobs(), *(job for caller in CALLERS for job in edited(caller))]


def _retrying(attempts: int) -> dict[str, Any]:
    return {"attempts": attempts}


def create(job: Job, receiver_url: str) -> int:
    """By the product's own Python interface; the job's version."""
    from executions.retry import Backoff, RetryPolicy
    from executions.states import Overlap
    from jobs import definitions
    from jobs.http_target import HttpTarget
    from jobs.recurrence import Cron, Every

    fields = {"max_lost": MANY, **job.fields}
    attempts = fields.pop("attempts", 3)
    fields["retry"] = RetryPolicy(max_attempts=attempts, backoff=Backoff.FIXED, initial_seconds=2, cap_seconds=2)
    if "overlap" in fields:
        fields["overlap"] = Overlap(fields["overlap"])
    if job.path:
        is_later = job.path == "/later"
        fields["http"] = HttpTarget(url=receiver_url + job.path, timeout_seconds=3, is_asynchronous=is_later)
    else:
        fields["task"] = job.task
    schedule: Cron | Every | None = None
    if job.step is not None:
        schedule = Every(job.step, EPOCH) if job.is_interval else Cron(job.cron)
    made = definitions.create(
        key=job.key, schedule=schedule, kwargs=job.kwargs, task_lives_elsewhere=not job.path, **fields
    )
    return int(made.version)
