"""Pause, resume and archive: jobs by their keys, or all that match."""

from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from django.db import transaction

from api.jobs import deeds, listing
from api.jobs.answers import answered
from executions.clock import database_now
from executions.words import clock, count
from jobs.finding import find
from jobs.models import Job, JobState
from terminal.frame import Asked, Told, Verb, refuse
from terminal.moments import ahead

_FILTERS = ("queue", "owner", "tag", "key_prefix")
_BATCH = 1000
_SHOWN = 20  # of those that somebody is asked about
_OPTIONS = {"/until": "--until", "/reason": "--reason", "/by": "--by"}


class _OnJobs(Verb):
    """All of them or none, in one transaction."""

    changes = asks = True
    of_state: JobState | None = None  # what a filter means, if only those of one state are of interest
    is_final = False  # it cannot be undone
    verb: str
    done: str

    @staticmethod
    def option_of(pointer: str, _asked: Asked, /) -> str:
        return _OPTIONS.get(pointer, pointer.lstrip("/"))

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("key", nargs="*", help="The keys of the jobs.")
        parser.add_argument("--tag", help="All with this tag.")
        parser.add_argument("--owner", help="All of this owner.")
        parser.add_argument("--queue", help="All of this queue.")
        parser.add_argument("--prefix", dest="key_prefix", metavar="PREFIX", help="All whose keys begin so.")

    def do(self, jobs: Sequence[Job], asked: Asked, now: datetime) -> None:
        raise NotImplementedError

    def act(self, asked: Asked) -> Told:
        filters = asked.given(*_FILTERS)
        if bool(asked["key"]) == bool(filters):
            refuse(f"Say which jobs to {self.verb}: keys, or a filter such as --tag, one of the two.")
        if "" in filters.values():  # as from a shell whose variable is not set; every key begins with nothing
            refuse(f"A filter is empty; say what the jobs to {self.verb} have in common.")
        jobs = [find(key) for key in dict.fromkeys(asked["key"])] if asked["key"] else self._matching(filters)
        if not jobs:
            return Told({"jobs": [], "is_done": False}, [f"No job to {self.verb} matches."])
        keys = [job.key for job in jobs]
        if asked["dry_run"]:
            return Told({"jobs": keys, "is_done": False}, [f"Would {self.verb} {key}." for key in keys])
        if (self.is_final or filters) and not asked.agrees(self._question(keys)):
            return Told({"jobs": keys, "is_done": False}, ["Nothing was done."])
        after = self._all(jobs, asked)
        now = database_now()
        return Told({"jobs": answered(after, now=now), "is_done": True}, [self.told(job) for job in after])

    def told(self, job: Job) -> str:
        return f"{job.key} is {self.done}."

    def _question(self, keys: Sequence[str]) -> str:
        """Who says yes has seen to what."""
        if len(keys) == 1:
            return f"{self.verb.capitalize()} {keys[0]}?"
        more = f" and {len(keys) - _SHOWN:,} more" if len(keys) > _SHOWN else ""
        return f"{', '.join(keys[:_SHOWN])}{more}\n{self.verb.capitalize()} these {count(len(keys), 'job')}?"

    def _matching(self, filters: dict[str, Any]) -> list[Job]:
        query = filters if self.of_state is None else {**filters, "state": [self.of_state]}
        return list(listing.matching(query).order_by("key"))

    def _all(self, jobs: list[Job], asked: Asked) -> list[Job]:
        now = database_now()
        with asked.paper.progress(self.verb.capitalize(), len(jobs), is_whole=True) as step, transaction.atomic():
            for batch in _batches(sorted(jobs, key=lambda job: job.pk)):
                self.do(batch, asked, now)
                step(len(batch))
        return [job for batch in _batches(jobs) for job in _as_they_are(batch)]


def _batches(jobs: Sequence[Job]) -> Iterator[Sequence[Job]]:
    for start in range(0, len(jobs), _BATCH):
        yield jobs[start : start + _BATCH]


def _as_they_are(jobs: Sequence[Job]) -> list[Job]:
    found = Job.objects.select_related("schedule").in_bulk([job.pk for job in jobs])
    return [found[job.pk] for job in jobs]


class Pause(_OnJobs):
    name = verb = "pause"
    done = "paused"
    does = "fire no more until resumed, or until a moment"
    explains = "Runs that were asked for, and retries, still happen. The fires of the pause leave a row that says why."
    examples = (
        "jobs pause billing.daily --reason 'the bank is closed'",
        "jobs pause billing.daily --reason 'month end' --until 2h",
        "jobs pause --tag mail --reason 'the provider is down' --yes",
    )
    of_state = JobState.ACTIVE  # who paused one of the others had a reason, and perhaps an end of its own

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--reason", default="", help="Why: it stands beside every fire that does not happen.")
        parser.add_argument(
            "--until", metavar="MOMENT", help="It resumes by itself then: a moment, in UTC without an offset, or 2h."
        )

    def do(self, jobs: Sequence[Job], asked: Asked, now: datetime) -> None:
        until = ahead("until", asked["until"], now=now) if asked["until"] is not None else None
        deeds.pause_all(jobs, reason=asked["reason"], until=until, **asked.signature, now=now)

    def told(self, job: Job) -> str:
        return f"{job.key} is paused{f' until {clock(job.paused_until)}' if job.paused_until else ''}."


class Resume(_OnJobs):
    name = verb = "resume"
    done = "active"
    does = "fire again"
    explains = "The fires of the pause become one row that says so; none of them runs. `jobs backfill` can run them."
    examples = ("jobs resume billing.daily", "jobs resume --tag mail --yes")
    of_state = JobState.PAUSED

    def do(self, jobs: Sequence[Job], asked: Asked, now: datetime) -> None:
        deeds.resume_all(jobs, **asked.signature, now=now)

    def told(self, job: Job) -> str:
        following = getattr(getattr(job, "schedule", None), "next_fire_at", None)
        return f"{job.key} is active{f'; it fires next at {clock(following)}' if following else ''}."


class Archive(_OnJobs):
    name = verb = "archive"
    is_final = True
    done = "archived"
    does = "end a job for good and free its key"
    explains = "Its history stays, and runs that were asked for still happen. It cannot be brought back."
    examples = ("jobs archive billing.daily --reason 'the tenant left'", "jobs archive --owner old-team --dry-run")

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--reason", default="", help="Why; kept in its history.")

    def do(self, jobs: Sequence[Job], asked: Asked, now: datetime) -> None:
        deeds.archive_all(jobs, reason=asked["reason"], **asked.signature, now=now)
