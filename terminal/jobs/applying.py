"""Schedules as code: export jobs to a file, apply a file, and sync what is declared beside tasks."""

import re
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

from django.core.management.base import CommandError
from rich.console import RenderableType

from api.jobs import bodies, bulk, deeds, listing
from api.problems import Problem, problem_of
from executions.clock import database_now
from executions.words import clock, count
from jobs import applying, declared
from jobs.applying import Becomes, Rules, Step
from jobs.differences import Difference, differences
from jobs.finding import find
from jobs.models import Job, JobVersion
from jobs.upserts import RefusedItems, Said
from jobs.wording import in_words
from terminal.frame import Asked, Exit, Told, Verb, refuse
from terminal.jobs import files
from terminal.jobs.history import difference_lines
from terminal.jobs.listing import target_said
from terminal.paper import coloured

_PLACE = re.compile(r"/(?:jobs/)?(\d+)(/.*)?", re.ASCII)
_MOST_SHOWN = 100
_FILTERS = ("queue", "owner", "tag", "key_prefix")
_SIGNS = {
    Becomes.CREATED: ("+", "ok"),
    Becomes.CHANGED: ("~", "warn"),
    Becomes.ADOPTED: ("=", "run"),
    Becomes.ARCHIVED: ("-", "bad"),
    Becomes.LEFT: ("?", "warn"),
}


class Export(Verb):
    name = "export"
    does = "write jobs as a file that `jobs apply` reads"
    explains = (
        "YAML on the standard output, without what is as by default. Whether a job is paused is not part of it, and no "
        "secret is: a job names secrets."
    )
    examples = (
        "jobs export > jobs.yaml",
        "jobs export --tag mail --manager mail-team",
        "jobs export billing.daily --full",
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("key", nargs="*", help="Only these jobs; all that are not over if none is named.")
        parser.add_argument("--tag", help="All with this tag.")
        parser.add_argument("--owner", help="All of this owner.")
        parser.add_argument("--queue", help="All of this queue.")
        parser.add_argument("--prefix", dest="key_prefix", help="All whose keys begin so.")
        parser.add_argument("--managed-by", metavar="MANAGER", help="All of this manager.")
        parser.add_argument(
            "--manager",
            default=files.DEFAULT_MANAGER,
            help="Which manager the file shall name (default: %(default)s).",
        )
        parser.add_argument("--full", action="store_true", help="Also what is as by default.")

    def act(self, asked: Asked) -> Told:
        rows = listing.matching(asked.given(*_FILTERS)).select_related("schedule")
        if asked["key"]:
            rows = rows.filter(pk__in=[find(key).pk for key in asked["key"]])
        if asked["managed_by"] is not None:
            rows = rows.managed_by(asked["managed_by"])
        document = files.document(list(rows.order_by("key")), manager=asked["manager"], is_whole=asked["full"])
        return Told(document, [files.as_yaml(document).rstrip("\n")])


class _Applying(Verb):
    """What differs, then, unless it was only a look, it is done."""

    changes = True
    where: str  # what names the jobs

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="Show what would be done, and do nothing.")
        parser.add_argument(
            "--check", action="store_true", help=f"The same, and exit with {Exit.NOT_YET:d} if something would be done."
        )
        parser.add_argument(
            "--prune", action="store_true", help=f"Archive jobs of the same manager that {self.where} no longer names."
        )
        parser.add_argument(
            "--take-over", action="store_true", help="Also change jobs that another manager has, and manage them."
        )

    def _apply(self, asked: Asked, wanted: Sequence[Said], manager: str, now: Any) -> Told:
        rules = Rules(manager, is_pruning=asked["prune"], is_taking_over=asked["take_over"])
        is_look = asked["dry_run"] or asked["check"]
        if is_look:
            steps = applying.look(wanted, rules, now=now)
        else:
            steps = deeds.apply(wanted, rules, now=now, **asked.signature)
        pending = [step for step in steps if step.becomes not in (Becomes.UNCHANGED, Becomes.LEFT)]
        counts = Counter(step.becomes for step in steps)
        shown = _told(steps, rules, self.where, changers=_changers(steps) if is_look else {})
        closing = f"{_in_words(counts)}."
        if is_look and pending:
            closing += " Nothing was done: this was only a look."

        def data() -> dict[str, Any]:
            return {
                "manager": manager,
                "is_done": not is_look,
                "counts": {str(each): counts[each] for each in Becomes},
                "steps": [_as_json(step) for step in steps if step.becomes is not Becomes.UNCHANGED],
            }

        return Told(data, chain(shown, [closing]), Exit.NOT_YET if asked["check"] and pending else Exit.DONE)


class Apply(_Applying):
    name = "apply"
    does = "bring jobs in line with a file: create, change and, with --prune, archive"
    where = "the file"
    explains = (
        "All of it in one transaction, or nothing. What a file does not say of a job becomes its default; whether it "
        "is paused stays as it is. Jobs that are applied are managed by the file's manager: --prune archives only "
        "those."
    )
    examples = (
        "jobs apply jobs.yaml --dry-run",
        "jobs apply jobs.yaml --prune",
        "jobs apply jobs/mail.yaml jobs/billing.yaml --manager platform --check",
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", nargs="+", help="YAML or JSON; - for the standard input.")
        parser.add_argument("--manager", help="In place of the one that the file names.")
        super().add_arguments(parser)

    def act(self, asked: Asked) -> Told:
        now = database_now()
        with asked.paper.progress("Read, check, compare, store", 4, is_whole=True) as step:
            said = files.read(asked["file"], manager=asked["manager"])
            step(1)
            try:
                read = files.checked(said.jobs)
                step(1)
                wanted = bulk.said_of(read, said.jobs, now=now)
                step(1)
                return self._apply(asked, wanted, said.manager, now)
            except Exception as error:
                _refuse_each(error, said)
                raise


class Sync(_Applying):
    name = "sync"
    does = "bring jobs in line with what @scheduled declares beside tasks, and report drift"
    where = "the code"
    explains = (
        "A job that somebody changed elsewhere differs from the code: that is drift, told with who changed it last, "
        f"and undone. Jobs declared in code are managed by {declared.MANAGER!r}. With ONBEAT_JOBS_SYNC_AT_START this "
        "is done when a beat starts, too."
    )
    examples = ("jobs sync --dry-run", "jobs sync --prune", "jobs sync --check --json")

    def act(self, asked: Asked) -> Told:
        now = database_now()
        wanted = declared.all_said(now=now)
        if not wanted and not Job.objects.open().managed_by(declared.MANAGER).exists():
            data = {"manager": declared.MANAGER, "is_done": False, "counts": {}, "steps": []}
            return Told(data, ["No task of the installed apps has an @scheduled beside it."])
        try:
            return self._apply(asked, wanted, declared.MANAGER, now)
        except RefusedItems as refused:
            lines = [f"{wanted[place].key}: {each}" for place, each in refused.refusals.items()]
            raise CommandError("\n".join([*lines, str(refused)]), returncode=Exit.REFUSED) from None


# ── What is told ─────────────────────────────────────────────────────────────────────────────────────────────────


def _refuse_each(error: Exception, said: files.Said) -> None:
    """Each job that cannot be, by its key."""
    problem = bulk.problem_of_items(error.refusals) if isinstance(error, RefusedItems) else problem_of(error)
    if not isinstance(problem, Problem) or not problem.places:
        return
    lines = []
    for place in problem.places:
        found = _PLACE.fullmatch(place.pointer or "")
        where = said.key_of(int(found[1])) if found else ""
        inner = (found[2] or "").lstrip("/").replace("/", ".") if found else ""
        named = f"{where}, {inner}" if inner and "This must" in place.detail else where
        lines.append(f"{named}: {place.detail}" if named else place.detail)
    refuse("\n".join([*lines, f"{count(len(lines), 'thing')} to correct; nothing was applied."]))


def _told(
    steps: Sequence[Step], rules: Rules, where: str, *, changers: dict[int, JobVersion]
) -> Iterator[RenderableType]:
    telling = [step for step in steps if step.becomes is not Becomes.UNCHANGED]
    for step in telling[:_MOST_SHOWN]:
        sign, tone = _SIGNS[step.becomes]
        yield coloured(f"{sign} {step.key}{_aside(step, rules, where)}", tone)
        if step.becomes is Becomes.CHANGED:
            yield from difference_lines(_differences(step), indent=4)
        if step.job is not None and step.job.pk in changers:
            last = changers[step.job.pk]
            by = f" by {last.changed_by}" if last.changed_by else ""
            yield f"    last changed{by} through {last.through} at {clock(last.changed_at)}"
    if len(telling) > _MOST_SHOWN:
        yield f"… and {len(telling) - _MOST_SHOWN} more; --json tells all."
    if telling:
        yield ""


def _aside(step: Step, rules: Rules, where: str) -> str:
    match step.becomes:
        case Becomes.CREATED:
            assert step.after is not None
            when = "only when asked" if step.after.schedule is None else in_words(step.after.schedule)
            return f"  {when}: {target_said(bodies.of_specification(step.after)['target'])}"
        case Becomes.ADOPTED:
            return f"  says so already; managed by {rules.manager} from now on"
        case Becomes.ARCHIVED:
            return f"  no longer named by {where}: archived"
        case Becomes.LEFT:
            return f"  no longer named by {where}; --prune archives it"
    return ""


def _differences(step: Step) -> list[Difference]:
    assert step.before is not None
    assert step.after is not None
    before, after = (files.as_plain(bodies.of_specification(each)) for each in (step.before, step.after))
    return differences(before, after)


def _as_json(step: Step) -> dict[str, Any]:
    said: dict[str, Any] = {"key": step.key, "becomes": step.becomes.value}
    if step.becomes is Becomes.CHANGED:
        said["differences"] = [vars(each) for each in _differences(step)]
    return said


def _changers(steps: Sequence[Step]) -> dict[int, JobVersion]:
    """Who changed those that differ: the latest version of each."""
    differing = [step.job for step in steps if step.becomes is Becomes.CHANGED and step.job is not None]
    latest = JobVersion.objects.filter(job__in=differing, version__in={job.version for job in differing})
    numbers = {job.pk: job.version for job in differing}
    return {each.job_id: each for each in latest.defer("definition") if each.version == numbers[each.job_id]}


def _in_words(counts: "Counter[Becomes]") -> str:
    said = [f"{number} {each}" for each in Becomes if (number := counts[each])]
    return ", ".join(said) if said else "There is nothing to apply"
