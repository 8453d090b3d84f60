"""Where the private services' programs come from: installed ones, packages or Docker."""

import os
from pathlib import Path

import pytest

from launcher import binaries, docker, packages, services
from launcher.service_record import Ports, Record
from tests.unit.launcher_files import PASSWORD_OF_ALL, mode, new_record


@pytest.fixture
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "find_binaries", lambda major: binaries.Binaries(None, None, None))
    monkeypatch.setattr(packages, "can_install", lambda: False)
    monkeypatch.setattr(docker, "is_available", lambda: False)


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
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nothing_installed: None
) -> None:
    record = new_record(tmp_path)
    here = Path("/here")
    found = iter([binaries.Binaries(here, None, here), binaries.Binaries(here, here, here)])
    asked: list[str] = []
    monkeypatch.setattr(services, "find_binaries", lambda major: next(found))
    monkeypatch.setattr(packages, "can_install", lambda: True)
    monkeypatch.setattr(packages, "install", lambda names, log, say: asked.extend([*names, str(log)]))

    assert services._with_backend(tmp_path, record, print).backend == "processes"
    assert asked == ["redis-server", str(tmp_path / "install.log")]


def test_docker_serves_a_new_set_but_not_one_that_has_its_data_in_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nothing_installed: None
) -> None:
    record = new_record(tmp_path)
    monkeypatch.setattr(docker, "is_available", lambda: True)

    assert services._with_backend(tmp_path, record, print).backend == "docker"
    with pytest.raises(services.ServicesUnavailable):
        services._with_backend(tmp_path, Record(**vars(record) | {"backend": "processes"}), print)


def test_only_what_is_missing_is_asked_for() -> None:
    text = services.unavailable_text(["redis"])

    assert "apt-get install redis-server`" in text
    assert "PostgreSQL" not in text


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


def test_docker_gets_our_ports_and_passwords_through_the_environment(tmp_path: Path, fake_program) -> None:
    record = new_record(tmp_path)
    said = tmp_path / "said"
    fake_program("docker", f'echo "$@" "$POSTGRES_PORT" >>{said}; echo "$REDIS_PASSWORD" >>{said}')

    assert docker.is_available()
    docker.start(Record(**vars(record) | {"ports": Ports(postgres=25_432)}))

    command = f"compose --project-name {docker.project(record)} --file {docker.COMPOSE_FILE} --env-file /dev/null"
    started = "up --detach --wait postgres redis rabbitmq"
    assert said.read_text().splitlines()[-2:] == [f"{command} {started} 25432", PASSWORD_OF_ALL]
    assert docker.COMPOSE_FILE.is_file()


def test_a_docker_whose_engine_is_down_is_not_used(fake_program) -> None:
    fake_program("docker", '[ "$1" = compose ]')

    assert not docker.is_available()


def test_a_docker_that_fails_is_named_with_the_remedy(tmp_path: Path, fake_program) -> None:
    record = new_record(tmp_path)
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
