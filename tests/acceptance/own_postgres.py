"""A PostgreSQL with a standby that follows it, which only one module of tests uses and may let fall."""

import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from launcher import postgres
from launcher.binaries import find_postgres
from launcher.ports import HOST, free_port
from launcher.processes import environment, run
from launcher.service_record import NAME, Ports, Record


@dataclass
class Pair:
    folder: Path
    record: Record
    standby_port: int

    @property
    def url(self) -> str:
        """Of whichever of the two takes writes."""
        hosts = f"{HOST}:{self.record.ports.postgres},{HOST}:{self.standby_port}"
        return f"postgresql://{NAME}:{self.record.postgres_password}@{hosts}/{NAME}?target_session_attrs=read-write"

    def wait_for_the_standby(self) -> None:
        """From now on no commit is answered that the standby does not have."""
        with psycopg.connect(self.record.addresses().database_url, autocommit=True) as primary:
            primary.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
            primary.execute("SELECT pg_reload_conf()")

    def crash_the_primary(self) -> None:
        postgres.stop(self.folder, self.record, mode="immediate")

    def promote(self) -> None:
        self._standby("pg_ctl", "promote", "-w")

    def follow(self) -> None:
        """Make the standby, and start it."""
        url = self.record.addresses().database_url
        self._standby("pg_basebackup", "--checkpoint=fast", "--write-recovery-conf", f"--dbname={url}")
        options = (
            f"-p {self.standby_port} -c listen_addresses={HOST} -c unix_socket_directories='' -c max_connections=200"
        )
        self._standby("pg_ctl", "start", "--silent", "-w", "-l", f"{self._data}.log", "-o", options)

    def stop(self) -> None:
        if (self._data / "postmaster.pid").exists():
            self._standby("pg_ctl", "stop", "--silent", "-w", "--mode", "immediate")
        postgres.stop(self.folder, self.record, mode="immediate")

    @property
    def _data(self) -> Path:
        return postgres.folder(self.folder, self.record) / "standby"

    def _standby(self, program: str, *words: str) -> None:
        programs = find_postgres()
        assert programs is not None
        command = [*self.record.postgres_as, str(programs / program), *words, "-D", str(self._data)]
        done = run(command, env=environment(without=["PG"]), timeout=60)
        assert done.returncode == 0, done.stdout


@contextmanager
def own_postgres() -> Iterator[Pair]:
    folder = Path(tempfile.mkdtemp(prefix="onbeat-test-"))
    folder.chmod(0o711)  # PostgreSQL's user has to pass through
    port = free_port(set())
    new = Record(location=str(folder), node=secrets.token_hex(6), ports=Ports(postgres=port))
    pair = Pair(folder, postgres.settle(folder, new), free_port({port}))
    try:
        postgres.start(folder, pair.record)
        pair.follow()
        yield pair
    finally:
        pair.stop()
        for place in (folder, *([Path(pair.record.postgres_folder)] if pair.record.postgres_folder else [])):
            shutil.rmtree(place, ignore_errors=True)
