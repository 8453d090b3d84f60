"""The private services, as far as they can be tried without starting a server."""

import os
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from launcher import ports, postgres, processes, rabbitmq, service_record, services
from launcher.probes import postgres_answers, rabbitmq_answers, redis_answers
from launcher.service_record import Addresses, Ports, Record
from tests.unit.launcher_files import PASSWORD_OF_ALL, mode, new_record

ADDRESSES = Addresses("postgresql://onbeat:one@127.0.0.1:1/onbeat", "redis://:two@127.0.0.1:2/0", "amqp://a:b@h/onbeat")


@pytest.fixture
def record(tmp_path: Path) -> Record:
    return new_record(tmp_path)


@pytest.fixture
def stranger() -> Iterator[int]:
    """A port on which somebody listens who says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


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


def test_a_data_folder_that_cannot_be_written_to_is_named_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "var").write_text("a file where a folder should be")

    with pytest.raises(services.ServicesUnavailable, match=r"cannot be started: .* See that .*/var can be written to"):
        services.start(tmp_path / "var", print)


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


def test_no_password_is_printed_for_a_person(tmp_path: Path, record: Record, capsys) -> None:
    services._show(record.addresses(), tmp_path)

    shown = capsys.readouterr().out
    assert PASSWORD_OF_ALL not in shown
    assert "postgresql://onbeat@127.0.0.1:0/onbeat" in shown
    assert "redis://127.0.0.1:0/0" in shown
    assert str(tmp_path / "services.env") in shown


def test_an_unknown_word_shows_the_usage(capsys) -> None:
    assert services.main(["dance"]) == 2
    assert "services [start|stop|status]" in capsys.readouterr().err
