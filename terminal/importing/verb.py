"""Move the tasks of another beat in: first what would be done, and with --apply it is done."""

import re
from argparse import ArgumentParser

from executions.clock import database_now
from jobs import dst
from jobs.moving_in import celery_app, tables
from jobs.moving_in.sources import BEAT_SCHEDULE, DJANGO_CELERY_BEAT, Source, Task
from jobs.moving_in.translation import Wishes
from jobs.specification import MOST_ATTEMPTS
from terminal.frame import Asked, Exit, Told, Verb, refuse
from terminal.importing import databases, telling
from terminal.importing.plan import Becomes, Manner, Plan, planned
from terminal.importing.storing import stored

_PREFIX = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@/-]{0,99}")


class Import(Verb):
    does = "move the tasks of django-celery-beat or of Celery's beat_schedule in as jobs"
    explains = """\
Without --apply nothing is changed: it shows what each task becomes, what differs here, and what cannot be moved.
The tables of django-celery-beat are read from our own database, or from the one that --database names; the package is
not needed. The same task always becomes the same job: run it as often as you like. A job that was changed here since is
left as it is, unless --overwrite. A task that is gone there is told, and its job stays.

Exit code 1: with --apply, something could not be moved (the others were); with --strict, something cannot be, and
nothing was done."""
    examples = (
        "import_beat",
        "import_beat --database-from-env OLD_DATABASE_URL --lives-elsewhere",
        "import_beat --app shop.celery:app --workdir /srv/shop --python /srv/shop/.venv/bin/python",
        "import_beat --apply --paused --owner shop --prefix shop.",
    )
    changes = True

    def add_arguments(self, parser: ArgumentParser) -> None:
        source = parser.add_mutually_exclusive_group()
        source.add_argument(
            "--database",
            metavar="ADDRESS",
            help="The database to read, postgresql://… or sqlite:///…; ours if not given.",
        )
        source.add_argument(
            "--database-from-env", metavar="NAME", help="The environment variable that holds the address."
        )
        source.add_argument("--app", metavar="MODULE:APP", help="A Celery app: its beat_schedule is read.")
        parser.add_argument("--workdir", default="", metavar="FOLDER", help="With --app: from where it is loaded.")
        parser.add_argument(
            "--python", default="", metavar="PATH", help="With --app: the Python that has its packages."
        )
        parser.add_argument("--apply", action="store_true", help="Do it, all in one transaction.")
        parser.add_argument("--strict", action="store_true", help="Do nothing if something cannot be moved.")
        parser.add_argument("--only", action="append", metavar="NAME", help="This task; may be said several times.")
        parser.add_argument("--prefix", default="", metavar="TEXT", help="What the keys of the jobs begin with.")
        parser.add_argument("--owner", default="", help="Of the jobs.")
        parser.add_argument("--paused", action="store_true", help="Make the jobs paused: for a live switch.")
        parser.add_argument("--overwrite", action="store_true", help="Also jobs that were made or changed here.")
        parser.add_argument(
            "--lives-elsewhere", action="store_true", help="The tasks are of another codebase: do not look for them."
        )
        parser.add_argument(
            "--attempts", type=int, metavar="N", help="How often a run is tried in all; our default if not given."
        )
        parser.add_argument(
            "--timezone", default="", metavar="ZONE", help="Read every crontab in this zone, whatever it says itself."
        )
        parser.add_argument(
            "--moments-in", default="", metavar="ZONE", help="Of moments without an offset; UTC if not given."
        )

    def act(self, asked: Asked) -> Told:
        now = database_now()
        _check_wishes(asked)
        source, tasks = _read(asked)
        only = _only(asked["only"] or [], tasks)
        manner = Manner(
            Wishes(asked["owner"], asked["lives_elsewhere"], asked["attempts"], _zone(asked["timezone"])),
            prefix=asked["prefix"],
            is_paused=asked["paused"],
            is_overwriting=asked["overwrite"],
            only=only,
        )
        plan = planned(tasks, source=source, manner=manner, now=now)
        is_applied = asked["apply"] and not (asked["strict"] and plan.cannot)
        if is_applied:
            total = len(plan.that_become(Becomes.CREATED, Becomes.CHANGED))
            with asked.paper.progress("Moving in", total, is_whole=True) as progress:
                stored(plan, by=asked.by, now=now, progress=progress)
        shown = (
            list(telling.shown(plan, is_applied=is_applied, now=now)) if tasks or plan.vanished else [_nothing(source)]
        )
        return Told(telling.as_json(plan, is_applied=is_applied), shown, _code(plan, asked))


def _check_wishes(asked: Asked) -> None:
    """What would be wrong with every job is said once."""
    if asked["prefix"] and not _PREFIX.fullmatch(asked["prefix"]):
        refuse("--prefix must be letters, digits and . _ : @ / - and start with a letter or digit.")
    if asked["attempts"] is not None and not 1 <= asked["attempts"] <= MOST_ATTEMPTS:
        refuse(f"--attempts must be 1 to {MOST_ATTEMPTS}, not {asked['attempts']}.")


def _code(plan: Plan, asked: Asked) -> Exit:
    return Exit.FAILED if plan.cannot and (asked["apply"] or asked["strict"]) else Exit.DONE


def _nothing(source: Source) -> str:
    return f"There is no task in {source.name}."


def _read(asked: Asked) -> tuple[Source, list[Task]]:
    if asked["app"]:
        read = celery_app.read(
            asked["app"], python=asked["python"], folder=asked["workdir"], timezone=_zone(asked["timezone"])
        )
        return BEAT_SCHEDULE, read
    if asked["workdir"] or asked["python"]:
        refuse("--workdir and --python are for --app; leave them out, or name the app.")
    address = asked["database"]
    if asked["database_from_env"]:
        address = databases.address_in(asked["database_from_env"])
    zone = _zone(asked["moments_in"])
    with databases.opened(address) as connection:
        return DJANGO_CELERY_BEAT, tables.read(connection, moments_in=dst.zone_named(zone) if zone else None)


def _zone(name: str) -> str:
    return dst.zone_named(name).key if name else ""


def _only(names: list[str], tasks: list[Task]) -> list[str]:
    missing = sorted(set(names) - {task.name for task in tasks})
    if missing:
        refuse(f"There is no task {missing[0][:80]!r} there; run it without --only to see the names.")
    return names
