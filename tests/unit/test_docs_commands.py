"""The page of all commands is made of the commands. What each verb tells: tests/unit/test_terminal_frame.py."""

from pathlib import Path

import pytest

from executions.commands import ExampledCommand
from terminal import reference
from terminal.frame import Exit, PeoplesCommand

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reference" / "commands.md"
COMMANDS = reference.commands()
FOR_PEOPLE = [
    *("jobs", "executions", "dead_letters", "queues", "workers", "beats", "stats", "preview", "explain", "dst_report"),
    *("retention", "api_keys", "secrets", "notifications", "import_beat", "doctor", "commands"),
]
OTHERS = ["prepare", "run_beat", "upkeep", "worker"]


def test_the_page_says_what_the_commands_say() -> None:
    made = reference.markdown()
    assert PAGE.read_text(encoding="utf-8") == made, "run: ./onbeat commands --markdown > docs/reference/commands.md"


def test_these_are_the_commands() -> None:
    assert {*COMMANDS} == {*FOR_PEOPLE, *OTHERS}
    assert [name for name in FOR_PEOPLE if not isinstance(COMMANDS[name], PeoplesCommand)] == []


@pytest.mark.parametrize("name", OTHERS)
def test_the_help_of_what_runs_processes_has_examples_as_well(name: str) -> None:
    command = COMMANDS[name]
    assert isinstance(command, ExampledCommand)
    shown = command.create_parser("manage.py", name).format_help().split("examples:\n")[1]
    assert shown == "".join(f"  ./onbeat {example}\n" for example in command.examples)
    assert all(f"{example} ".startswith(f"{name} ") for example in command.examples)


def test_the_page_tells_every_exit_code() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert [f"| {code:d} | " in text for code in Exit] == [True] * len(Exit)
