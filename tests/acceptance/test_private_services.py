"""The private services for real: one set of the three servers, started, killed, robbed of a port and stopped.

The set lives below a folder that only its owner can enter, which is where PostgreSQL's user cannot follow root.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import kombu
import psycopg
import pytest
import redis
from amqp.exceptions import AccessRefused

from launcher import postgres, rabbitmq, services
from launcher.ports import free_port, is_taken
from launcher.processes import pid_in, wait_until
from launcher.service_record import NAME, Ports, Record, load, read_env_file

pytestmark = pytest.mark.full

ROOT = Path(__file__).parents[2]
PID_FILES = ("postgres/data/postmaster.pid", "redis/redis.pid", "rabbitmq/rabbitmq.pid")
START = "import sys; from launcher import services; sys.exit(services.main(['start']))"
on_linux = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="asks /proc who runs and who listens")
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root has to become another user for PostgreSQL")


@pytest.fixture(scope="module")
def data_dir() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="onbeat-test-"))  # 0700
    yield folder / "var"
    services.stop(folder / "var", print)
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def first_starts(data_dir: Path) -> list[str]:
    """What two commands printed that were started at the same moment. Reading a pipe to its end takes as long as
    anybody holds it open."""
    commands = [
        subprocess.Popen(
            [sys.executable, "-c", START],
            cwd=ROOT,
            env=os.environ | {"DATA_DIR": str(data_dir)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for _ in range(2)
    ]
    return [command.communicate(timeout=300)[0] for command in commands]


@pytest.fixture
def addresses(data_dir: Path, first_starts: list[str]) -> services.Addresses:
    """The addresses of all three, running: a test before may have ended one."""
    return services.start(data_dir, print)


def recorded(data_dir: Path) -> Record:
    record = load(data_dir)
    assert record is not None
    return record


def processes_of(data_dir: Path) -> set[int]:
    """Whoever has our folder in its command line, its environment or as the place where it is."""
    mark = str(data_dir).encode()
    found = set()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            facts = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
            facts += os.fsencode((entry / "cwd").readlink())
        except OSError:
            continue
        if mark in facts and int(entry.name) != os.getpid():
            found.add(int(entry.name))
    return found


def test_two_starts_at_the_same_moment_agree_and_let_go_of_their_pipes(data_dir: Path, first_starts: list[str]) -> None:
    one, other = ([line for line in said.splitlines() if "://" in line] for said in first_starts)

    assert one == other, "\n".join(first_starts)
    assert len(one) == 3
    assert sum("Another command is at work" in said for said in first_starts) == 1
    record = recorded(data_dir)
    for password in (record.postgres_password, record.redis_password, record.rabbitmq_password):
        assert password not in "".join(first_starts)


def test_all_three_answer_at_the_addresses_in_the_env_file(data_dir: Path, addresses: services.Addresses) -> None:
    env = read_env_file(services.env_file(data_dir))

    assert env == addresses.as_env()
    with psycopg.connect(env["DATABASE_URL"], autocommit=True) as connection:
        settings = [connection.execute(f"SHOW {name}").fetchone()[0] for name in ("fsync", "max_connections")]
        assert settings == ["on", "200"]
        connection.execute("CREATE DATABASE of_a_test")
        connection.execute("DROP DATABASE of_a_test")
    with redis.Redis.from_url(env["REDIS_URL"]) as client:
        assert client.ping()
    with kombu.Connection(env["CELERY_BROKER_URL"]) as connection:
        connection.connect()
        assert connection.connected


def test_nobody_without_the_password_gets_in(data_dir: Path, addresses: services.Addresses) -> None:
    port = recorded(data_dir).ports

    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(f"postgresql://onbeat:guess@127.0.0.1:{port.postgres}/onbeat")
    with pytest.raises(redis.AuthenticationError):
        redis.Redis(port=port.redis).ping()
    with kombu.Connection(f"amqp://guest:guest@127.0.0.1:{port.rabbitmq}") as guest, pytest.raises(AccessRefused):
        guest.connect()


@on_linux
def test_everything_listens_on_the_loopback_address_only(data_dir: Path, addresses: services.Addresses) -> None:
    ours = set(vars(recorded(data_dir).ports).values())
    listening = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            address, _, port = line.split()[1].partition(":")
            if int(port, 16) in ours and line.split()[3] == "0A":
                listening.add((address, int(port, 16)))

    assert {port for _, port in listening} == ours
    assert {address for address, _ in listening} <= {"0100007F", "00000000000000000000000001000000"}


def test_what_waits_in_a_queue_is_on_disk_alone_as_it_is_in_newer_ones(
    data_dir: Path, addresses: services.Addresses
) -> None:
    with kombu.Connection(addresses.broker_url) as connection:
        queue = connection.channel().queue_declare(exclusive=True).queue
        asked = ("list_queues", "-p", NAME, "name", "policy")
        told = rabbitmq.control(services.services_folder(data_dir), recorded(data_dir), *asked)
    assert f"{queue}\ton-disk-alone" in told


def test_a_second_start_gives_the_same_addresses_and_starts_nothing(
    data_dir: Path, addresses: services.Addresses
) -> None:
    said: list[str] = []
    assert services.start(data_dir, said.append) == addresses
    assert services.running(data_dir) == addresses
    assert said == []


def test_servers_killed_at_once_come_back_on_their_addresses_with_their_data(
    data_dir: Path, addresses: services.Addresses
) -> None:
    with psycopg.connect(addresses.database_url) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")
    with redis.Redis.from_url(addresses.redis_url) as client:
        client.set("kept", "42")
    with kombu.Connection(addresses.broker_url, transport_options={"confirm_publish": True}) as connection:
        connection.SimpleQueue("kept").put({"answer": 42})

    for file in PID_FILES:
        os.kill(pid_in(data_dir / "services" / file), signal.SIGKILL)
    assert wait_until(lambda: services.running(data_dir) is None, 5)

    assert services.start(data_dir, print) == addresses
    with psycopg.connect(addresses.database_url) as connection:
        assert connection.execute("SELECT answer FROM kept").fetchone() == (42,)
    with redis.Redis.from_url(addresses.redis_url) as client:
        assert client.get("kept") == b"42"
    with kombu.Connection(addresses.broker_url) as connection:
        assert connection.SimpleQueue("kept").get(timeout=5).payload == {"answer": 42}


def test_a_server_whose_port_was_taken_meanwhile_moves_and_the_env_file_says_so(
    data_dir: Path, addresses: services.Addresses
) -> None:
    old = recorded(data_dir).ports.redis
    os.kill(pid_in(data_dir / "services" / "redis" / "redis.pid"), signal.SIGKILL)
    assert wait_until(lambda: not is_taken(old), 5)

    with socket.create_server(("127.0.0.1", old)):
        moved = services.start(data_dir, print)

    assert recorded(data_dir).ports.redis != old
    assert (moved.database_url, moved.broker_url) == (addresses.database_url, addresses.broker_url)
    assert read_env_file(services.env_file(data_dir))["REDIS_URL"] == moved.redis_url
    with redis.Redis.from_url(moved.redis_url) as client:
        assert client.ping()


@as_root
@pytest.mark.parametrize(
    ("mode", "namespaces", "user"),
    [(0o755, True, "postgres"), (0o700, False, "postgres"), (0o700, True, "root")],
    ids=["a folder open to all", "a private folder without namespaces", "a private folder with namespaces"],
)
def test_root_gets_a_postgres_that_runs_as_somebody_else(
    mode: int, namespaces: bool, user: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not namespaces:
        monkeypatch.setattr(postgres, "_IN_A_NAMESPACE", ("false",))
    elif mode == 0o700 and subprocess.run([*postgres._IN_A_NAMESPACE, "true"], check=False).returncode != 0:
        pytest.skip("this machine allows no user namespaces")
    folder = Path(tempfile.mkdtemp(prefix="onbeat-test-"))
    folder.chmod(mode)
    record = Record(location=str(folder), node="", ports=Ports(postgres=free_port(set())))
    try:
        record = postgres.settle(folder, record)
        postgres.start(folder, record)
        home = postgres.folder(folder, record)

        assert home.owner() == user
        assert (home.parent == folder) is (mode == 0o755 or namespaces)
        assert postgres.settle(folder, record) == record  # found again
        assert postgres.stop(folder, record) is True
        assert not is_taken(record.ports.postgres)
    finally:
        postgres.stop(folder, record)
        for used in {folder, postgres.folder(folder, record)}:
            shutil.rmtree(used, ignore_errors=True)


@on_linux
def test_stop_leaves_no_process_and_no_open_port_but_the_data(data_dir: Path, addresses: services.Addresses) -> None:
    used = recorded(data_dir).ports
    assert len(processes_of(data_dir)) >= 4  # three servers and the port mapper, each with its helpers

    assert services.stop(data_dir, print) is True

    assert wait_until(lambda: not processes_of(data_dir), 5), processes_of(data_dir)
    assert [port for port in vars(used).values() if is_taken(port)] == []
    assert services.running(data_dir) is None
    assert services.stop(data_dir, print) is False
    assert recorded(data_dir).ports == used
    assert (data_dir / "services" / "postgres" / "data" / "PG_VERSION").exists()
