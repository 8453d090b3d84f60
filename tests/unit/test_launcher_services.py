"""The private services, as far as they can be tried without starting a server."""

import os
import socket
import stat
import struct
import threading
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from launcher import binaries, docker, packages, ports, postgres, processes, rabbitmq, service_record, services
from launcher.probes import postgres_answers, rabbitmq_answers, redis_answers
from launcher.service_record import Addresses, Ports, Record

ADDRESSES = Addresses("postgresql://onbeat:one@127.0.0.1:1/onbeat", "redis://:two@127.0.0.1:2/0", "amqp://a:b@h/onbeat")
PASSWORD_OF_ALL = "f" * 32


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def record(tmp_path: Path) -> Record:
    return Record(
        location=str(tmp_path.resolve()),
        node="onbeat-test@localhost",
        postgres_password=PASSWORD_OF_ALL,
        redis_password=PASSWORD_OF_ALL,
        rabbitmq_password=PASSWORD_OF_ALL,
    )


@pytest.fixture
def stranger() -> Iterator[int]:
    """A port on which somebody listens who says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


@pytest.fixture
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "find_binaries", lambda major: binaries.Binaries(None, None, None))
    monkeypatch.setattr(packages, "can_install", lambda: False)
    monkeypatch.setattr(docker, "is_available", lambda: False)


def test_the_env_file_is_private_and_reads_back_as_it_was_written(tmp_path: Path) -> None:
    service_record.write_env_file(tmp_path, ADDRESSES)

    assert services.env_file(tmp_path) == tmp_path / "services.env"
    assert mode(tmp_path / "services.env") == 0o600
    assert service_record.read_env_file(tmp_path / "services.env") == ADDRESSES.as_env()
    assert [path.name for path in tmp_path.iterdir()] == ["services.env"]


def test_the_env_file_replaces_an_older_one_and_its_looser_mode(tmp_path: Path) -> None:
    (tmp_path / "services.env").write_text("DATABASE_URL=old\nOTHER=1\n")
    (tmp_path / "services.env").chmod(0o644)

    service_record.write_env_file(tmp_path, ADDRESSES)

    assert mode(tmp_path / "services.env") == 0o600
    assert service_record.read_env_file(tmp_path / "services.env") == ADDRESSES.as_env()


def test_a_record_reads_back_as_it_was_saved_and_shows_no_password(tmp_path: Path, record: Record) -> None:
    saved = Record(**vars(record) | {"ports": Ports(1, 2, 3, 4, 5), "postgres_as": ("setpriv", "--reuid=postgres")})
    service_record.services_folder(tmp_path).mkdir()

    service_record.save(tmp_path, saved)

    assert service_record.load(tmp_path) == saved
    assert mode(tmp_path / "services" / "record.json") == 0o600
    assert PASSWORD_OF_ALL not in repr(saved)


def test_a_copied_data_folder_keeps_its_passwords_but_not_the_ports_of_the_original(
    tmp_path: Path, record: Record
) -> None:
    original, copy = tmp_path / "original", tmp_path / "copy"
    for folder in (original, copy):
        (folder / "services").mkdir(parents=True)
    saved = Record(**vars(record) | {"location": str(original.resolve()), "ports": Ports(1, 2, 3, 4, 5)})
    service_record.save(original, saved)
    (copy / "services" / "record.json").write_bytes((original / "services" / "record.json").read_bytes())

    loaded = service_record.load(copy)

    assert loaded is not None
    assert loaded.ports == Ports()
    assert loaded.postgres_password == PASSWORD_OF_ALL


def test_a_damaged_record_is_named_with_the_remedy(tmp_path: Path) -> None:
    service_record.services_folder(tmp_path).mkdir()
    (tmp_path / "services" / "record.json").write_text("{")

    with pytest.raises(services.ServicesUnavailable, match=r"record\.json cannot be read .* Restore it, or delete"):
        services.running(tmp_path)


def test_missing_programs_are_named_with_what_to_install(tmp_path: Path, nothing_installed: None) -> None:
    with pytest.raises(services.ServicesUnavailable) as problem:
        services.start(tmp_path, lambda text: None)

    text = str(problem.value)
    assert "PostgreSQL 15 or newer, Redis, RabbitMQ" in text
    assert "apt-get install postgresql redis-server rabbitmq-server" in text
    assert "brew install postgresql@17 redis rabbitmq" in text
    assert "Docker" in text
    assert text.count(". ") == 1  # two sentences
    assert not services.env_file(tmp_path).exists()


def test_only_what_is_missing_is_installed(
    tmp_path: Path, record: Record, monkeypatch: pytest.MonkeyPatch, nothing_installed: None
) -> None:
    here = Path("/here")
    found = iter([binaries.Binaries(here, None, here), binaries.Binaries(here, here, here)])
    asked: list[str] = []
    monkeypatch.setattr(services, "find_binaries", lambda major: next(found))
    monkeypatch.setattr(packages, "can_install", lambda: True)
    monkeypatch.setattr(packages, "install", lambda names, log, say: asked.extend([*names, str(log)]))

    assert services._with_backend(tmp_path, record, print).backend == "processes"
    assert asked == ["redis-server", str(tmp_path / "install.log")]


def test_docker_serves_a_new_set_but_not_one_that_has_its_data_in_folders(
    tmp_path: Path, record: Record, monkeypatch: pytest.MonkeyPatch, nothing_installed: None
) -> None:
    monkeypatch.setattr(docker, "is_available", lambda: True)

    assert services._with_backend(tmp_path, record, print).backend == "docker"
    with pytest.raises(services.ServicesUnavailable):
        services._with_backend(tmp_path, Record(**vars(record) | {"backend": "processes"}), print)


def test_a_data_folder_that_cannot_be_written_to_is_named_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "var").write_text("a file where a folder should be")

    with pytest.raises(services.ServicesUnavailable, match=r"cannot be started: .* See that .*/var can be written to"):
        services.start(tmp_path / "var", print)


def test_only_what_is_missing_is_asked_for() -> None:
    text = services.unavailable_text(["redis"])

    assert "apt-get install redis-server`" in text
    assert "PostgreSQL" not in text


def test_a_recorded_port_is_kept_while_nobody_else_has_it() -> None:
    port = ports.free_port(set())

    assert ports.keep_or_choose(port, set()) == port


def test_a_port_that_a_stranger_took_is_given_up_for_a_free_one(stranger: int) -> None:
    chosen = ports.keep_or_choose(stranger, set(), patience_seconds=0.1)

    assert chosen != stranger
    assert not ports.is_taken(chosen)


def test_a_server_of_ours_that_is_just_ending_gets_its_port_back() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    closing = threading.Timer(0.2, listener.close)
    closing.start()
    try:
        assert ports.keep_or_choose(port, set(), patience_seconds=5) == port
    finally:
        closing.join()


def test_a_port_that_is_spoken_for_is_not_chosen_again() -> None:
    only = ports.free_port(set())

    assert ports.free_port(set(ports.CHOICES) - {only}) == only


def test_five_different_ports_are_chosen_for_a_new_set(record: Record) -> None:
    chosen = services._with_ports(record, ["postgres", "redis", "rabbitmq"]).ports

    assert len(set(vars(chosen).values())) == 5
    assert all(port in ports.CHOICES for port in vars(chosen).values())


def test_what_answers_keeps_its_port_when_another_is_chosen(
    record: Record, stranger: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services, "keep_or_choose", partial(ports.keep_or_choose, patience_seconds=0.1))
    recorded = Record(**vars(record) | {"ports": Ports(postgres=stranger, redis=stranger, rabbitmq=3, dist=4, epmd=5)})

    chosen = services._with_ports(recorded, ["redis"]).ports

    assert chosen.redis != stranger
    assert (chosen.postgres, chosen.rabbitmq, chosen.dist, chosen.epmd) == (stranger, 3, 4, 5)


@pytest.mark.parametrize("answers", [postgres_answers, redis_answers, rabbitmq_answers])
@pytest.mark.parametrize("greeting", [b"+OK\r\n+PONG\r", b"HTTP/1.1 400 Bad Request\r\n\r\n" * 5, b""])
def test_a_stranger_on_our_port_is_not_taken_for_our_server(answers, greeting: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def greet_and_close() -> None:
            caller, _ = listener.accept()
            with caller, suppress(OSError):  # the caller may hang up in the middle
                caller.sendall(greeting)
                caller.shutdown(socket.SHUT_WR)
                while caller.recv(4096):
                    pass

        thread = threading.Thread(target=greet_and_close)
        thread.start()
        try:
            assert not answers(listener.getsockname()[1], PASSWORD_OF_ALL)
        finally:
            thread.join()


def test_a_postgres_that_asks_for_no_password_is_not_ours() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def trust_everybody() -> None:
            caller, _ = listener.accept()
            with caller:
                caller.recv(1024)
                caller.sendall(b"R" + struct.pack("!II", 8, 0) + b"Z" + struct.pack("!I", 5) + b"I")

        thread = threading.Thread(target=trust_everybody)
        thread.start()
        try:
            assert not postgres_answers(listener.getsockname()[1], PASSWORD_OF_ALL)
        finally:
            thread.join()


def test_a_pid_file_that_now_names_a_stranger_counts_for_nothing(tmp_path: Path, record: Record) -> None:
    data = tmp_path / "postgres" / "data"
    data.mkdir(parents=True)
    (data / "postmaster.pid").write_text(f"{os.getpid()}\n{data}\n")

    assert postgres.stop(tmp_path, record) is False
    assert not (data / "postmaster.pid").exists()  # PostgreSQL would refuse to start because of it


def test_our_own_process_is_told_from_a_stranger_by_its_command_line() -> None:
    assert processes.is_ours(os.getpid(), "pytest")
    assert not processes.is_ours(os.getpid(), "/services/redis/redis.conf")
    assert not processes.is_ours(0, "pytest")


def test_nothing_that_was_never_started_is_stopped(tmp_path: Path, record: Record, stranger: int) -> None:
    service_record.services_folder(tmp_path).mkdir()
    service_record.save(
        tmp_path, Record(**vars(record) | {"backend": "processes", "ports": Ports(*[stranger] * 3, 4, 5)})
    )

    assert services.stop(tmp_path, lambda text: None) is False
    assert services.stop(tmp_path / "nowhere", lambda text: None) is False


@pytest.mark.parametrize(("names", "ours"), [((), True), (("onbeat-test",), True), (("rabbit",), False)])
def test_a_port_mapper_that_knows_other_nodes_is_not_ours(record: Record, names: tuple[str, ...], ours: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

        def answer_names() -> None:
            caller, _ = listener.accept()
            with caller:
                caller.recv(16)
                lines = "".join(f"name {name} at port 1\n" for name in names)
                caller.sendall(struct.pack("!I", port) + lines.encode())

        thread = threading.Thread(target=answer_names)
        thread.start()
        try:
            assert rabbitmq.port_mapper_is_ours(Record(**vars(record) | {"ports": Ports(epmd=port)})) is ours
        finally:
            thread.join()


@pytest.mark.parametrize("before", [None, "#!/bin/sh\nexit 0\n"])
def test_an_installation_that_fails_leaves_the_start_policy_as_it_was(tmp_path: Path, before: str | None) -> None:
    policy = tmp_path / "policy-rc.d"
    if before is not None:
        policy.write_text(before)
        policy.chmod(0o750)

    def fail_to_install() -> None:
        with packages.default_servers_held_back(policy):
            assert "exit 101" in policy.read_text()
            assert mode(policy) == 0o755
            raise RuntimeError("apt-get failed")

    with pytest.raises(RuntimeError, match="apt-get failed"):
        fail_to_install()

    assert (policy.read_text() if policy.exists() else None) == before
    assert before is None or mode(policy) == 0o750
    assert len(list(tmp_path.iterdir())) == (0 if before is None else 1)


def test_the_start_policy_of_an_installation_that_was_killed_is_cleared_up_by_the_next(tmp_path: Path) -> None:
    policy = tmp_path / "policy-rc.d"
    policy.write_text(packages._HOLD_BACK)
    (tmp_path / "policy-rc.d.kept-by-onbeat").write_text("before")

    with packages.default_servers_held_back(policy):
        pass

    assert policy.read_text() == "before"
    assert [path.name for path in tmp_path.iterdir()] == ["policy-rc.d"]


def test_a_failed_installation_shows_the_end_of_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fake_program
) -> None:
    fake_program("apt-get", 'echo "E: Unable to locate package $7"; exit 100')
    monkeypatch.setattr(packages, "POLICY", tmp_path / "policy-rc.d")

    with pytest.raises(services.ServicesUnavailable) as problem:
        packages.install(["redis-server"], tmp_path / "install.log", lambda text: None)

    assert "could not install redis-server" in str(problem.value)
    assert str(tmp_path / "install.log") in str(problem.value)
    assert "E: Unable to locate package redis-server" in str(problem.value)
    assert not (tmp_path / "policy-rc.d").exists()


@pytest.fixture
def fake_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Puts a shell script of this name first on the PATH."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    def make(name: str, script: str) -> None:
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)

    return make


def test_docker_gets_our_ports_and_passwords_through_the_environment(
    tmp_path: Path, record: Record, fake_program
) -> None:
    said = tmp_path / "said"
    fake_program("docker", f'echo "$@" "$ONBEAT_POSTGRES_PORT" >>{said}; echo "$ONBEAT_REDIS_PASSWORD" >>{said}')

    assert docker.is_available()
    docker.start(Record(**vars(record) | {"ports": Ports(postgres=25_432)}))

    command = f"compose --project-name {docker.project(record)} --file {docker.COMPOSE_FILE} up --detach --wait"
    assert said.read_text().splitlines()[-2:] == [f"{command} 25432", PASSWORD_OF_ALL]
    assert docker.COMPOSE_FILE.is_file()


def test_a_docker_whose_engine_is_down_is_not_used(fake_program) -> None:
    fake_program("docker", '[ "$1" = compose ]')

    assert not docker.is_available()


def test_a_docker_that_fails_is_named_with_the_remedy(record: Record, fake_program) -> None:
    fake_program("docker", "echo no space left on device; exit 1")

    with pytest.raises(services.ServicesUnavailable, match=r"compose up` failed: no space left .* See `docker compose"):
        docker.start(record)


def test_the_newest_supported_postgres_is_found_unless_the_data_asks_for_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for major in (9, 14, 15, 17):
        folder = tmp_path / str(major) / "bin"
        folder.mkdir(parents=True)
        for program in ("initdb", "pg_ctl", "postgres"):
            (folder / program).write_text(f'#!/bin/sh\necho "postgres (PostgreSQL) {major}.3"\n')
            (folder / program).chmod(0o755)
    monkeypatch.setattr(binaries, "_POSTGRES_FOLDERS", (f"{tmp_path}/*/bin",))
    monkeypatch.setattr(binaries.shutil, "which", lambda name: None)

    assert binaries.find_postgres() == tmp_path / "17" / "bin"
    assert binaries.find_postgres(15) == tmp_path / "15" / "bin"
    assert binaries.find_postgres(16) is None


def test_no_password_is_printed_for_a_person(tmp_path: Path, record: Record, capsys) -> None:
    services._show(record.addresses(), tmp_path)

    shown = capsys.readouterr().out
    assert PASSWORD_OF_ALL not in shown
    assert "postgresql://onbeat@127.0.0.1:0/onbeat" in shown
    assert "redis://127.0.0.1:0/0" in shown
    assert str(tmp_path / "services.env") in shown


def test_an_unknown_word_shows_the_usage(capsys) -> None:
    assert services.main(["services", "dance"]) == 2
    assert "services [start|stop|status]" in capsys.readouterr().err
