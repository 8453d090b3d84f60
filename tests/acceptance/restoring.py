"""A platform at work whose database is dumped and restored elsewhere, after which the old side is killed.

What its handlers did is kept by each side in a ledger of its own. Invariant: the other side begins with nothing but the
dump and the keys: another database, and no queue, no message and no lease of the old one.
"""

import shutil
import sqlite3
import subprocess
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import psycopg

from chaos import ledger, load
from chaos.evidence import Evidence, Row, Tables, tables_of
from chaos.forgotten import remembered
from executions.identity import fire_time_of
from launcher.binaries import find_postgres
from tests.acceptance import embedded_tables
from tests.acceptance.embedded_tables import moment_of, uuid_of
from tests.platform import BIN, Platform, Process
from tests.waiting import wait_until

GRACE_SECONDS = 2
LOOK_AHEAD_SECONDS = 2
# So long after the dump the other side may begin: what is due meanwhile is older than the grace.
AWAY_SECONDS = 12
ASIDE = "aside"  # a queue that nobody reads on the old side
QUICK = ("default", "http")
_SETTINGS = {
    "ONBEAT_BEAT_LOOK_AHEAD_SECONDS": str(LOOK_AHEAD_SECONDS),
    "ONBEAT_BEAT_MESSAGE_LOST_AFTER_SECONDS": "2",
}

# All that do not ask for a broker that was listened to, for callers, or for a stretch in which nothing is missed.
ASKED = (
    "versions say what was asked for",
    "each fire once",
    "no run without a row",
    "no run before its time",
    "no row without an end",
    "what should run ran",
    "one run per attempt",
    "one attempt after the other",
    "no more at once than allowed",
    "ends agree",
    "every attempt is told",
    "given up only where that was to be",
)

# How many of the fires older than the grace run: none, the latest, all, the latest three.
POLICIES: Mapping[str, tuple[dict[str, object], int | None]] = {
    "skips": ({"misfire": "SKIP"}, 0),
    "latest": ({"misfire": "FIRE_ONCE"}, 1),
    "all": ({"misfire": "FIRE_ALL"}, None),
    "latest-few": ({"misfire": "FIRE_ALL", "misfire_limit": 3}, 3),
}


# ── What runs within the platform ────────────────────────────────────────────────────────────────────────────────────


def jobs() -> list[load.Job]:
    """Those that fire, all of them of the chaos harness's kind, so that its judge knows them."""
    return [
        *(load.Job(f"pulse-{number:02}", "chaos.work", 1, fields={"priority": number % 10}) for number in range(12)),
        *(load.Job(key, "chaos.work", 1, fields=dict(fields)) for key, (fields, _) in POLICIES.items()),
        load.Job("interval", "chaos.work", 3, is_interval=True),
        load.Job("flaky", "chaos.flaky", 2, {"failures": 1}),
        load.Job("doomed", "chaos.flaky", 5, {"failures": 10 * load.MANY}, fields={"attempts": 2}),
        load.Job("limited", "chaos.work", kwargs={"seconds": 2}, fields={"max_concurrency": 1}),
        load.Job("long", "chaos.work", kwargs={"seconds": 6}),
        load.Job("aside", "chaos.work", fields={"queue": ASIDE}),
        load.Job("reminder", "chaos.work"),
    ]


def make_jobs() -> None:
    from jobs.misfires import Misfire

    for job in jobs():
        fields = {**job.fields}
        if "misfire" in fields:
            fields |= {"misfire": Misfire(fields["misfire"]), "misfire_grace_seconds": GRACE_SECONDS}
        load.create(load.Job(job.key, job.task, job.step, job.kwargs, job.is_interval, fields), receiver_url="")


def ask_for_runs() -> None:
    """Just before the dump: what then waits, runs, is delayed, or fires once while nobody is there."""
    from executions.clock import database_now
    from jobs import definitions, runs
    from jobs.misfires import Misfire
    from jobs.recurrence import Once

    for _ in range(2):
        runs.run("long")
        runs.run("limited")
    runs.run_many("aside", [runs.Wanted() for _ in range(40)])
    runs.run_many("reminder", [runs.Wanted(delay=timedelta(seconds=8)) for _ in range(10)])
    runs.run("reminder", delay=timedelta(hours=1), run_key="far")
    at = database_now() + timedelta(seconds=8)
    for key, misfire in (("once-runs", Misfire.FIRE_ONCE), ("once-skips", Misfire.SKIP)):
        definitions.create(
            key=key,
            task="chaos.work",
            task_lives_elsewhere=True,
            schedule=Once(at),
            misfire=misfire,
            misfire_grace_seconds=1,
        )


# ── The two sides ────────────────────────────────────────────────────────────────────────────────────────────────────


def postgres_program(name: str) -> str:
    folder = find_postgres()
    assert folder is not None, "PostgreSQL's programs are needed"
    return str(folder / name)


def run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


class Side(Platform):
    """A platform with a database, a broker and leases that it shares with no other."""

    def __init__(self, folder: Path, *, is_full: bool) -> None:
        folder.mkdir()
        super().__init__(folder, is_full=is_full)
        self.ledger = folder / "ledger"
        self.ledger.mkdir()
        self.environment |= {**_SETTINGS, ledger.FOLDER: str(self.ledger)}

    def __exit__(self, *raised: object) -> None:
        for process in self.processes:
            process.kill_all()
        if self.is_full:
            self._delete_queues(ASIDE)
        super().__exit__(*raised)  # type: ignore[arg-type]

    def call(self, function: str) -> None:
        """One of the functions of this module, within the platform."""
        self.manage("shell", "-c", f"from tests.acceptance import restoring; restoring.{function}()")

    def worker_of(self, *queues: str) -> Process:
        names = ",".join(f"{self.name}.{queue}" for queue in queues)
        command = [str(BIN / "celery"), "-A", "scheduler_project", "worker", "-Q", names, "-c", "5", "-l", "INFO"]
        quiet = ["--without-gossip", "--without-mingle", "--include", "chaos.handlers"]
        return self.start("worker", [*command, *quiet, "-n", f"worker-{self.name}@%h"])

    def is_at_work(self, *, beats: int) -> None:
        for number in range(beats):
            self.beat(f"beat-{number}")
        lately = "now() - interval '3 seconds'" if self.is_full else "datetime('now', '-3 seconds')"
        ticking = f"SELECT count(*) = {beats} FROM onbeat_beat WHERE ticked_at > {lately}"
        wait_until(lambda: self.count(ticking), what=f"{beats} beats tick")

    def kill(self) -> None:
        """All of it, at one moment and without a word."""
        for process in self.processes:
            process.kill_all()

    def dump(self, file: Path) -> None:
        if self.is_full:
            run(postgres_program("pg_dump"), "--format=custom", f"--file={file}", f"--dbname={self._database_url}")
        else:
            with closing(sqlite3.connect(self.folder / "onbeat.sqlite3")) as database:
                database.execute(f"VACUUM INTO '{file}'")

    def restore(self, file: Path) -> None:
        if not self.is_full:
            shutil.copy(file, self.folder / "onbeat.sqlite3")
            return
        options = ("--exit-on-error", "--no-owner", "--no-privileges", "--jobs=2")
        run(postgres_program("pg_restore"), *options, f"--dbname={self._database_url}", str(file))
        run(postgres_program("vacuumdb"), "--analyze-only", "--quiet", f"--dbname={self._database_url}")

    def tables(self) -> Tables:
        if not self.is_full:
            return embedded_tables.tables_of(self)
        with psycopg.connect(self._database_url) as database:
            return tables_of(database)

    @property
    def _database_url(self) -> str:
        return self.environment["DATABASE_URL"]

    def left(self, until: datetime) -> int:
        """What was due by then and is not over."""
        over = "('SUCCEEDED', 'DEAD', 'CANCELLED', 'SKIPPED')"
        moment = until.astimezone(UTC).replace(tzinfo=None).isoformat(" ", "microseconds")
        zone = "+00" if self.is_full else ""
        return self.count(
            f"SELECT count(*) FROM onbeat_execution WHERE state NOT IN {over} AND fire_time <= '{moment}{zone}'"
        )

    def created_at(self) -> dict[str, datetime]:
        """Of each execution."""
        return {str(uuid_of(pk)): moment_of(at) for pk, at in self.rows("SELECT id, created_at FROM onbeat_execution")}


# ── What happens ─────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Story:
    """What happened."""

    file: Path
    dumped: Tables
    old_runs: Sequence[ledger.Run]
    new_runs: Sequence[ledger.Run]
    began_at: datetime  # the other side did
    created_at: Mapping[str, datetime]  # the executions that are there at the end
    evidence: Evidence

    def dumped_in(self, *states: str) -> list[Row]:
        return [row for row in self.dumped.rows if row.state in states]

    def now(self, rows: Collection[Row]) -> list[Row]:
        """The same rows as they are at the end."""
        found = {row.id: row for row in self.evidence.rows}
        return [found[row.id] for row in rows]

    def after_the_dump(self) -> list[ledger.Run]:
        """What ran on the old side, and the dump does not know."""
        known = {(each.execution, each.number) for each in self.dumped.attempts}
        running = {(row.id, row.attempt) for row in self.dumped_in("RUNNING")}
        return [each for each in self.old_runs if (each.execution, each.attempt) not in known | running]


@contextmanager
def a_story(folder: Path, *, is_full: bool) -> Iterator[tuple[Story, Side]]:
    """Told to its end. The other side's database is still there, and none of its processes."""
    file = folder / "onbeat.dump"
    with Side(folder / "new", is_full=is_full) as new:
        with Side(folder / "old", is_full=is_full) as old:
            dumped_from = _work_and_dump(old, file)
            new.restore(file)
            dumped, old_runs = new.tables(), ledger.read(old.ledger)
        wait_until(lambda: time.time() > dumped_from + AWAY_SECONDS, what="fires are missed")
        began_at = datetime.now(UTC)
        until = _run_elsewhere(new)
        new_runs = ledger.read(new.ledger)
        tables = new.tables()
        recorded = {(each.execution, each.number): each.started_at.timestamp() for each in tables.attempts}
        known = remembered(old_runs, recorded=recorded, limited=(), crashes=[(dumped_from, float("inf"))])
        evidence = Evidence(
            began_at=began_at,
            until=until,
            rows=tables.rows,
            attempts=tables.attempts,
            versions=tables.versions,
            runs=[*known, *new_runs],
            limits=tables.limits,
            load={job.key: job.step for job in jobs() if job.step is not None},
        )
        yield Story(file, dumped, old_runs, new_runs, began_at, new.created_at(), evidence), new


def _work_and_dump(old: Side, file: Path) -> float:
    """When the dump began. What ran before is in it."""
    old.migrate()
    old.call("make_jobs")
    old.worker_of(*QUICK)
    old.is_at_work(beats=1)
    dead = "SELECT count(*) FROM onbeat_execution WHERE state = 'DEAD'"
    wait_until(lambda: old.count(dead), what="a dead letter is there")
    old.call("ask_for_runs")
    of_job = "SELECT count(*) FROM onbeat_execution e JOIN onbeat_job j ON j.id = job_id WHERE key"
    wait_until(lambda: old.count(f"{of_job} = 'long' AND e.state = 'RUNNING'") == 2, what="long work runs")
    wait_until(lambda: old.count(f"{of_job} = 'aside' AND e.state = 'QUEUED'") == 40, what="others wait in the queue")
    dumped_from = time.time()
    old.dump(file)
    planned_by_then = time.time() + LOOK_AHEAD_SECONDS
    wait_until(
        lambda: _has_run_a_fire_after(planned_by_then, old), what="the old side runs what the dump has no row of"
    )
    old.kill()
    return dumped_from


def _has_run_a_fire_after(moment: float, side: Side) -> bool:
    return any(fire_time_of(UUID(run.execution)).timestamp() > moment for run in ledger.read(side.ledger))


def _run_elsewhere(new: Side) -> datetime:
    """Until when fires are looked at; all of them are over."""
    new.worker_of(*QUICK, ASIDE)
    new.is_at_work(beats=2)
    until = datetime.now(UTC) + timedelta(seconds=1)
    wait_until(lambda: datetime.now(UTC) > until and not new.left(until), what="all that was due is over", seconds=90)
    new.kill()
    return until
