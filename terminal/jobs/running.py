"""Run a job because somebody asks: now or later, and wait for the outcome if wanted."""

from argparse import ArgumentParser
from typing import Any

from rich.console import RenderableType

from api.executions.answers import in_full
from api.executions.named import attempts_of, found
from api.jobs import deeds
from api.jobs.named import schedule_of
from executions import why
from executions.clock import database_now
from executions.models import Execution
from executions.states import Trigger
from executions.words import clock
from jobs.finding import find
from jobs.models import Job
from jobs.runs import Asked as AskedRun
from jobs.runs import Wanted
from terminal.executions.following import exit_of, wait_until_over
from terminal.executions.watching import tell
from terminal.frame import Asked, Told, Verb, refuse
from terminal.jobs.options import parsed_json
from terminal.moments import ahead, duration_of, zone_of
from terminal.paper import as_json, coloured


class Run(Verb):
    name = "run"
    does = "run a job now, after a delay or at a moment, beside its schedule"
    explains = (
        "With --wait it is followed to its end, retries included, and the exit code tells the outcome: 0 succeeded, 1 "
        "not, 3 not over within --timeout (it goes on). A run key that is in use gives back the run that has it."
    )
    examples = (
        "jobs run billing.daily",
        "jobs run billing.daily --payload '{\"tenant\": 7}' --wait --timeout 10m",
        "jobs run reminder --delay 2h --run-key user-123 --priority 9",
        "jobs run reminder --at 2026-12-01T09:00 --payload @payload.json",
    )
    changes = True
    called_here = {
        "run_at ": "--at ",
        "The priority must": "--priority must",
        "The args must": "--payload must",
        "The kwargs must": "--payload must",
        "A run key must": "--run-key must",
    }

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("key", help="The key of the job.")
        parser.add_argument(
            "--payload",
            metavar="JSON",
            help="In place of the job's: an object for named arguments, a list for positional ones, @file or -.",
        )
        when = parser.add_mutually_exclusive_group()
        when.add_argument("--at", metavar="MOMENT", help="A moment, in the job's zone without an offset.")
        when.add_argument("--delay", metavar="TIME", help="So far from now: 90, 15m, 2h.")
        parser.add_argument("--priority", type=int, metavar="N", help="0 (low) to 9 (critical), in place of the job's.")
        parser.add_argument("--run-key", default="", metavar="NAME", help="Names the run: asking again finds it.")
        parser.add_argument("--wait", action="store_true", help="Follow it until it is over.")
        parser.add_argument("--timeout", metavar="TIME", help="With --wait: at most so long, such as 10m.")

    def act(self, asked: Asked) -> Told:
        if asked["timeout"] is not None and not asked["wait"]:
            refuse("--timeout is for --wait; leave it out, or wait.")
        timeout = duration_of("timeout", asked["timeout"]).total_seconds() if asked["timeout"] is not None else None
        job = find(asked["key"])
        run = deeds.run(job, [_wanted(asked, job)], **asked.signature)[0]
        if not asked["wait"]:
            return _asked_for(run)
        asked.paper.say(_told(run))
        over = wait_until_over(run.execution_id, timeout=timeout, on_change=lambda row: _follow(row, asked))
        return _outcome(over)


def _wanted(asked: Asked, job: Job) -> Wanted:
    said: dict[str, Any] = {"run_key": asked["run_key"], "priority": asked["priority"]}
    if asked["payload"] is not None:
        payload = parsed_json("payload", asked["payload"])
        if not isinstance(payload, dict | list):
            refuse("--payload must be a JSON object for named arguments, or a list for positional ones.")
        said["kwargs" if isinstance(payload, dict) else "args"] = payload
    if asked["delay"] is not None:
        said["delay"] = duration_of("delay", asked["delay"])
    if asked["at"] is not None:
        said["run_at"] = ahead("at", asked["at"], now=database_now(), zone=zone_of(schedule_of(job)))
    return Wanted(**said)


def _asked_for(run: AskedRun) -> Told:
    row = found(run.execution_id)
    when = f"It comes at {clock(row.available_at)}." if row.trigger == Trigger.DELAYED else ""
    data = {"id": run.execution_id, "is_new": run.is_new, "state": row.state, "available_at": row.available_at}
    shown = [_told(run), *([when] if when else []), f"`./onbeat executions watch {run.execution_id}` follows it."]
    return Told(data, shown)


def _told(run: AskedRun) -> str:
    return f"{'Asked for' if run.is_new else 'This run key is in use by'} the execution {run.execution_id}."


def _follow(row: Execution, asked: Asked) -> None:
    if not asked.paper.is_json:
        tell(row, asked.paper)


def _outcome(row: Execution) -> Told:
    now, code = database_now(), exit_of(row)
    shown: list[RenderableType] = [coloured(why.in_words(row, now=now), "bad" if code else "ok")]
    if row.result is not None:
        shown.append(f"Result: {as_json(row.result).strip()}")
    if row.error:
        shown.append(row.error.rstrip())
    return Told(in_full(row, attempts_of(row), now=now), shown, code)
