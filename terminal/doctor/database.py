"""The database: whether it is as our models want it, and whether somebody or something is in its way."""

from collections.abc import Iterator
from datetime import timedelta

from django.conf import settings

from executions import catalogue, partitions
from executions.clock import Clock
from executions.partitions import Month
from executions.words import count, duration
from terminal.doctor.findings import Examined, Fault, Finding, named
from terminal.doctor.visit import Visit

LONG_TRANSACTION = timedelta(minutes=5)
MANY_DEAD_ROWS = 50_000
NEARLY_ALL_CONNECTIONS = 0.85
CLOCK_SECONDS = 1.0  # beats bear more, but clocks that agree differ by less

UNREACHABLE = Fault(
    "database.E01",
    means="Nothing works without the database: no fire is planned, no run is accepted, no work is claimed.",
    remedy="Start it, or correct DATABASE_URL; beats and workers go on by themselves when it answers.",
)
TOO_OLD = Fault(
    "database.E02",
    means="Partitions and conditional unique indexes are tried with PostgreSQL 15 and later only.",
    remedy="Upgrade the server to PostgreSQL 15 or later.",
)
NOT_MIGRATED = Fault(
    "database.E03",
    means="The tables are those of another release: beats wait, and commands refuse.",
    remedy="Run `./onbeat migrate` with the newest release.",
)
NO_PARTITION = Fault(
    "database.E04",
    means="Executions of this month have no table: each insert has to make it first, under a lock.",
    remedy="Run `./onbeat upkeep partitions`, and see in the beats' log why they did not.",
)
NO_CONSTRAINT = Fault(
    "database.E05",
    means="What this constraint forbids can happen: a fire that is there twice, a state that nobody knows.",
    remedy="Make it again as the models say: `./onbeat sqlmigrate` shows the statement; remove what breaks it first.",
)
CLOCKS_APART = Fault(
    "database.E06",
    means="A beat on this machine refuses to fire: one of the two clocks is wrong, and nobody knows which.",
    remedy="Set the clocks right, best by NTP on both machines.",
)
NO_PARTITIONS_AHEAD = Fault(
    "database.W01",
    means="Upkeep makes the tables of the coming months ahead of time, and has not.",
    remedy="Run `./onbeat upkeep partitions`, and see in the beats' log why they did not.",
)
HALF_A_MONTH = Fault(
    "database.W02",
    means="Executions and attempts of a month go together; with one table alone the month is neither used nor pruned.",
    remedy="Run `./onbeat upkeep partitions`; for a month that is past, drop the table that is left if it is empty.",
)
NO_INDEX = Fault(
    "database.W03",
    means="A hot question is answered by reading whole tables: beats and pages get slower as rows come.",
    remedy="Make it again: `./onbeat sqlmigrate` shows the statement; drop one that is not valid before.",
)
LONG_TRANSACTIONS = Fault(
    "database.W04",
    means="While it is open no dead row is cleaned up, and others may wait for its locks.",
    remedy="See what it does, and end it if nobody needs it: SELECT pg_terminate_backend(pid).",
)
CLOCKS_DIFFER = Fault(
    "database.W05",
    means="Fires follow the database's clock, logs the machine's: what happened when is hard to tell.",
    remedy="Let both machines keep their time by NTP.",
)
NO_VACUUM = Fault(
    "database.W06",
    means="Each run changes its row a few times; without a vacuum the tables grow, and each question gets slower.",
    remedy="Switch autovacuum on, for the server or for the table.",
)
DEAD_ROWS = Fault(
    "database.W07",
    means="The vacuum does not keep up: more dead rows than live ones are read past.",
    remedy="Look for long transactions first, then run VACUUM on the table, and let autovacuum work harder.",
)
FEW_CONNECTIONS = Fault(
    "database.W08",
    means="When all are taken, beats, workers and pages cannot connect.",
    remedy="Raise max_connections, lower DATABASE_POOL_SIZE, or end clients that nobody needs.",
)
SQLITE = Fault(
    "database.N01",
    means="All processes share one file, and writers wait for one another: for one machine, and moderate work.",
    remedy="Set DATABASE_URL to PostgreSQL when the work grows, or other machines are to take part.",
)


def examine(visit: Visit) -> Examined:
    if visit.why_no_database:
        return Examined("does not answer", [UNREACHABLE.found(f"The database says: {visit.why_no_database}.")])
    major, said = catalogue.version()
    if visit.unapplied:
        missing = count(len(visit.unapplied), "migration")
        is_one = len(visit.unapplied) == 1
        says = f"{missing} {'is' if is_one else 'are'} missing: {named(visit.unapplied, 3)}."
        return Examined(f"{said}, not migrated", [NOT_MIGRATED.found(says, migrations=visit.unapplied)])
    findings = list(_structure())
    clock = Clock()
    clock.now()
    findings += _clock(clock.offset)
    parts = [said, "migrated"]
    if catalogue.is_postgresql():
        if major < catalogue.OLDEST_POSTGRESQL:
            findings.append(TOO_OLD.found(f"The server is {said}."))
        findings += [*_months(visit), *_sessions(), *_vacuum(), *_room()]
        parts.append(f"clock {clock.offset.total_seconds() * 1000:+.1f} ms")
    else:
        findings.append(SQLITE.found("The database is SQLite, a file on this machine."))
    return Examined(", ".join(parts), findings)


def _structure() -> Iterator[Finding]:
    missing = catalogue.missing_structure()
    if missing.constraints:
        says = f"Missing, or not valid: {named(missing.constraints)}."
        yield NO_CONSTRAINT.found(says, constraints=missing.constraints)
    if missing.indexes:
        yield NO_INDEX.found(f"Missing, or not valid: {named(missing.indexes)}.", indexes=missing.indexes)


def _clock(offset: timedelta) -> Iterator[Finding]:
    seconds = offset.total_seconds()
    way = "ahead of" if seconds > 0 else "behind"
    says = f"The clock of this machine is {duration(abs(seconds))} {way} the database's."
    if abs(seconds) > settings.ONBEAT_BEAT_CLOCK_OFFSET_SECONDS:
        yield CLOCKS_APART.found(says, offset_seconds=seconds)
    elif abs(seconds) > CLOCK_SECONDS:
        yield CLOCKS_DIFFER.found(says, offset_seconds=seconds)


def _months(visit: Visit) -> Iterator[Finding]:
    """Months that lie behind or far ahead may have gaps: they are dropped, and made when a run asks for them."""
    tables = partitions.tables()
    whole = set.intersection(*tables.values())
    wanted = partitions.months_ahead(visit.now)
    if wanted[0] not in whole:
        yield NO_PARTITION.found(f"There is no table for {_said(wanted[0])}.", month=_said(wanted[0]))
    if lacking := [_said(month) for month in wanted[1:] if month not in whole]:
        yield NO_PARTITIONS_AHEAD.found(f"There are no tables for {', '.join(lacking)}.", months=lacking)
    half = sorted(set.union(*tables.values()) - whole - set(wanted))
    if half:
        of = {month: next(parent for parent, months in tables.items() if month in months) for month in half}
        names = [f"{parent}_{month}" for month, parent in of.items()]
        yield HALF_A_MONTH.found(f"Alone, without its other half: {named(names)}.", tables=names)


def _said(month: Month) -> str:
    return f"{month.year:04}-{month.number:02}"


def _sessions() -> Iterator[Finding]:
    sessions = catalogue.long_transactions(LONG_TRANSACTION)
    if not sessions:
        return
    oldest = sessions[0]
    says = (
        f"{count(len(sessions), 'transaction')} open for more than {duration(LONG_TRANSACTION)}; the oldest for "
        f"{duration(oldest.age)}: process {oldest.pid} of {oldest.application or 'an unnamed program'}, {oldest.state}."
    )
    facts = [
        {"pid": each.pid, "application": each.application, "state": each.state, "seconds": each.age.total_seconds()}
        for each in sessions
    ]
    yield LONG_TRANSACTIONS.found(says, sessions=facts)


def _vacuum() -> Iterator[Finding]:
    if off := catalogue.not_vacuumed():
        yield NO_VACUUM.found(f"Autovacuum is off for {named(off)}.", tables=off)
    if behind := catalogue.dead_rows(MANY_DEAD_ROWS):
        name, dead, live = behind[0]
        says = f"{count(len(behind), 'table')} with more dead rows than live ones: {name} has {dead:,} beside {live:,}."
        yield DEAD_ROWS.found(says, tables=[{"table": n, "dead": d, "live": v} for n, d, v in behind])


def _room() -> Iterator[Finding]:
    used, most = catalogue.connections()
    if used >= most * NEARLY_ALL_CONNECTIONS:
        yield FEW_CONNECTIONS.found(f"{used} of {most} connections are taken.", used=used, most=most)
