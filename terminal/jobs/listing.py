"""Find jobs: list, show, history, next fires."""

from argparse import ArgumentParser
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from rich.console import RenderableType

from api.executions.answers import in_list
from api.jobs import listing
from api.jobs.answers import answered
from api.pages import MOST_ITEMS
from executions import words
from executions.clock import database_now
from executions.finding import Sought, newest_first
from jobs.finding import find_said
from jobs.misfires import Misfire
from jobs.models import Job, JobState
from terminal import preview
from terminal.executions.tables import executions_table
from terminal.frame import Asked, Told, Verb, refuse
from terminal.paper import facts, strong, table, toned

_FILTERS = ("queue", "owner", "tag", "target", "key_prefix", "search")
_RUNS = 5


def key_argument(parser: ArgumentParser) -> None:
    parser.add_argument("key", help="The key of the job, or its id; of one that is over, too.")


class List(Verb):
    name = "list"
    does = "list jobs, by key"
    explains = "Jobs that are not over, unless --state asks for others."
    examples = (
        "jobs list",
        "jobs list --queue mail --search invoice",
        "jobs list --order changed_at --reverse --limit 10",
        "jobs list --state PAUSED --json",
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        states = [state.value for state in JobState]
        parser.add_argument(
            "--state", action="append", type=str.upper, choices=states, help="May be said several times."
        )
        parser.add_argument("--queue", help="Of this queue.")
        parser.add_argument("--owner", help="Of this owner.")
        parser.add_argument("--tag", help="With this tag.")
        parser.add_argument("--task", dest="target", metavar="TASK", help="That run this task.")
        parser.add_argument("--prefix", dest="key_prefix", metavar="PREFIX", help="Whose keys begin so.")
        parser.add_argument("--search", help="With this in key, task or owner, in capitals or not.")
        parser.add_argument("--order", choices=listing.ORDERS, default="key", help="By what; by key if not given.")
        parser.add_argument("--reverse", action="store_true", help="The other way round.")
        parser.add_argument(
            "--limit", type=int, default=50, help=f"How many at most, 1 to {MOST_ITEMS}; 50 if not given."
        )

    def act(self, asked: Asked) -> Told:
        order = f"{'-' if asked['reverse'] else ''}{asked['order']}"
        query = {**asked.given("state", *_FILTERS), "order": order, "limit": limit_of(asked["limit"])}
        now = database_now()
        jobs, cursor = listing.page(query)
        data = answered(jobs, now=now)
        shown: list[RenderableType] = [_jobs_table(data, now)] if data else [_none(query)]
        if cursor:
            shown.append(f"There are more; --limit {MOST_ITEMS} shows more of them, and a filter finds what you need.")
        return Told({"items": data, "has_more": cursor is not None}, shown)


def limit_of(limit: int) -> int:
    if not 1 <= limit <= MOST_ITEMS:
        refuse(f"--limit must be 1 to {MOST_ITEMS}, not {limit}.")
    return limit


def _none(query: dict[str, Any]) -> str:
    is_filtered = bool(set(query) - {"order", "limit"})
    return (
        "No job matches."
        if is_filtered
        else "There is no job yet; `./onbeat jobs create --help` tells how to make one."
    )


def _jobs_table(jobs: Sequence[dict[str, Any]], now: datetime) -> RenderableType:
    rows = [
        (
            strong(job["key"]),
            toned(job["state"]),
            job["schedule_in_words"],
            words.away(job["next_fire_at"], now=now) if job["next_fire_at"] else "-",
            toned(last["state"]) if (last := job["last_execution"]) else "-",
            target_said(job["target"]),
        )
        for job in jobs
    ]
    return table(("KEY", "STATE", "SCHEDULE", "NEXT", "LAST", "RUNS"), rows, whole=["KEY"])


def target_said(target: dict[str, Any]) -> str:
    if "http" not in target:
        return str(target["task"])
    return f"{target['http']['method']} {target['http']['url']}"


class Show(Verb):
    name = "show"
    does = "show a job: what it is, when it fires, how it went"
    examples = ("jobs show billing.daily", "jobs show billing.daily --json")

    def add_arguments(self, parser: ArgumentParser) -> None:
        key_argument(parser)

    def act(self, asked: Asked) -> Told:
        return shown_job(find_said(asked["key"]))


class Next(Verb):
    name = "next"
    does = "show the next fires of a job, and what clock changes do to them"
    explains = "As if it were not paused. Exit code 1: there is none."
    examples = ("jobs next billing.daily", "jobs next billing.daily --after 2027-03-27 --count 3")

    def add_arguments(self, parser: ArgumentParser) -> None:
        key_argument(parser)
        preview.range_arguments(parser)

    def act(self, asked: Asked) -> Told:
        return preview.of_job(find_said(asked["key"]), asked, database_now())


def shown_job(job: Job, *, said: str = "") -> Told:
    """A job as it is now; after what was done, if something was."""
    now = database_now()
    data = answered([Job.objects.select_related("schedule").get(pk=job.pk)], now=now)[0]
    parts: list[RenderableType] = [said, ""] if said else []
    parts += [*_job(data, now), *_runs(job, now)]
    return Told(data, parts)


def _job(job: dict[str, Any], now: datetime) -> list[RenderableType]:
    pause, retry, schedule = job["pause"], job["retry"], job["schedule"] or {}
    pairs = [
        ("state", toned(job["state"])),
        ("paused", pause and _pause_said(pause)),
        ("schedule", job["schedule_in_words"]),
        (
            "next fire",
            job["next_fire_at"] and f"{words.clock(job['next_fire_at'])}, {words.away(job['next_fire_at'], now=now)}",
        ),
        ("fires at most", schedule.get("max_fires")),
        ("from", schedule.get("start")),
        ("until", schedule.get("end")),
        ("misfire", schedule and _misfire_said(schedule["misfire"])),
        ("jitter", f"up to {words.duration(schedule['jitter'])}" if schedule.get("jitter") else None),
        ("runs", target_said(job["target"])),
        ("arguments", job["args"]),
        ("named arguments", job["kwargs"]),
        ("queue", f"{job['queue']}, priority {job['priority']}"),
        ("attempts", _attempts_said(retry)),
        ("time limit", job["timeout"] and words.duration(job["timeout"])),
        ("overlap", job["overlap"]),
        ("at once", job["max_concurrency"]),
        ("owner", job["owner"]),
        ("managed by", job["managed_by"]),
        ("tags", job["tags"]),
        ("version", f"{job['version']}, changed {words.clock(job['changed_at'])}"),
    ]
    return [strong(job["key"]), facts(pairs), *(f"! {warning}" for warning in job["warnings"])]


def _attempts_said(retry: dict[str, Any]) -> str:
    if retry["max_attempts"] == 1:
        return "1"
    first, most = (words.duration(retry[name]) for name in ("initial_delay", "max_delay"))
    return f"{retry['max_attempts']}, {retry['backoff']} from {first} to {most}"


def _misfire_said(misfire: dict[str, Any]) -> str:
    limit = f" of the latest {misfire['limit']}" if misfire["policy"] == Misfire.FIRE_ALL.lower() else ""
    return f"{misfire['policy']}{limit} after {words.duration(misfire['grace'])}"


def _pause_said(pause: dict[str, Any]) -> str:
    by = f" by {pause['by']}" if pause["by"] else ""
    until = f", until {words.clock(pause['until'])}" if pause["until"] else ""
    return f"{pause['reason'] or 'without a reason'}{by}{until}"


def _runs(job: Job, now: datetime) -> list[RenderableType]:
    page = newest_first(Sought(job_id=job.pk), limit=_RUNS, now=now)
    return ["", executions_table([in_list(row) for row in page.rows])] if page.rows else []
