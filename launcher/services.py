"""Private PostgreSQL, Redis and RabbitMQ beside whatever runs on this machine.

They have data, ports and passwords of their own, listen on the loopback address only, and outlive the command that
started them. They come from the server programs found here, else from Debian packages installed for it, else from
Docker. All changes happen under one lock, so that two commands at the same moment do no harm; what runs is only
ever judged by asking it with our password, and only what is provably ours is stopped.
"""

import dataclasses
import fcntl
import hashlib
import re
import secrets
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, TypeVar

from launcher import docker, folders, packages, postgres, rabbitmq, redis_server
from launcher.binaries import OLDEST_POSTGRES, Binaries, find_binaries
from launcher.ports import keep_or_choose
from launcher.probes import postgres_answers, rabbitmq_answers, redis_answers
from launcher.progress import Say, step
from launcher.service_record import (
    Addresses,
    Record,
    ServicesUnavailable,
    env_file,
    load,
    save,
    services_folder,
    write_env_file,
)

__all__ = ["Addresses", "ServicesUnavailable", "env_file", "held", "main", "running", "start", "stop"]

Result = TypeVar("Result")

_NAMES = {"postgres": "PostgreSQL", "redis": "Redis", "rabbitmq": "RabbitMQ"}
_KEPT = "kept"  # a person wants them to run on
_PACKAGES = {"postgres": "postgresql", "redis": "redis-server", "rabbitmq": "rabbitmq-server"}


def start(data_dir: Path, say: Say) -> Addresses:
    """Bring up whatever of the three does not run, on its old port and data if it has any."""
    try:
        return _start(data_dir.resolve(), say)
    except OSError as problem:
        raise ServicesUnavailable(
            f"The private services cannot be started: {problem}. "
            f"See that {data_dir} can be written to and has space, then try again."
        ) from problem


def stop(data_dir: Path, say: Say) -> bool:
    """Stop what `start` started and keep its data; True if anything was running."""
    data_dir = data_dir.resolve()
    services = services_folder(data_dir)
    if not services.is_dir():
        return False
    with _one_at_a_time(services, say):
        record = load(data_dir)
        if record is None:
            return False
        if record.backend == "docker":
            return docker.stop(record)
        stops = [partial(server.stop, services, record) for server in (postgres, redis_server, rabbitmq)]
        return any(_side_by_side(stops))


@contextmanager
def held(data_dir: Path, say: Say) -> Iterator[Addresses]:
    """The services for as long as they are needed here. The last of several such users stops them, unless a person
    has started them with the command."""
    services = services_folder(data_dir.resolve())
    services.mkdir(parents=True, exist_ok=True)
    with (services / "in-use").open("w") as in_use:
        fcntl.flock(in_use, fcntl.LOCK_SH)
        try:
            yield start(data_dir, say)
        finally:
            if not (services / _KEPT).exists() and _is_last_user(in_use):
                stop(data_dir, say)


def _is_last_user(in_use: IO[str]) -> bool:
    try:
        fcntl.flock(in_use, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def running(data_dir: Path) -> Addresses | None:
    """The addresses if all three answer there to our passwords."""
    record = load(data_dir)
    return record.addresses() if record and not _not_answering(record) else None


def main(words: list[str]) -> int:
    """`services [start|stop|status]`, for a person at a terminal."""
    command = words[0] if words else "start"
    data_dir = folders.data_dir()
    if command == "start" and len(words) <= 1:
        _show(start(data_dir, print), data_dir)
        (services_folder(data_dir) / _KEPT).touch()
        return 0
    if command == "stop" and len(words) == 1:
        (services_folder(data_dir) / _KEPT).unlink(missing_ok=True)
        print("Stopped; the data stays." if stop(data_dir, print) else "None of the private services was running.")
        return 0
    if command == "status" and len(words) == 1:
        return _print_status(data_dir)
    print("Usage: ./onbeat services [start|stop|status]", file=sys.stderr)
    return 2


def _start(data_dir: Path, say: Say) -> Addresses:
    if (addresses := running(data_dir)) and env_file(data_dir).exists():
        return addresses
    services = services_folder(data_dir)
    services.mkdir(parents=True, exist_ok=True)
    services.chmod(0o711)  # PostgreSQL's user has to pass through; it cannot look around
    with _one_at_a_time(services, say):
        record = load(data_dir) or _new_record(data_dir)
        down = _not_answering(record)
        if down:
            record = _with_backend(services, record, say)
            record = _with_ports(record, down)
            if record.backend == "processes" and "postgres" in down:
                record = postgres.settle(services, record)
            save(data_dir, record)  # before anything runs, so that whatever does can be found again
            with step(say, f"Starting {', '.join(_NAMES[name] for name in down)}"):
                _start_down(services, record, down)
        write_env_file(data_dir, record.addresses())
    return record.addresses()


def _print_status(data_dir: Path) -> int:
    record = load(data_dir)
    if record is None:
        print("No private services yet: ./onbeat services starts them.")
        return 1
    down = _not_answering(record)
    if not down:
        _show(record.addresses(), data_dir)
        return 0
    print(
        f"Not answering: {', '.join(_NAMES[name] for name in down)}. "
        "./onbeat services starts what does not run, with its data."
    )
    return 1


def _show(addresses: Addresses, data_dir: Path) -> None:
    for key, value in addresses.as_env().items():
        print(f"{key:<18} {re.sub(r':[^:@/]+@', '@', value).replace('//@', '//')}")
    print(f"With their passwords: {env_file(data_dir)}")


@contextmanager
def _one_at_a_time(services: Path, say: Say) -> Iterator[None]:
    with (services / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("Another command is at work on the private services; waiting for it …")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _new_record(data_dir: Path) -> Record:
    location = str(data_dir.resolve())
    # Random besides the hash: a folder made anew must not meet the old one's node.
    node = f"onbeat-{hashlib.sha256(location.encode()).hexdigest()[:10]}-{secrets.token_hex(2)}@localhost"
    return Record(location=location, node=node)


def _not_answering(record: Record) -> list[str]:
    answers = {
        "postgres": postgres_answers(record.ports.postgres, record.postgres_password),
        "redis": redis_answers(record.ports.redis, record.redis_password),
        "rabbitmq": rabbitmq_answers(record.ports.rabbitmq, record.rabbitmq_password),
    }
    return [name for name, answered in answers.items() if not answered]


def _with_backend(services: Path, record: Record, say: Say) -> Record:
    """Where the servers come from. A set keeps its choice, because its data is there."""
    if record.backend == "docker":
        return record
    major = postgres.data_version(services, record)
    missing = _missing(find_binaries(major))
    if missing and packages.can_install():
        packages.install([_PACKAGES[name] for name in missing], services / "install.log", say)
        missing = _missing(find_binaries(major))
    if not missing:
        return dataclasses.replace(record, backend="processes")
    if not record.backend and docker.is_available():
        return dataclasses.replace(record, backend="docker")
    raise ServicesUnavailable(unavailable_text(missing))


def _missing(found: Binaries) -> list[str]:
    return [name for name in _PACKAGES if getattr(found, name) is None]


def unavailable_text(missing: Sequence[str]) -> str:
    debian = " ".join(_PACKAGES[name] for name in missing)
    homebrew = " ".join({"postgres": "postgresql@17"}.get(name, name) for name in missing)
    names = _NAMES | {"postgres": f"PostgreSQL {OLDEST_POSTGRES} or newer"}
    return (
        f"Not found on this machine: {', '.join(names[name] for name in missing)}. "
        f"Install with `sudo apt-get install {debian}` or `brew install {homebrew}`, or start a Docker engine that has "
        "compose, then try again."
    )


def _with_ports(record: Record, down: Sequence[str]) -> Record:
    """The recorded ports for what does not answer, except where a stranger or nobody's choice makes a new one."""
    names = [*down, "dist", "epmd"] if "rabbitmq" in down else list(down)
    ports = record.ports
    for name in names:
        current: int = getattr(ports, name)
        if name == "epmd" and rabbitmq.port_mapper_is_ours(record):
            continue  # it outlived its node, which will find it again
        others = set(vars(ports).values()) - {current}
        ports = dataclasses.replace(ports, **{name: keep_or_choose(current, others)})
    return dataclasses.replace(record, ports=ports)


def _start_down(services: Path, record: Record, down: Sequence[str]) -> None:
    if record.backend == "docker":
        docker.start(record)
        return
    servers = {"postgres": postgres.start, "redis": redis_server.start, "rabbitmq": rabbitmq.start}
    _side_by_side([partial(servers[name], services, record) for name in down])


def _side_by_side(calls: Sequence[Callable[[], Result]]) -> list[Result]:
    """Let each come to its end, then raise the first problem if there was one."""
    with ThreadPoolExecutor(max_workers=len(calls)) as pool:
        futures = [pool.submit(call) for call in calls]
    return [future.result() for future in futures]
