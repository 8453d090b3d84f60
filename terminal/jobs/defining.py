"""Make a job, and change one."""

from argparse import ArgumentParser
from typing import Any

from django.db import transaction

from api.jobs import bodies, deeds
from api.jobs.bodies import JobBody
from api.jobs.named import anchor_of, check_state, held, schedule_of
from api.jobs.targets import target_written
from executions.clock import database_now
from jobs.finding import find
from jobs.models import JobState
from terminal.frame import Asked, Told, Verb, refuse
from terminal.jobs import options
from terminal.jobs.listing import shown_job


class Create(Verb):
    name = "create"
    does = "make a job"
    explains = "It runs a task or calls a URL, by a cron, an interval, once, or only when asked."
    examples = (
        "jobs create billing.daily --task onbeat.echo --cron '30 7 * * 1-5' --timezone Europe/Berlin",
        'jobs create heartbeat --task onbeat.echo --every 15m --kwargs \'{"message": "hello"}\' --queue default',
        "jobs create reminder --task onbeat.echo --once-in 2h --tag mail",
    )
    changes = True
    option_of = staticmethod(options.option_of)
    called_here = options.CALLED_HERE

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("key", help="Names the job: letters, digits and . _ : @ / -")
        options.add(parser)

    def act(self, asked: Asked) -> Told:
        said = options.said_in(asked).body()
        check_key(said, asked["key"])
        check_state(said, JobState.ACTIVE)
        if "target" not in said:
            refuse("Say what the job runs: --task, --url, or a --file that does.")
        now = database_now()
        body = JobBody().run_validation({**said, "key": asked["key"]})
        job = deeds.create(bodies.said(body, now=now), now=now, **asked.signature)
        return shown_job(job, said=f"Made the job {job.key}.")


class Change(Verb):
    name = "change"
    does = "change some of a job's definition; what is not named stays"
    explains = "Coming fires run as the job says then; what was planned is planned anew."
    examples = (
        "jobs change billing.daily --cron '0 8 * * 1-5'",
        "jobs change billing.daily --queue batch --max-attempts 5 --timeout 30m",
        "jobs change billing.daily --no-schedule --version 4",
    )
    changes = True
    option_of = staticmethod(options.option_of)
    called_here = options.CALLED_HERE

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("key", help="The key of the job.")
        options.add(parser)
        parser.add_argument("--no-schedule", action="store_true", help="From now on it runs only when asked.")
        parser.add_argument("--no-timeout", action="store_true", help="As its task says, or else the default.")
        parser.add_argument("--no-max-concurrency", action="store_true", help="Any number may run at once.")
        parser.add_argument(
            "--version", dest="number", type=int, metavar="N", help="Refuse if the job is at another version by now."
        )

    def act(self, asked: Asked) -> Told:
        said_here, gone = options.said_in(asked), _taken_away(asked)
        if not (said_here.file or said_here.options or gone):
            refuse("Say what to change, such as --cron or --queue; `jobs change --help` lists what there is.")
        with transaction.atomic():
            job = held(find(asked["key"]))
            patch = said_here.body(target_written(job)) | gone
            check_key(patch, asked["key"])
            check_state(patch, job.state)
            schedule, now = schedule_of(job), database_now()
            body = bodies.patched(job, schedule, patch)
            said = bodies.said(body, now=now, anchor=anchor_of(schedule))
            number = asked["number"] if asked["number"] is not None else patch.get("version")
            changed = deeds.replace(job, said, version=number, now=now, **asked.signature)
        is_same = changed.version == job.version
        told = f"{job.key} says so already; it stays at version {job.version}."
        return shown_job(changed, said=told if is_same else f"{job.key} is at version {changed.version}.")


def check_key(body: dict[str, Any], key: str) -> None:
    if body.get("key", key) != key:
        refuse(f"The file is about the job {body['key']!r} and the command about {key!r}; say the same.")


def _taken_away(asked: Asked) -> dict[str, Any]:
    gone = [name for name in ("schedule", "timeout", "max_concurrency") if asked[f"no_{name}"]]
    for option in options.OPTIONS:
        name = option.pointer.partition("/")[0]
        if name in gone and asked[option.dest] is not None:
            refuse(f"--{option.name} and --no-{name.replace('_', '-')} exclude each other; say one of them.")
    return dict.fromkeys(gone)
