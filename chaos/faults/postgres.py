"""A PostgreSQL that is restarted, hangs up, hangs, waits for somebody's lock, or asks everybody to try again."""

import contextlib
import time

import psycopg

from chaos import instruments
from chaos.plan import Fault
from chaos.world import World

_FAILING_SHARE = 0.25
_OTHERS = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = %s"


def restart_immediate(world: World, fault: Fault) -> bool:
    """As if it had crashed: it recovers from its log when it starts."""
    return _restart(world, fault, "immediate")


def restart_fast(world: World, fault: Fault) -> bool:
    return _restart(world, fault, "fast")


def _restart(world: World, fault: Fault, mode: str) -> bool:
    world.servers.stop_postgres(mode)
    time.sleep(fault.seconds)
    world.servers.start_postgres()
    return True


def cut_connections(world: World, _fault: Fault) -> bool:
    with world.servers.database() as database:
        database.execute(_OTHERS, [database.info.dbname])
    return True


def freeze(world: World, fault: Fault) -> bool:
    with world.servers.postgres_frozen():
        time.sleep(fault.seconds)
    return True


def lock_executions(world: World, fault: Fault) -> bool:
    """As somebody does who changes the table by hand."""
    with world.servers.database() as database, database.transaction():
        database.execute("LOCK TABLE onbeat_execution IN ACCESS EXCLUSIVE MODE")
        time.sleep(fault.seconds)
    return True


def raise_serialization_errors(world: World, fault: Fault) -> bool:
    return _raise_errors(world, fault, instruments.SERIALIZATION_FAILURE)


def raise_deadlock_errors(world: World, fault: Fault) -> bool:
    return _raise_errors(world, fault, instruments.DEADLOCK)


def _raise_errors(world: World, fault: Fault, code: str) -> bool:
    with world.servers.database() as database:
        instruments.begin_trouble(database, code, share=_FAILING_SHARE)
    try:
        time.sleep(fault.seconds)
    finally:
        with world.servers.database() as database:
            instruments.end_trouble(database)
    return True


def make_deadlock(world: World, fault: Fault) -> bool:
    """Whoever finishes holds an execution and wants to write its attempt. We hold the attempts, and want executions.

    Each looks once whether it waits in a ring, a second after it began to wait. We come while the others have not
    looked yet, and look later ourselves, so that it is one of them that has to give way.
    """
    with world.servers.database() as database, contextlib.suppress(psycopg.errors.DeadlockDetected):
        database.execute("SET deadlock_timeout = '4s'")
        with database.transaction():
            database.execute("LOCK TABLE onbeat_attempt IN EXCLUSIVE MODE")
            time.sleep(fault.seconds)
            database.execute("LOCK TABLE onbeat_execution IN EXCLUSIVE MODE")
    return True
