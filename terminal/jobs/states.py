"""Pause, resume and archive: jobs by their keys, or all that match."""

from argparse import ArgumentParser
from collections.abc import Callable
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


class _OnJobs(Verb):
    """All of them or none, in one transaction."""

    changes = asks = True
    of_state: JobState | None = None  # what a filter means, if only those of one state are of interest
    is_final = False  # it cannot be undone
    verb: str
    done: str

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("key", nargs="*", help="The keys of the jobs.")
        parser.add_argument("--tag", help="All with this tag.")
        parser.add_argument("--owner", help="All of this owner.")
        parser.add_argument("--queue", help="All of this queue.")
        parser.add_argument("--prefix", dest="key_prefix", help="All whose keys begin so.")

    def do(self, job: Job, asked: Asked) -> Job:
        raise NotImplementedError

    def act(self, asked: Asked) -> Told:
        filters = asked.given(*_FILTERS)
        if bool(asked["key"]) == bool(filters):
            refuse(f"Say which jobs to {self.verb}: keys, or a filter such as --tag, one of the two.")
        jobs = [find(key) for key in dict.fromkeys(asked["key"])] if asked["key"] else self._matching(filters)
        if not jobs:
            return Told({"jobs": []}, [f"No job to {self.verb} matches."])
        what = jobs[0].key if len(jobs) == 1 else count(len(jobs), "job")
        must_ask = self.is_final or bool(filters)
        if asked["dry_run"] or (must_ask and not asked.agrees(f"{self.verb.capitalize()} {what}?")):
            keys = [job.key for job in jobs]
            return Told({"jobs": keys, "is_done": False}, [f"Would {self.verb} {key}." for key in keys])
        after = self._all(jobs, asked)
        now = database_now()
        return Told({"jobs": answered(after, now=now), "is_done": True}, [self.told(job) for job in after])

    def told(self, job: Job) -> str:
        return f"{job.key} is {self.done}."

    def _matching(self, filters: dict[str, Any]) -> list[Job]:
        query = filters if self.of_state is None else {**filters, "state": [self.of_state]}
        return list(listing.matching(query).order_by("key"))

    def _all(self, jobs: list[Job], asked: Asked) -> list[Job]:
        with asked.paper.progress(f"{self.verb.capitalize()}", len(jobs)) as step, transaction.atomic():
            done = [_stepped(self.do(job, asked), step) for job in jobs]
        pks = [job.pk for job in done]
        after = {job.pk: job for job in Job.objects.filter(pk__in=pks).select_related("schedule")}
        return [after[pk] for pk in pks]


def _stepped(job: Job, step: Callable[[int], None]) -> Job:
    step(1)
    return job


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

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--reason", default="", help="Why: it stands beside every fire that does not happen.")
        parser.add_argument(
            "--until", metavar="MOMENT", help="It resumes by itself then: a moment, in UTC without an offset, or 2h."
        )

    def do(self, job: Job, asked: Asked) -> Job:
        until = ahead("until", asked["until"], now=database_now()) if asked["until"] else None
        return deeds.pause(job, reason=asked["reason"], until=until, **asked.signature)

    def told(self, job: Job) -> str:
        return f"{job.key} is paused{f' until {clock(job.paused_until)}' if job.paused_until else ''}."


class Resume(_OnJobs):
    name = verb = "resume"
    done = "active"
    does = "fire again"
    explains = "The fires of the pause become one row that says so; none of them runs. `jobs backfill` can run them."
    examples = ("jobs resume billing.daily", "jobs resume --tag mail --yes")
    of_state = JobState.PAUSED

    def do(self, job: Job, asked: Asked) -> Job:
        return deeds.resume(job, **asked.signature)

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

    def do(self, job: Job, asked: Asked) -> Job:
        return deeds.archive(job, reason=asked["reason"], **asked.signature)
