"""What is written down about the private services: their ports, passwords and folders.

`services/record.json` below the data folder is the truth, and `services.env` beside it is the same set as
addresses for settings and tests. Both are readable by their owner only and are replaced in one step, so that a
reader never sees half a file.
"""

import dataclasses
import json
import os
import secrets
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from launcher.refusal import Refusal

NAME = "onbeat"  # the user, the database and the virtual host are all called so


class ServicesUnavailable(Refusal):
    """The private services cannot be had; the text says why and what to do, in a sentence or two."""


@dataclass(frozen=True)
class Addresses:
    database_url: str
    redis_url: str
    broker_url: str

    def as_env(self) -> dict[str, str]:
        return {
            "DATABASE_URL": self.database_url,
            "REDIS_URL": self.redis_url,
            "CELERY_BROKER_URL": self.broker_url,
        }


@dataclass(frozen=True)
class Ports:
    """0 means: none chosen yet."""

    postgres: int = 0
    redis: int = 0
    rabbitmq: int = 0
    dist: int = 0  # where RabbitMQ's node talks to its own command line tools
    epmd: int = 0  # where those ask for the node's port


@dataclass(frozen=True)
class Record:
    """One private set."""

    location: str  # the data folder this set was made for: a copy of the folder must not use the original's ports
    node: str  # RabbitMQ's node name, which its stored data depends on
    backend: Literal["processes", "docker", ""] = ""
    ports: Ports = field(default_factory=Ports)
    postgres_password: str = field(default_factory=lambda: secrets.token_hex(16), repr=False)
    redis_password: str = field(default_factory=lambda: secrets.token_hex(16), repr=False)
    rabbitmq_password: str = field(default_factory=lambda: secrets.token_hex(16), repr=False)
    postgres_folder: str = ""  # empty: below the data folder; else where PostgreSQL's user could write
    postgres_as: tuple[str, ...] = ()  # the command prefix that changes to PostgreSQL's user

    def addresses(self) -> Addresses:
        return Addresses(
            database_url=f"postgresql://{NAME}:{self.postgres_password}@127.0.0.1:{self.ports.postgres}/{NAME}",
            redis_url=f"redis://:{self.redis_password}@127.0.0.1:{self.ports.redis}/0",
            broker_url=f"amqp://{NAME}:{self.rabbitmq_password}@127.0.0.1:{self.ports.rabbitmq}/{NAME}",
        )


def services_folder(data_dir: Path) -> Path:
    return data_dir / "services"


def env_file(data_dir: Path) -> Path:
    return data_dir / "services.env"


def read_env_file(path: Path) -> dict[str, str]:
    pairs = (line.split("=", maxsplit=1) for line in path.read_text().splitlines() if "=" in line)
    return dict(pairs)


def load(data_dir: Path) -> Record | None:
    """The set recorded for this data folder, or None. A moved or copied folder keeps its passwords and data only."""
    path = _record_file(data_dir)
    try:
        stored = json.loads(path.read_text())
        stored |= {"postgres_as": tuple(stored["postgres_as"]), "ports": Ports(**stored["ports"])}
        record = Record(**stored)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except PermissionError as problem:
        raise ServicesUnavailable(f"{problem}. Run this as the user who started the private services.") from problem
    except (ValueError, TypeError, KeyError) as problem:
        raise ServicesUnavailable(
            f"{path} cannot be read ({problem}). Restore it, or delete {path.parent} to begin with empty services."
        ) from problem
    location = str(data_dir.resolve())
    if record.location == location:
        return record
    return Record(
        location=location,
        node=record.node,
        backend="" if record.backend == "docker" else record.backend,
        postgres_password=record.postgres_password,
        redis_password=record.redis_password,
        rabbitmq_password=record.rabbitmq_password,
        postgres_as=() if record.postgres_folder else record.postgres_as,
    )


def save(data_dir: Path, record: Record) -> None:
    write_private(_record_file(data_dir), json.dumps(dataclasses.asdict(record), indent=2) + "\n")


def write_env_file(data_dir: Path, addresses: Addresses) -> None:
    text = "".join(f"{key}={value}\n" for key, value in addresses.as_env().items())
    write_private(env_file(data_dir), text)


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read, in one step."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # mkstemp makes it 0600
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _record_file(data_dir: Path) -> Path:
    return services_folder(data_dir) / "record.json"
