"""The areas, in the order in which they are looked at.

Owns how an area is examined. Invariants: an area that fails is one finding and stops none of the others; no statement
takes longer than its limit; what needs the database is passed by if that is not sound, and said to be.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType

from django.conf import settings as project_settings
from django.db import connection, transaction

from executions.outages import is_outage
from executions.storable import in_a_line
from executions.surroundings import without_logins
from terminal.doctor import (
    beats,
    code,
    database,
    executions,
    folder,
    jobs,
    rabbitmq,
    redis,
    schedules,
    settings,
    upkeep,
    workers,
)
from terminal.doctor.findings import Examined, Fault, passed_by
from terminal.doctor.visit import Visit

STATEMENT_SECONDS = 10.0

NOT_EXAMINED = Fault(
    "doctor.E01",
    means="This area could not be looked at to its end; what it would have told is not known.",
    remedy="See what the sentence says, and call the doctor again with --only for this area.",
)


@dataclass(frozen=True)
class Area:
    name: str
    looks_at: str
    module: ModuleType
    needs_database: bool = True
    why_not: Callable[[], str] = str  # why it is of no concern here; empty if it is

    @property
    def faults(self) -> list[Fault]:
        return [value for value in vars(self.module).values() if isinstance(value, Fault)]


def _no_rabbitmq() -> str:
    return "the broker is a folder" if project_settings.IS_FOLDER_BROKER else ""


def _no_folder() -> str:
    return "" if project_settings.IS_FOLDER_BROKER else "the broker is RabbitMQ"


AREAS = (
    Area("settings", "system checks of all apps: dangerous settings, also Celery's", settings, needs_database=False),
    Area(
        "database",
        "version, migrations, partitions, indexes and constraints, clock, long transactions, vacuum, connections",
        database,
        needs_database=False,
    ),
    Area("redis", "whether it answers, version, eviction, latency", redis, needs_database=False),
    Area(
        "rabbitmq",
        "whether it answers, version, arguments of queues, dead letters, consumers, alarms, orphans",
        rabbitmq,
        needs_database=False,
        why_not=_no_rabbitmq,
    ),
    Area(
        "folder",
        "the folder broker: whether it can be written to, and whether somebody takes its messages",
        folder,
        why_not=_no_folder,
    ),
    Area("beats", "whether they tick, clocks, versions, shards, what they cannot reach", beats),
    Area("workers", "whether they live, versions, pools, attempts of those that are lost", workers),
    Area("schedules", "those that cannot be read, never fire, or are late; pauses that did not end", schedules),
    Area("jobs", "tasks that no worker knows, queues that nobody takes from, secrets that are missing", jobs),
    Area("code", "schedules declared beside tasks: mistakes, and whether the stored jobs still say the same", code),
    Area("executions", "those that got stuck: due, queued or running for too long; dead letters", executions),
    Area("upkeep", "duties that are not done: rows and months past their days, the forecast", upkeep),
)


def examine(area: Area, visit: Visit) -> Examined:
    if why := area.why_not():
        return passed_by(why)
    if area.needs_database and not visit.is_database_sound:
        return passed_by("the database has to be mended first")
    try:
        with _limited(visit):
            examined: Examined = area.module.examine(visit)
            return examined
    except Exception as error:
        if is_outage(error):
            connection.close()
        says = f"{area.name}: {without_logins(in_a_line(error))}"
        return Examined("could not be examined", [NOT_EXAMINED.found(says)])


@contextmanager
def _limited(visit: Visit) -> Iterator[None]:
    """On SQLite without a transaction: there it would keep everybody from writing."""
    if not visit.is_database_sound or connection.vendor != "postgresql":
        yield
        return
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute(f"SET LOCAL statement_timeout = {int(STATEMENT_SECONDS * 1000)}")
        yield


def chosen(names: Sequence[str] | None) -> list[Area]:
    """Those that were named; else those that concern this installation."""
    if names:
        return [area for area in AREAS if area.name in names]
    return [area for area in AREAS if not area.why_not()]
