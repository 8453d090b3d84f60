"""Where this machine keeps the server programs."""

import glob
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from launcher.processes import run

OLDEST_POSTGRES = 15

_POSTGRES_FOLDERS = (
    "/usr/lib/postgresql/*/bin",  # Debian, Ubuntu
    "/usr/pgsql-*/bin",  # Fedora, RHEL
    "/opt/homebrew/opt/postgresql*/bin",
    "/usr/local/opt/postgresql*/bin",
)
_REDIS_FOLDERS = ("/usr/bin", "/opt/homebrew/bin", "/usr/local/bin")
_RABBITMQ_FOLDERS = (
    "/usr/lib/rabbitmq/bin",
    "/opt/homebrew/opt/rabbitmq/sbin",
    "/usr/local/opt/rabbitmq/sbin",
)
# What these hold under RabbitMQ's names are wrappers that insist on the machine's own user and folders.
_RABBITMQ_WRAPPERS = {Path("/usr/sbin"), Path("/usr/bin"), Path("/sbin"), Path("/bin")}


@dataclass(frozen=True)
class Binaries:
    postgres: Path | None  # the folder of initdb, pg_ctl and postgres
    redis: Path | None  # the redis-server program
    rabbitmq: Path | None  # the folder of rabbitmq-server and rabbitmqctl


def find_binaries(postgres_major: int | None = None) -> Binaries:
    """The programs found. Existing data asks for the PostgreSQL version that made it."""
    return Binaries(find_postgres(postgres_major), find_redis(), find_rabbitmq())


def find_postgres(major: int | None = None) -> Path | None:
    """The newest PostgreSQL that we support, or the one of exactly this version."""
    folders = [Path(name) for pattern in _POSTGRES_FOLDERS for name in glob.glob(pattern)]
    if on_path := shutil.which("pg_ctl"):
        folders.append(Path(on_path).resolve().parent)
    found = {_postgres_major(folder): folder for folder in reversed(folders)}
    fitting = [version for version in found if (version == major if major else version >= OLDEST_POSTGRES)]
    return found[max(fitting)] if fitting else None


def find_redis() -> Path | None:
    return _program("redis-server", _REDIS_FOLDERS)


def find_rabbitmq() -> Path | None:
    folders = [Path(name) for name in _RABBITMQ_FOLDERS]
    if on_path := shutil.which("rabbitmq-server"):
        resolved = Path(on_path).resolve().parent
        folders += [] if resolved in _RABBITMQ_WRAPPERS else [resolved]
    return next((folder for folder in folders if (folder / "rabbitmq-server").exists()), None)


def _program(name: str, folders: tuple[str, ...]) -> Path | None:
    if on_path := shutil.which(name):
        return Path(on_path)
    return next((Path(folder, name) for folder in folders if Path(folder, name).exists()), None)


def _postgres_major(folder: Path) -> int:
    """The major version of a folder with a whole server in it, else 0."""
    if not all((folder / program).exists() for program in ("initdb", "pg_ctl", "postgres")):
        return 0
    shown = re.search(r"PostgreSQL\) (\d+)", run([str(folder / "postgres"), "--version"]).stdout)
    return int(shown[1]) if shown else 0
