"""The private PostgreSQL: making its data folder, starting and stopping it.

A folder called `data` is always whole: it is made under another name and renamed when the database is in it.
PostgreSQL refuses to run as root, so for root every command gets a prefix that changes the user; which one, and
where that user can write, is found out once and recorded.
"""

import dataclasses
import os
import pwd
import shlex
import shutil
import sys
import tempfile
from pathlib import Path

from launcher.binaries import find_postgres
from launcher.ports import HOST
from launcher.probes import postgres_answers
from launcher.processes import environment, is_ours, last_line, pid_in, run, tail, wait_until
from launcher.service_record import NAME, Record, ServicesUnavailable, write_private

_USER = "postgres"
_IN_A_NAMESPACE = ("unshare", "--user", "--map-user=1000", "--map-group=1000")
_START_SECONDS = 60


def folder(services: Path, record: Record) -> Path:
    return Path(record.postgres_folder) if record.postgres_folder else services / "postgres"


def data_version(services: Path, record: Record) -> int | None:
    """The major version that made the data, which alone can read it."""
    return pid_in(folder(services, record) / "data" / "PG_VERSION") or None


def settle(services: Path, record: Record) -> Record:
    """Decide, once, as which user PostgreSQL runs and in which folder."""
    if (folder(services, record) / "data").exists() and (record.postgres_as or os.geteuid() != 0):
        return record
    home = services / "postgres"
    home.mkdir(mode=0o700, exist_ok=True)
    if os.geteuid() != 0:
        return dataclasses.replace(record, postgres_folder="", postgres_as=())
    as_user = _as_postgres_user()
    if as_user and _can_work_in(home, _USER, as_user):
        return dataclasses.replace(record, postgres_folder="", postgres_as=as_user)
    if shutil.which(_IN_A_NAMESPACE[0]) and _can_work_in(home, "root", _IN_A_NAMESPACE):
        return dataclasses.replace(record, postgres_folder="", postgres_as=_IN_A_NAMESPACE)
    if as_user:
        for place in (tempfile.gettempdir(), "/tmp", "/var/tmp"):
            elsewhere = Path(tempfile.mkdtemp(prefix="onbeat-postgres-", dir=place))
            if _can_work_in(elsewhere, _USER, as_user):
                return dataclasses.replace(record, postgres_folder=str(elsewhere), postgres_as=as_user)
            elsewhere.rmdir()
    raise ServicesUnavailable(
        f"PostgreSQL does not run as root, and there is no other user that can write to {home}. "
        "Run this as an ordinary user, or add a user called postgres."
    )


def start(services: Path, record: Record) -> None:
    """Start the server and return when it accepts our password."""
    home = folder(services, record)
    programs = _programs(services, record)
    if not (home / "data").exists():
        _make_data(home, programs, record)
    if not pid(services, record):
        settings = {
            "listen_addresses": HOST,
            "port": str(record.ports.postgres),
            "unix_socket_directories": "",  # a socket's path may be 107 bytes long at most; ours may be longer
            "max_connections": "200",
            "fsync": "on",
        }
        options = shlex.join(word for key, value in settings.items() for word in ("-c", f"{key}={value}"))
        # Processes of a server killed a moment ago may still hold its memory: then it starts at a later try.
        command = ["start", "--silent", "--log", str(_log(home)), "--timeout", str(_START_SECONDS), "-o", options]
        if not wait_until(lambda: _pg_ctl(home, programs, record, *command), 5):
            raise _failed(home, "did not start")
    if not wait_until(lambda: postgres_answers(record.ports.postgres, record.postgres_password), _START_SECONDS):
        raise _failed(home, f"does not accept our password on port {record.ports.postgres}")


def stop(services: Path, record: Record, *, mode: str = "fast") -> bool:
    """Stop the server if it is ours and runs; True if it did."""
    home = folder(services, record)
    if not pid(services, record):
        return False
    if not _pg_ctl(home, _programs(services, record), record, "stop", "--silent", "--mode", mode, "--timeout", "30"):
        raise _failed(home, "did not stop")
    return True


def pid(services: Path, record: Record) -> int:
    """Of our running server, or 0."""
    home = folder(services, record)
    return _drop_stale_pid(home)


def _make_data(home: Path, programs: Path, record: Record) -> None:
    unfinished, password = home / "data.unfinished", home / "password"
    shutil.rmtree(unfinished, ignore_errors=True)
    write_private(password, record.postgres_password)
    owner = home.stat()
    os.chown(password, owner.st_uid, owner.st_gid)
    locale = "en_US.UTF-8" if sys.platform == "darwin" else "C.UTF-8"
    make = ["initdb", "-D", str(unfinished), "-U", NAME, "-A", "scram-sha-256", f"--pwfile={password}"]
    fill = ["postgres", "--single", "-D", str(unfinished), "postgres"]
    try:
        for (program, *rest), text in (
            ([*make, "-E", "UTF8", f"--locale={locale}"], ""),
            (fill, f"CREATE DATABASE {NAME};\n"),
        ):
            command = [*record.postgres_as, str(programs / program), *rest]
            done = run(command, env=environment(without=["PG"]), text=text, timeout=120)
            if done.returncode != 0:
                (home / "initdb.log").write_text(done.stdout)
                raise ServicesUnavailable(
                    f"PostgreSQL's data folder {home} could not be made: {last_line(done.stdout)}. "
                    f"Put right what it says, then try again; the log is {home / 'initdb.log'}."
                )
    finally:
        password.unlink(missing_ok=True)
    unfinished.rename(home / "data")


def _drop_stale_pid(home: Path) -> int:
    """The id of our running server, or 0. PostgreSQL itself would take any living process of that number for
    its own server, and refuse to start."""
    file = home / "data" / "postmaster.pid"
    pid = pid_in(file)
    if pid and not is_ours(pid, str(home)):
        file.unlink(missing_ok=True)
        return 0
    return pid


def _pg_ctl(home: Path, programs: Path, record: Record, *arguments: str) -> bool:
    command = [*record.postgres_as, str(programs / "pg_ctl"), *arguments, "-w", "-D", str(home / "data")]
    return run(command, env=environment(without=["PG"]), timeout=_START_SECONDS + 15).returncode == 0


def _programs(services: Path, record: Record) -> Path:
    version = data_version(services, record)
    found = find_postgres(version)
    if found is None:
        raise ServicesUnavailable(
            f"The data in {folder(services, record)} was made by PostgreSQL {version}, which is not installed. "
            f"Install PostgreSQL {version}, or delete that folder to begin with an empty database."
        )
    return found


def _as_postgres_user() -> tuple[str, ...]:
    """The prefix that runs a command as the postgres user; empty if there is no such user."""
    try:
        pwd.getpwnam(_USER)
    except KeyError:
        return ()
    prefixes: list[tuple[str, ...]] = [
        ("setpriv", f"--reuid={_USER}", f"--regid={_USER}", "--init-groups"),
        ("runuser", "-u", _USER, "--"),
        ("su", "-s", "/bin/sh", "-c", 'exec "$0" "$@"', _USER, "--"),
    ]
    return next((prefix for prefix in prefixes if shutil.which(prefix[0])), ())


def _can_work_in(home: Path, user: str, prefix: tuple[str, ...]) -> bool:
    """Give the folder to this user, and see whether it can then be reached and written to."""
    owner = pwd.getpwnam(user)
    os.chown(home, owner.pw_uid, owner.pw_gid)
    return run([*prefix, "/bin/sh", "-c", 'cd "$1" && test -w .', "sh", str(home)]).returncode == 0


def _log(home: Path) -> Path:
    return home / "server.log"


def _failed(home: Path, what: str) -> ServicesUnavailable:
    return ServicesUnavailable(
        f"PostgreSQL {what}: {last_line(tail(_log(home), 5))}. "
        f"Put right what its log {_log(home)} says, then try again."
    )
