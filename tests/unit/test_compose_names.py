"""Every name in compose.yaml is one: variables, commands, options, files, hosts and ports."""

import json
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import flower.options  # noqa: F401 - whose options it defines
import pytest
import yaml
from django.conf import settings
from django.core.management import get_commands
from gunicorn.config import KNOWN_SETTINGS
from tornado.options import options as flower_options

from tests.unit.image_files import DOCKERFILE, ROOT, instructions, of_the_final_stage, services

ALL = services()
OURS = {name for name, service in ALL.items() if service["image"] == ALL["migrate"]["image"]}
PROMETHEUS = ROOT / "deploy" / "monitoring" / "prometheus.yml"

# What others than our settings read, and who that is.
READ_BY_OTHERS = {
    "WEB_CONCURRENCY": "gunicorn: how many processes",
    "FLOWER_ADDRESS": "Flower: its option --address",
    "FLOWER_BASIC_AUTH": "Flower: its option --basic_auth",
    "POSTGRES_USER": "the image postgres: who is made when the volume is new",
    "POSTGRES_DB": "the image postgres: the same",
    "POSTGRES_PASSWORD": "the image postgres: the same",
    "REDIS_PASSWORD": "our own command of redis",
    "RABBITMQ_DEFAULT_USER": "the image rabbitmq: who is made when the volume is new",
    "RABBITMQ_DEFAULT_PASS": "the image rabbitmq: the same",
    "RABBITMQ_DEFAULT_VHOST": "the image rabbitmq: the same",
    "GF_SECURITY_ADMIN_PASSWORD": "Grafana: admin_password of [security]",
    "GF_USERS_ALLOW_SIGN_UP": "Grafana: allow_sign_up of [users]",
    "GF_ANALYTICS_REPORTING_ENABLED": "Grafana: reporting_enabled of [analytics]",
    "GF_ANALYTICS_CHECK_FOR_UPDATES": "Grafana: check_for_updates of [analytics]",
    "GF_ANALYTICS_CHECK_FOR_PLUGIN_UPDATES": "Grafana: check_for_plugin_updates of [analytics]",
    "GF_PLUGINS_PREINSTALL_DISABLED": "Grafana: preinstall_disabled of [plugins]",
}
# Where the programs of other images listen by themselves, and Flower.
LISTEN = {"postgres": 5432, "redis": 6379, "rabbitmq": 5672, "prometheus": 9090, "grafana": 3000, "flower": 5555}
PROMETHEUS_OPTIONS = {  # of `prometheus --help`
    *("--config.file", "--storage.tsdb.path", "--storage.tsdb.retention.time", "--storage.tsdb.retention.size"),
}


def environment(name: str) -> dict[str, str]:
    return {key: str(value or "") for key, value in ALL[name].get("environment", {}).items()}


def our_commands() -> Iterator[list[str]]:
    """What the image and the services of ours are told to run, and their probes."""
    for each in of_the_final_stage(instructions(DOCKERFILE.read_text(encoding="utf-8"))):
        if each.word in ("CMD", "HEALTHCHECK"):
            yield each.words
    for name in sorted(OURS):
        yield ALL[name]["command"]
        yield ALL[name]["healthcheck"].get("test", ["CMD", "python3"])[1:]


def listening(name: str) -> set[int]:
    """The ports of a container that somebody is at."""
    found = {LISTEN[name]} if name in LISTEN else set()
    command = ALL[name].get("command", [])
    if "--bind" in command:
        found.add(int(command[command.index("--bind") + 1].rpartition(":")[2]))
    for variable, value in environment(name).items():
        if variable.endswith("_METRICS_ADDRESS"):
            host, _, port = value.rpartition(":")
            assert host == "0.0.0.0", "others could not reach it"
            found.add(int(port))
    return found


def test_every_variable_is_known_to_who_gets_it() -> None:
    given = {variable for name in ALL for variable in environment(name)}
    ours = {variable for name in OURS for variable in environment(name)}
    assert ours - settings.ENVIRONMENT.asked_for - {*READ_BY_OTHERS} == set()
    assert given - ours - {*READ_BY_OTHERS} == set()
    assert {*READ_BY_OTHERS} - given == set()


def test_what_flower_is_told_by_variables_are_options_of_it() -> None:
    said = {name.removeprefix("FLOWER_").lower() for name in environment("flower") if name.startswith("FLOWER_")}
    assert said
    assert {name for name in said if name not in flower_options} == set()


@pytest.mark.parametrize("command", list(our_commands()), ids=" ".join)
def test_every_command_is_one(command: list[str]) -> None:
    program, *words = command
    match program:
        case "./onbeat":
            assert words[0] in {*get_commands(), "probe"}
            assert "probe" in runpy.run_path(str(ROOT / "onbeat"))["LAUNCHER_COMMANDS"]
            if words[0] == "worker":
                assert_options_of_worker(words[1:])
        case "gunicorn":
            known = {option for each in KNOWN_SETTINGS for option in each.cli or []}
            assert words[0] == settings.WSGI_APPLICATION.removesuffix(".application")
            assert {word for word in words if word.startswith("-")} <= known
        case "celery":
            assert words == ["-A", "scheduler_project", "flower"]
            assert (ROOT / "flowerconfig.py").is_file()
        case "python3":
            assert all(compile(word, "a probe", "exec") for word in words[1:])
        case _:
            raise AssertionError(f"{program} is not in the image")


def assert_options_of_worker(words: list[str]) -> None:
    """`--only` is ours; the rest goes to Celery."""
    assert words[0] == "--only"
    assert words[1] in ("tasks", "callbacks")
    celery = [str(Path(sys.executable).parent / "celery"), "worker", "--help"]
    helped = subprocess.run(celery, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    known = set(re.findall(r"--[a-z-]+", helped))
    assert {"--concurrency", "--queues"} <= known
    assert {word for word in words[2:] if word.startswith("-")} <= known


def test_each_kind_has_the_probe_of_its_kind() -> None:
    probes = {name: ALL[name]["healthcheck"].get("test", []) for name in OURS - {"flower", "migrate"}}
    kinds = {"web": "web", "beat-1": "beat", "beat-2": "beat", "worker": "worker", "callbacks": "worker"}
    assert probes == {name: ["CMD", "./onbeat", "probe", kind] for name, kind in kinds.items()}


def test_prometheus_knows_its_options() -> None:
    assert {word.partition("=")[0] for word in ALL["prometheus"]["command"]} == PROMETHEUS_OPTIONS


def test_every_mounted_file_is_there_and_can_only_be_read() -> None:
    mounts = [mount for service in ALL.values() for mount in service.get("volumes", []) if mount.startswith(".")]
    assert len(mounts) == 5
    assert [mount for mount in mounts if not mount.endswith(":ro")] == []
    paths = {mount.partition(":")[0].removeprefix("./") for mount in mounts}
    assert {path for path in paths if not (ROOT / path).exists()} == set()


def test_the_further_settings_are_a_file_that_git_and_the_image_leave_out() -> None:
    assert {json.dumps(ALL[name]["env_file"]) for name in OURS} == {
        '[{"path": "deploy/onbeat.env", "required": false}]'
    }
    assert "deploy/*.env" in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()


def test_every_published_port_is_one_that_somebody_is_at() -> None:
    for name, service in ALL.items():
        assert {int(port.rpartition(":")[2]) for port in service.get("ports", [])} <= listening(name)


def test_every_address_in_the_settings_is_a_service_and_its_port() -> None:
    for name in OURS:
        given = environment(name)
        addresses = [urlsplit(given[each]) for each in ("DATABASE_URL", "REDIS_URL", "CELERY_BROKER_URL")]
        assert [(one.hostname, one.port) for one in addresses] == [
            ("postgres", 5432),
            ("redis", 6379),
            ("rabbitmq", 5672),
        ]
        assert given["ONBEAT_CONSOLE_FLOWER_URL"] == f"http://127.0.0.1:{ALL['flower']['ports'][0].split(':')[1]}"


def test_every_probe_that_asks_a_port_asks_one_that_somebody_is_at() -> None:
    asked = {
        name: {int(port) for port in re.findall(r"127\.0\.0\.1:(\d+)", str(service.get("healthcheck")))}
        for name, service in ALL.items()
    }
    assert {name for name, ports in asked.items() if ports} == {"flower", "prometheus", "grafana"}
    assert {name for name, ports in asked.items() if ports - listening(name)} == set()


def test_prometheus_asks_for_metrics_where_they_are_and_with_the_token() -> None:
    read = yaml.safe_load(PROMETHEUS.read_text(encoding="utf-8"))
    asked: set[tuple[str, int]] = set()
    for scraping in read["scrape_configs"]:
        fixed = [target for group in scraping.get("static_configs", []) for target in group["targets"]]
        asked |= {(host, int(port)) for host, _, port in (target.rpartition(":") for target in fixed)}
        asked |= {(host, each["port"]) for each in scraping.get("dns_sd_configs", []) for host in each["names"]}
        secret = ALL["prometheus"]["secrets"][0]
        assert scraping["authorization"] == {"credentials_file": f"/run/secrets/{secret}"}
    assert {host for host, _ in asked} == OURS - {"migrate", "flower"}
    assert {(host, port) for host, port in asked if port not in listening(host)} == set()


def test_the_dashboards_are_where_grafana_looks_for_them() -> None:
    provisioned = ROOT / "deploy" / "monitoring" / "grafana" / "provisioning" / "dashboards"
    mounts = [mount.split(":") for mount in ALL["grafana"]["volumes"]]
    [there] = [inside for outside, inside, *_ in mounts if outside.endswith("grafana/dashboards")]
    files = [*provisioned.glob("*.y*ml")]
    assert files
    for file in files:
        assert {each["options"]["path"] for each in yaml.safe_load(file.read_text())["providers"]} == {there}
