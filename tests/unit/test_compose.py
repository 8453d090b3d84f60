"""compose.yaml: what it starts, for whom it can be reached, and what each container may take."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from launcher import docker, env_file
from launcher.service_record import Ports, Record
from tests.unit.image_files import (
    COMPOSE,
    DOCKERFILE,
    EXAMPLE,
    ROOT,
    compose_text,
    defaults,
    filled_in,
    instructions,
    interpolated,
    required,
    seconds,
    services,
    size,
)
from tests.unit.launcher_files import new_record

SERVERS = {"postgres", "redis", "rabbitmq"}
PLATFORM = {"migrate", "web", "beat-1", "beat-2", "worker", "callbacks", "flower"}
MONITORING = {"prometheus", "grafana"}
ALL = services()
NOT_READ_ONLY = {
    "prometheus",  # compose copies a secret of the environment into the container, and refuses where it cannot
    "rabbitmq",  # its image writes below /etc and /var
}


def compose(*arguments: str, **variables: str) -> str:
    """What compose itself says. It needs no engine for this."""
    if (
        shutil.which("docker") is None
        or subprocess.run(["docker", "compose", "version"], capture_output=True).returncode
    ):
        pytest.skip("LEFT OUT: `docker compose` is not on this machine, so it was not asked to read compose.yaml")
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "DOCKER_CONFIG") if name in os.environ}
    command = ["docker", "compose", "--file", str(COMPOSE), "--env-file", os.devnull, *arguments]
    done = subprocess.run(command, env={**kept, **variables}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("profiles", "names"),
    [((), SERVERS), (("platform",), SERVERS | PLATFORM), (("platform", "monitoring"), SERVERS | PLATFORM | MONITORING)],
    ids=["none", "platform", "both"],
)
def test_each_profile_starts_these(profiles: tuple[str, ...], names: set[str]) -> None:
    assert {*services(*(profiles or ("none",)))} == names


@pytest.mark.parametrize("profiles", ["", "platform", "platform,monitoring"])
def test_compose_reads_the_file_as_these_tests_do(profiles: str) -> None:
    read = yaml.safe_load(compose("config", **{**filled_in(), "COMPOSE_PROFILES": profiles}))["services"]
    ours = services(*profiles.split(","))
    assert {*read} == {*ours}
    for name, service in read.items():
        as_text = {key: "" if value is None else str(value) for key, value in ours[name].get("environment", {}).items()}
        assert service.get("environment", {}) == as_text
        assert {*service.get("depends_on", {})} == {*ours[name].get("depends_on", {})}
        assert service.get("command") == ([word.replace("$", "$$") for word in ours[name].get("command", [])] or None)


def test_the_file_is_one_of_compose() -> None:
    command = [str(Path(sys.executable).parent / "check-jsonschema"), "--builtin-schema", "vendor.compose-spec"]
    done = subprocess.run([*command, str(COMPOSE)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_launcher_gives_compose_all_that_it_asks_for(tmp_path: Path) -> None:
    passwords = {"POSTGRES_PASSWORD", "REDIS_PASSWORD", "RABBITMQ_PASSWORD"}
    assert {*docker.OF_THE_PLATFORM} | passwords == required()
    assert {*docker.SERVICES} == SERVERS


def test_the_launcher_starts_the_three_servers_alone_whatever_the_caller_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compose("version")
    monkeypatch.setenv("COMPOSE_PROFILES", "platform")
    record = Record(**vars(new_record(tmp_path)) | {"ports": Ports(postgres=25_432)})
    read = yaml.safe_load(docker._compose(record, "config"))["services"]
    assert {*read} == SERVERS
    assert read["postgres"]["ports"][0]["published"] == "25432"
    assert {service["restart"] for service in read.values()} == {"no"}


def test_every_port_is_reached_from_this_machine_alone() -> None:
    ports = {name: service["ports"] for name, service in ALL.items() if "ports" in service}
    assert {*ports} == SERVERS | MONITORING | {"web", "flower"}
    said = [port for each in ports.values() for port in each]
    assert [port for port in said if not re.fullmatch(r"127\.0\.0\.1:\d+:\d+", port)] == []
    assert all("network_mode" not in service for service in ALL.values())


def test_no_secret_is_on_a_command_line() -> None:
    secrets = {value for value in filled_in().values() if value.startswith("the-") and value != "the-allowed_hosts"}
    assert len(secrets) == 7
    lines = [str(service.get("command")) + str(service.get("healthcheck")) for service in ALL.values()]
    assert [line for line in lines if any(secret in line for secret in secrets)] == []


def test_no_secret_has_a_default() -> None:
    """But the key of callbacks, which follows from SECRET_KEY where it is not set."""
    secrets = {name for name in defaults() if re.search(r"(PASSWORD|KEYS?|TOKEN|AUTH)$", name)}
    assert secrets - required() == {"ONBEAT_CALLBACKS_SECRET_KEYS"}


def test_without_a_secret_compose_says_what_is_missing() -> None:
    given = filled_in()
    for name in required():
        with pytest.raises(AssertionError, match=f"{name} must be set: (choose|name) "):
            interpolated(compose_text(), {**given, name: ""})


@pytest.mark.parametrize("name", sorted(ALL))
def test_a_container_is_kept_small_and_tame(name: str) -> None:
    service = ALL[name]
    assert service["restart"] == ("no" if name == "migrate" else "unless-stopped")
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["cap_drop"] == ["ALL"]
    assert "privileged" not in service
    assert {*service.get("cap_add", [])} <= {"CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID"}
    assert {*service["logging"]["options"]} == {"max-size", "max-file"}
    assert size(service["mem_limit"]) >= 256 * 1024**2
    assert seconds(service["stop_grace_period"]) > 10  # the engine's own
    assert service.get("read_only", False) == (name not in NOT_READ_ONLY)
    assert re.fullmatch(r"[a-z/]+:(v?\d[\w.]*|local)", service["image"])


@pytest.mark.parametrize("name", sorted({*ALL} - {"migrate"}))
def test_a_container_that_stays_says_whether_it_is_well(name: str) -> None:
    check = ALL[name]["healthcheck"]
    assert check["test"][0] in ("CMD", "CMD-SHELL")
    assert seconds(check["interval"]) <= 10
    assert check["retries"] >= 3


@pytest.mark.parametrize("name", sorted(PLATFORM))
def test_a_container_of_ours_writes_in_its_data_folder_alone_and_reaps_what_it_starts(name: str) -> None:
    [user] = [each.value for each in instructions(DOCKERFILE.read_text(encoding="utf-8")) if each.word == "USER"]
    uid, _, gid = user.partition(":")
    service = ALL[name]
    folders = [mount.partition(":") for mount in service["tmpfs"]]
    assert [folder for folder, _, _ in folders] == ["/data", "/tmp"]
    assert folders[0][2].startswith(f"uid={uid},gid={gid},mode=0700,size=")
    assert service["init"]
    assert "volumes" not in service
    assert "user" not in service


@pytest.mark.parametrize("name", sorted(PLATFORM))
def test_a_container_of_ours_begins_when_it_can_work(name: str) -> None:
    conditions = {other: how["condition"] for other, how in ALL[name]["depends_on"].items()}
    after = {} if name == "migrate" else {"migrate": "service_completed_successfully"}
    assert conditions == {**dict.fromkeys(SERVERS, "service_healthy"), **after}


def test_no_container_waits_for_one_that_its_profile_does_not_start() -> None:
    for profile in ("none", "platform", "monitoring"):
        started = services(profile)
        assert {other for service in started.values() for other in service.get("depends_on", {})} <= {*started}


def test_the_image_is_built_once_and_run_by_all_of_ours() -> None:
    assert [name for name, service in ALL.items() if "build" in service] == ["migrate"]
    assert {name for name, service in ALL.items() if service["image"] == ALL["migrate"]["image"]} == PLATFORM


def test_both_beats_are_the_same() -> None:
    assert ALL["beat-1"] == ALL["beat-2"]


def test_workers_are_given_longer_than_the_longest_attempt_and_the_broker_waits_for_them(settings) -> None:
    longest = settings.ONBEAT_WORKERS_TIMEOUT_SECONDS
    assert longest < min(seconds(ALL[name]["stop_grace_period"]) for name in ("worker", "callbacks"))
    assert longest * 1000 < int(rabbitmq("consumer_timeout"))


def test_rabbitmq_takes_no_more_well_before_its_memory_ends() -> None:
    watermark = size(rabbitmq("vm_memory_high_watermark.absolute"))
    assert watermark < 0.7 * size(ALL["rabbitmq"]["mem_limit"])
    assert size(rabbitmq("disk_free_limit.absolute")) >= watermark


def rabbitmq(name: str) -> str:
    lines = (ROOT / "deploy" / "rabbitmq.conf").read_text(encoding="utf-8").splitlines()
    [value] = [line.partition("=")[2].strip() for line in lines if line.startswith(f"{name} =")]
    return value


def test_the_example_tells_every_variable_with_what_holds_without_it() -> None:
    text = EXAMPLE.read_text(encoding="utf-8")
    set_there = env_file.parse(text, EXAMPLE.name)
    off = "\n".join(line.removeprefix("# ") for line in text.splitlines() if re.match(r"# [A-Z_]+=", line))
    offered = env_file.parse(off, EXAMPLE.name)
    assert {name for name, value in set_there.items() if not value} == required()
    assert {*set_there, *offered} == {*defaults(), "COMPOSE_PROFILES"}
    assert {*set_there["COMPOSE_PROFILES"].split(",")} == {"platform", "monitoring"}
    by_ourselves = {
        name: value for name, value in defaults().items() if re.fullmatch(r"[0-9]\w*|unless-stopped", value)
    }
    assert len(by_ourselves) > 20
    assert {name: offered[name] for name in by_ourselves} == {
        **by_ourselves,
        "ONBEAT_API_PROXIES": "1",  # as an example, like the addresses beside it
    }
