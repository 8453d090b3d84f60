"""What the page on deploying says and shows is what there is: commands, files, settings, units, and its first block."""

import re
import subprocess
from configparser import ConfigParser
from pathlib import Path

import pytest
import yaml
from django.conf import settings
from django.core.management import get_commands

from launcher import env_file
from tests.unit.doc_pages import blocks, page, section, tables
from tests.unit.image_files import ROOT, defaults, required, seconds, services
from tests.unit.test_workflow import COMPOSE_COMMANDS

PAGE = page("how-to/deploy.md")
UNITS = sorted((ROOT / "deploy" / "systemd").glob("*.service"))
SHELL = "\n".join(blocks(PAGE, "sh")) + "\n".join(re.findall(r"`(docker compose [^`]+)`", PAGE))
ALL = services()


def unit(path: Path) -> ConfigParser:
    read = ConfigParser(interpolation=None, strict=False)
    read.optionxform = str  # type: ignore[assignment,method-assign]
    read.read_string(path.read_text(encoding="utf-8"))
    return read


def test_the_first_block_fills_in_all_that_must_be_said(tmp_path: Path) -> None:
    (tmp_path / "deploy").mkdir()
    example = (ROOT / "deploy" / "compose.env.example").read_text(encoding="utf-8")
    (tmp_path / "deploy" / "compose.env.example").write_text(example, encoding="utf-8")
    subprocess.run(["bash", "-eu", "-c", blocks(PAGE, "sh")[0]], cwd=tmp_path, check=True)
    made = tmp_path / "deploy" / "compose.env"
    values = env_file.parse(made.read_text(encoding="utf-8"), made.name)
    assert {name for name in required() if not values[name]} == set()
    assert len({values[name] for name in required()}) == len(required())
    assert made.stat().st_mode & 0o077 == 0


def test_every_command_to_compose_and_every_container_in_it_is_one() -> None:
    lines = [line.split() for line in SHELL.splitlines() if line.startswith("docker compose")]
    assert len(lines) >= 8
    assert {words[2] for words in lines} <= COMPOSE_COMMANDS
    named = {words[-1] for words in lines if words[2] == "logs" or "--force-recreate" in words}
    assert named | {words[3] for words in lines if words[2] == "exec"} <= {*ALL}


def test_the_table_of_containers_has_each_with_its_port() -> None:
    rows = tables(section(PAGE, "With containers"))[0]
    said = {name: port for row in rows for name, port in zip(row[0].split(", "), ports_of(row), strict=True)}
    published = {name: [port.rpartition(":")[0] for port in service.get("ports", [])] for name, service in ALL.items()}
    assert said == {name: (ports or [""])[0] for name, ports in published.items()}


def ports_of(row: list[str]) -> list[str]:
    """One for each container of the row; what stands before the first colon holds for those after it."""
    ports = [f"127.0.0.1{port}" if port.startswith(":") else port for port in row[2].split(", ")]
    return ports if len(ports) > 1 else ports * len(row[0].split(", "))


@pytest.mark.parametrize("heading", ["HTTPS", "Secrets"])
def test_every_variable_in_a_table_is_one(heading: str) -> None:
    [rows] = tables(section(PAGE, heading))
    named = {name for row in rows for name in re.findall(r"[A-Z][A-Z_]{5,}", row[0])}
    assert len(named) >= 4
    assert named <= {*defaults()}


def test_every_setting_that_the_page_names_is_one() -> None:
    named = {*re.findall(r"\b(?:ONBEAT_[A-Z_]+|[A-Z]+_URL)\b", PAGE)}
    assert named - settings.ENVIRONMENT.asked_for - {*defaults()} == set()


def test_what_is_shown_of_another_queue_extends_a_container_that_is_there() -> None:
    [shown] = [yaml.safe_load(block) for block in blocks(PAGE, "yaml") if block.startswith("services:")]
    [batch] = shown["services"].values()
    assert (ROOT / batch["extends"]["file"]).is_file()
    assert batch["extends"]["service"] in ALL
    assert batch["command"][:3] == ["./onbeat", "worker", "--queues"]


def test_the_deployment_shown_for_kubernetes_is_the_beat_of_compose() -> None:
    [shown] = [yaml.safe_load(block) for block in blocks(PAGE, "yaml") if block.startswith("apiVersion:")]
    pod = shown["spec"]["template"]["spec"]
    [container] = pod["containers"]
    beat = ALL["beat-1"]
    assert container["command"] == beat["command"]
    assert container["readinessProbe"]["exec"]["command"] == beat["healthcheck"]["test"][1:]
    assert {one["name"]: one["value"] for one in container["env"]}.items() <= beat["environment"].items()
    assert pod["terminationGracePeriodSeconds"] == seconds(beat["stop_grace_period"])
    assert [mount["mountPath"] for mount in container["volumeMounts"]] == [each.split(":")[0] for each in beat["tmpfs"]]


def test_the_times_to_stop_are_those_of_compose() -> None:
    [rows] = tables(section(PAGE, "Kubernetes"))
    said = {row[0]: int(found[0]) for row in rows if (found := re.search(r"\d+", row[3]))}
    names = {"web": "web", "beat": "beat-1", "worker": "worker", "migrate": "migrate"}
    assert said == {kind: seconds(ALL[name]["stop_grace_period"]) for kind, name in names.items()}


def test_the_units_that_the_page_starts_are_there() -> None:
    [line] = [line for line in SHELL.splitlines() if line.startswith("systemctl enable")]
    started = {word.partition("@")[0] for word in line.split() if word.startswith("onbeat-")}
    assert started == {path.stem.rstrip("@") for path in UNITS}
    assert {word.partition("@")[2] for word in line.split() if "worker@" in word} == {"tasks", "callbacks"}


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_a_unit_runs_what_there_is_as_nobody_in_particular(path: Path) -> None:
    service = unit(path)["Service"]
    program, *words = service["ExecStart"].split()
    assert program in ("/srv/onbeat/onbeat", "/srv/onbeat/.venv/bin/gunicorn")
    if program.endswith("/onbeat"):
        assert words[0] in get_commands()
    given = dict(pair.split("=", 1) for pair in service["Environment"].split())
    assert given["DATA_DIR"] == f"/var/lib/{service['StateDirectory']}"
    others = {"PYTHONUNBUFFERED", "WEB_CONCURRENCY"}
    assert {*given} - settings.ENVIRONMENT.asked_for - others == set()
    assert service["User"] == "onbeat"
    assert service["ProtectSystem"] == "strict"
    assert service["EnvironmentFile"] == "/etc/onbeat.env"


def test_the_unit_of_a_worker_signals_the_parent_alone_and_waits_as_long_as_compose() -> None:
    [path] = [path for path in UNITS if "worker" in path.stem]
    service = unit(path)["Service"]
    assert service["KillMode"] == "mixed"
    assert int(service["TimeoutStopSec"]) == seconds(ALL["worker"]["stop_grace_period"])
