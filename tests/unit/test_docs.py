"""The documentation says what the code does: names, defaults, ids, links and commands are compared with it."""

import re
import runpy
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as project_settings
from django.core.management import get_commands

from launcher import env_file
from scheduler_project.env import Environment

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*.md")]
SETTINGS_PAGE = ROOT / "docs" / "reference" / "settings.md"
ENV_EXAMPLE = ROOT / ".env.example"

CHECK_ID = re.compile(r"[a-z_]+\.[EW]\d{3}")
VARIABLE = re.compile(r"[A-Z][A-Z_]+")
PICTURE = re.compile(r"!\[[^\]]+\]\(([^)\s]+)\)")
LINK = re.compile(r"\]\(([^)\s]+)\)")
COMMAND = re.compile(r"\./onbeat ([a-z][a-z_]*)")
READ_BY_THE_LAUNCHER = re.compile(r'environ(?:ment)?(?:\.get\(|\[)"([A-Z_]+)"|"([A-Z_]+)"(?: not)? in os\.environ\b')


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def table_rows(path: Path) -> list[list[str]]:
    """The cells of all table rows of a page, without backticks; heads and rulers among them."""
    lines = [line for line in read(path).splitlines() if line.startswith("|")]
    return [[cell.strip().replace("`", "") for cell in line.strip("|").split("|")] for line in lines]


def documented(pattern: re.Pattern[str]) -> list[str]:
    """What the rows of the settings page begin with, if it looks like this."""
    return [row[0] for row in table_rows(SETTINGS_PAGE) if pattern.fullmatch(row[0])]


def documented_defaults() -> dict[str, str]:
    return {row[0]: row[1] for row in table_rows(SETTINGS_PAGE) if VARIABLE.fullmatch(row[0])}


def settings_with(monkeypatch: pytest.MonkeyPatch, **variables: str) -> dict[str, Any]:
    """The settings as they are with nothing in the environment but these."""
    environment = Environment(variables)
    monkeypatch.setattr(Environment, "of_process", lambda root: environment)
    return runpy.run_path(str(ROOT / "scheduler_project" / "settings.py"))


@pytest.fixture
def embedded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    return settings_with(monkeypatch, DATA_DIR=str(tmp_path))


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    """Nothing connects to these."""
    return settings_with(
        monkeypatch,
        DATA_DIR=str(tmp_path),
        DATABASE_URL="postgresql://db/onbeat",
        REDIS_URL="redis://redis/0",
        CELERY_BROKER_URL="amqp://rabbit//",
    )


@pytest.fixture
def known(embedded: dict[str, Any], full: dict[str, Any]) -> set[str]:
    """Every variable that the settings ask for in either set-up, or that the launcher reads."""
    launcher = "\n".join(read(path) for path in sorted((ROOT / "launcher").glob("*.py")))
    read_there = {one or other for one, other in READ_BY_THE_LAUNCHER.findall(launcher)}
    asked_for: set[str] = embedded["ENVIRONMENT"].asked_for | full["ENVIRONMENT"].asked_for
    return asked_for | read_there


def test_the_launchers_variables_are_found_in_its_code(known: set[str]) -> None:
    assert {"CI", "NO_COLOR", "PORT", "DATA_DIR"} <= known


def test_every_variable_that_the_settings_ask_for_has_a_row() -> None:
    assert project_settings.ENVIRONMENT.asked_for - set(documented(VARIABLE)) == set()


def test_variables_and_rows_are_the_same(known: set[str]) -> None:
    assert set(documented(VARIABLE)) == known


def test_no_variable_and_no_check_has_two_rows() -> None:
    names = documented(VARIABLE) + documented(CHECK_ID)
    assert sorted(names) == sorted(set(names))


def test_the_documented_defaults_of_our_settings_are_those_of_the_code(embedded: dict[str, Any]) -> None:
    in_code = {name: value for name, value in embedded.items() if name.startswith("ONBEAT_")}
    assert len(in_code) >= 11
    page = documented_defaults()
    said = {name: {"none": "", "no": ""}.get(page[name], page[name]) for name in in_code}
    on_the_page = {
        name: [word for word in said[name].split(",") if word] if isinstance(value, list) else type(value)(said[name])
        for name, value in in_code.items()
    }
    assert on_the_page == in_code


def test_the_other_documented_numbers_and_lists_are_those_of_the_code(full: dict[str, Any]) -> None:
    page = documented_defaults()
    assert int(page["DATABASE_POOL_SIZE"]) == full["DATABASES"]["default"]["OPTIONS"]["pool"]["max_size"]
    assert page["ALLOWED_HOSTS"].split(",") == full["ALLOWED_HOSTS"]
    assert {"yes": True, "no": False}[page["DEBUG"]] == full["DEBUG"]


def test_check_ids_in_the_code_and_on_the_page_are_the_same() -> None:
    code = "\n".join(read(path) for path in sorted(ROOT.glob("*/checks.py")))
    in_code = re.findall(r'\bid="([^"]+)"', code)
    assert len(in_code) >= 10
    assert sorted(documented(CHECK_ID)) == sorted(in_code)


def test_check_ids_are_made_in_checks_modules_only() -> None:
    packages = ("beat", "executions", "jobs", "scheduler_project", "workers")
    modules = [path for package in packages for path in (ROOT / package).rglob("*.py")]
    assert {path.name for path in modules if re.search(rf'\bid="{CHECK_ID.pattern}"', read(path))} == {"checks.py"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_leads_to_a_file(page: Path) -> None:
    targets = [link.split("#")[0] for link in LINK.findall(read(page)) if "://" not in link]
    assert [target for target in targets if target and not (page.parent / target).is_file()] == []


def test_every_picture_that_a_page_shows_is_there_and_every_picture_is_shown() -> None:
    shown = {(page.parent / picture).resolve() for page in PAGES for picture in PICTURE.findall(read(page))}
    assert len(shown) >= 10
    assert shown == set((ROOT / "docs" / "images").iterdir())


def test_the_pictures_are_those_that_the_script_takes() -> None:
    taken = re.findall(r'Shot\("([a-z-]+)"', read(ROOT / "examples" / "lively_demo" / "screenshots.py"))
    assert sorted(taken) == sorted(path.stem for path in (ROOT / "docs" / "images").glob("*.png"))


@pytest.mark.parametrize("page", [*PAGES, ROOT / "Makefile"], ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_is_one(page: Path) -> None:
    launcher = runpy.run_path(str(ROOT / "onbeat"))
    commands = {"help", *launcher["LAUNCHER_COMMANDS"], *get_commands()}
    assert set(COMMAND.findall(read(page))) - commands == set()


@pytest.mark.parametrize("command", ["./onbeat run", "./onbeat test"])
def test_the_readme_has_the_two_commands_on_lines_of_their_own(command: str) -> None:
    assert command in read(ROOT / "README.md").splitlines()


def test_every_page_of_the_docs_is_in_the_index() -> None:
    index = ROOT / "docs" / "README.md"
    listed = {(index.parent / link).resolve() for link in LINK.findall(read(index))}
    assert set(ROOT.glob("docs/**/*.md")) - {index} - listed == set()


def test_the_example_of_an_env_file_parses_as_it_is_and_sets_nothing() -> None:
    assert env_file.parse(read(ENV_EXAMPLE), ".env.example") == {}


def test_the_example_of_an_env_file_names_only_known_variables_with_each_comment_taken_off(known: set[str]) -> None:
    taken_off = "\n".join(
        line.removeprefix("# ") for line in read(ENV_EXAMPLE).splitlines() if re.match(r"# [A-Z_]+=", line)
    )
    values = env_file.parse(taken_off, ".env.example")
    assert len(values) >= 5
    assert set(values) <= known
