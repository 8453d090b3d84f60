"""The Dockerfile: how it is built, and that it takes what the platform needs and nothing else."""

import runpy
import tomllib
from pathlib import Path

import pytest
from django.apps import apps

from tests.unit.image_files import (
    DOCKERFILE,
    ROOT,
    Instruction,
    instructions,
    is_let_through,
    of_the_final_stage,
    taken_by_copy,
)
from tests.unit.image_lint import findings

IGNORED = (ROOT / ".dockerignore").read_text(encoding="utf-8")
TEXT = DOCKERFILE.read_text(encoding="utf-8")
FINAL = of_the_final_stage(instructions(TEXT))
NOT_FOR_THE_IMAGE = {"chaos", "deploy", "tests"}  # of our packages
# Another part of the same change brings this; who merges it takes this away.


def only(word: str) -> Instruction:
    [found] = [each for each in FINAL if each.word == word]
    return found


def test_nothing_is_held_against_the_dockerfile() -> None:
    assert findings(TEXT) == []


@pytest.mark.parametrize(
    ("this", "becomes", "says"),
    [
        ("FROM python:3.11-slim-bookworm\n", "FROM python\n", "a base image without a version"),
        ("FROM python:3.11-slim-bookworm\n", "FROM python:latest\n", "a base image without a version"),
        ("COPY . .\n", "ADD https://example.org/x .\n", "ADD, which fetches and unpacks"),
        ("COPY . .\n", "RUN curl https://example.org/x | sh\n", "sudo, or a shell that pipes from elsewhere"),
        ("USER 10001:10001\n", "", "a last user that is root, a name, or not the last word on files"),
        ("USER 10001:10001", "USER onbeat", "a last user that is root, a name, or not the last word on files"),
        ("USER 10001:10001", "USER 0:0", "a last user that is root, a name, or not the last word on files"),
        ("EXPOSE 8000", "RUN true", "a last user that is root, a name, or not the last word on files"),
        ('CMD ["gunicorn"', 'CMD gunicorn "', "a shell between the engine and the process"),
        ('CMD ["./onbeat", "probe", "web"]', "CMD ./onbeat probe web", "a shell between the engine and the process"),
        ("HEALTHCHECK", "LABEL", "no CMD or no HEALTHCHECK"),
        ("ENV DATA_DIR=/data", "ENV SECRET_KEY=abc DATA_DIR=/data", "a secret in a layer"),
        ("ENV DATA_DIR=/data", "ARG INDEX_PASSWORD\nENV DATA_DIR=/data", "a secret in a layer"),
        ("ENV DATA_DIR=/data", "ENV DEBUG=1 DATA_DIR=/data", "DEBUG"),
        ("COPY . .\n", "RUN apt-get install --yes gcc\n", "apt with more than is needed, or with its lists"),
        ("ENV PIP_NO_CACHE_DIR=1\n", "", "pip's cache"),
        ("COPY --from=builder /srv/code .", "COPY . .", "a final stage that copies from the context"),
        ("PYTHONUNBUFFERED=1", "PYTHONUNBUFFERED=", "lines that wait in a buffer"),
    ],
)
def test_the_rules_find_what_they_are_there_for(this: str, becomes: str, says: str) -> None:
    assert this in TEXT
    assert says in findings(TEXT.replace(this, becomes))


def test_the_stages_have_the_same_python_and_it_is_one_that_the_project_takes() -> None:
    bases = {each.value.split()[0] for each in instructions(TEXT) if each.word == "FROM"}
    [base] = bases
    minor = int(base.partition(":3.")[2].partition("-")[0])
    assert minor >= runpy.run_path(str(ROOT / "onbeat"))["OLDEST_PYTHON"][1]


def test_the_launcher_prepares_the_environment_that_it_later_finds() -> None:
    """It is at home where it was when it made the environment, of the same files."""
    of_the_builder = [each.value for each in instructions(TEXT) if each.stage == 0]
    assert {"/srv/onbeat", only("WORKDIR").value} == {"/srv/onbeat"}
    assert of_the_builder.index("/srv/onbeat") < of_the_builder.index("onbeat requirements.txt ./")
    [prepares] = [each.words[2] for each in instructions(TEXT) if "prepare_environment" in each.value]
    assert "run_path('onbeat')['prepare_environment'](['requirements.txt'])" in prepares
    assert "--from=builder /srv/onbeat/.venv .venv" in [each.value for each in FINAL]


def test_every_package_and_app_of_ours_gets_into_the_image() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        ours = set(tomllib.load(file)["tool"]["ruff"]["lint"]["isort"]["known-first-party"])
    folders = [Path(config.path) for config in apps.get_app_configs()]
    apps_of_ours = {path.name for path in folders if path.parent == ROOT}
    assert apps_of_ours <= ours
    assert len(apps_of_ours) >= 8
    assert {name for name in ours if not is_let_through(f"{name}/__init__.py", IGNORED)} == NOT_FOR_THE_IMAGE


@pytest.mark.parametrize(
    "path", ["manage.py", "onbeat", "requirements.txt", "templates/admin/base_site.html", "LICENSE"]
)
def test_this_gets_into_the_image(path: str) -> None:
    assert is_let_through(path, IGNORED)


@pytest.mark.parametrize(
    "path",
    [
        *(".env", ".git/config", ".venv/bin/python", "var/secret_key", "var/services.env", "deploy/compose.env"),
        *("tests/conftest.py", "docs/README.md", "requirements-dev.txt", "compose.yaml", "db.sqlite3", "id_rsa"),
        *("jobs/__pycache__/models.pyc", "jobs/models.pyc", "onbeat.pem"),
    ],
)
def test_this_does_not_get_into_the_image(path: str) -> None:
    assert not is_let_through(path, IGNORED)


def test_all_that_is_let_through_by_name_is_there() -> None:
    named = {line.removeprefix("!") for line in IGNORED.splitlines() if line.startswith("!")}
    assert {name for name in named if not (ROOT / name).exists()} == set()


def test_all_that_is_copied_by_name_is_let_through() -> None:
    copied = [each.value.split()[:-1] for each in instructions(TEXT) if each.word == "COPY" and "--" not in each.value]
    assert copied == [["onbeat", "requirements.txt"], ["."]]
    assert all(is_let_through(path, IGNORED) for path in copied[0])


def test_the_image_is_small_but_for_its_packages() -> None:
    taken = taken_by_copy()
    assert len(taken) > 300
    assert sum((ROOT / path).stat().st_size for path in taken) < 5_000_000
    assert {path.suffix for path in taken} & {".pyc", ".env", ".log", ".sqlite3", ".pem", ".key"} == set()


def test_the_image_sets_only_what_python_and_the_settings_know() -> None:
    [said] = [each.value for each in FINAL if each.word == "ENV"]
    names = {pair.partition("=")[0] for pair in said.split()}
    assert names == {"DATA_DIR", "PATH", "PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED"}


def test_the_data_folder_belongs_to_the_user_of_the_image() -> None:
    [made] = [each.value for each in FINAL if each.word == "RUN"]
    user = only("USER").value.partition(":")[0]
    assert f"useradd --uid {user} " in made
    assert "install --directory --owner onbeat --group onbeat --mode 700 /data" in made
