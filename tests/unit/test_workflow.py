"""The workflow for a public forge: what it may, how long it may take, and that all it calls is there."""

import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.management import get_commands

from tests.unit.image_files import ROOT, defaults, services

WORKFLOW = ROOT / ".github" / "workflows" / "ci.yml"
TEXT = WORKFLOW.read_text(encoding="utf-8")
READ = yaml.safe_load(TEXT)
JOBS: dict[str, dict[str, Any]] = READ["jobs"]
STEPS = [(job, step) for job, said in JOBS.items() for step in said["steps"]]
RUNS = [(job, line.strip()) for job, step in STEPS for line in step.get("run", "").splitlines()]

# Of `docker compose --help`, as far as they are used here and on the page that says how to deploy.
COMPOSE_COMMANDS = {"build", "config", "down", "exec", "logs", "ps", "pull", "restart", "run", "stop", "up"}


@pytest.mark.parametrize("schema", ["vendor.github-workflows", "custom.github-workflows-require-timeout"])
def test_the_workflow_is_one(schema: str) -> None:
    command = [str(Path(sys.executable).parent / "check-jsonschema"), "--builtin-schema", schema, str(WORKFLOW)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_it_may_read_and_nothing_else() -> None:
    assert READ["permissions"] == {"contents": "read"}
    assert all("permissions" not in job for job in JOBS.values())
    assert "secrets." not in TEXT
    checkouts = [step for _, step in STEPS if step.get("uses", "").startswith("actions/checkout@")]
    assert len(checkouts) == len(JOBS)
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)


def test_nothing_that_somebody_else_chose_becomes_part_of_a_command() -> None:
    assert [line for _, line in RUNS if "${{" in line] == []


def test_a_newer_push_ends_what_is_under_way_and_every_job_has_an_end() -> None:
    assert "github.ref" in READ["concurrency"]["group"]
    assert all(0 < job["timeout-minutes"] <= 60 for job in JOBS.values())


def test_every_action_and_image_has_a_version() -> None:
    used = [step["uses"] for _, step in STEPS if "uses" in step]
    assert [each for each in used if not re.fullmatch(r"actions/[a-z-]+@v\d+", each)] == []
    assert re.fullmatch(r"python:3\.11-[a-z]+", JOBS["all"]["container"]["image"])
    assert all(re.fullmatch(r"ubuntu-\d\d\.\d\d", job["runs-on"]) for job in JOBS.values())


def test_it_runs_the_command_of_the_readme_on_the_oldest_python_and_looks_at_the_others() -> None:
    assert ("all", "bash .ci/run") in RUNS
    assert (ROOT / ".ci" / "run").is_file()
    oldest = runpy.run_path(str(ROOT / "onbeat"))["OLDEST_PYTHON"]
    assert f"python:{oldest[0]}.{oldest[1]}-" in JOBS["all"]["container"]["image"]
    said = re.search(r"Python (3\.\d+) to (3\.\d+)", (ROOT / "requirements.txt").read_text(encoding="utf-8"))
    assert said is not None
    newest = int(said[2].partition(".")[2])
    others = [f"3.{minor}" for minor in range(oldest[1] + 1, newest + 1)]
    assert JOBS["pythons"]["strategy"]["matrix"]["python"] == others


def test_every_command_of_onbeat_in_it_is_one() -> None:
    words = {word for _, line in RUNS for word in re.findall(r"\./onbeat ([a-z_]+)", line)}
    launcher = runpy.run_path(str(ROOT / "onbeat"))["LAUNCHER_COMMANDS"]
    assert words - {*get_commands(), *launcher} == set()
    assert {"check", "jobs", "doctor"} <= words


def test_every_file_in_it_is_there() -> None:
    named = {word for _, line in RUNS for word in re.findall(r"(?:tests|deploy|\.ci)/[\w./-]+", line)}
    assert {word for word in named if not (ROOT / word).exists()} == {"deploy/compose.env"}  # which it makes
    assert JOBS["image"]["env"]["COMPOSE_ENV_FILES"] == "deploy/compose.env"


def test_every_variable_and_service_that_it_gives_to_compose_is_one() -> None:
    assert {*JOBS["image"]["env"]} - {"COMPOSE_ENV_FILES"} <= {*defaults()}
    compose = [line.split() for _, line in RUNS if line.startswith("docker compose")]
    assert {words[2] for words in compose} <= COMPOSE_COMMANDS
    started = {*services("platform", "monitoring")}
    assert {words[3] for words in compose if words[2] == "exec"} <= started
    scaled = {word.partition("=")[0] for words in compose for word in words if re.fullmatch(r"[a-z-]+=\d+", word)}
    assert scaled == {"worker"}


def test_secrets_are_chosen_for_every_empty_place(tmp_path: Path) -> None:
    """The step is run as it stands."""
    [step] = [step["run"] for _, step in STEPS if step.get("name") == "Choose secrets"]
    (tmp_path / "deploy").mkdir()
    example = (ROOT / "deploy" / "compose.env.example").read_text(encoding="utf-8")
    (tmp_path / "deploy" / "compose.env.example").write_text(example, encoding="utf-8")
    subprocess.run(["bash", "-e", "-c", step], cwd=tmp_path, check=True)
    made = (tmp_path / "deploy" / "compose.env").read_text(encoding="utf-8")
    assert re.findall(r"^[A-Z_]+=$", made, flags=re.MULTILINE) == []
    chosen = re.findall(r"[0-9a-f]{64}", made)
    assert len({*chosen}) == len(chosen) == len(re.findall(r"^[A-Z_]+=$", example, flags=re.MULTILINE)) - 1
    assert "FLOWER_BASIC_AUTH=onbeat:" in made
