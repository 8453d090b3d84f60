"""The page of all commands is made of the commands; each tells how it is used, and what it shows can be typed."""

import shlex
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import pytest
from django.core.management.base import BaseCommand

from executions.commands import ExampledCommand
from terminal import reference
from terminal.frame import Exit, PeoplesCommand

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reference" / "commands.md"
COMMANDS = reference.commands()
NAMED = [
    *("jobs", "executions", "dead_letters", "queues", "workers", "beats", "stats", "preview", "explain", "dst_report"),
    *("retention", "api_keys", "secrets", "import_beat", "doctor", "commands"),
]
EXAMPLES = [
    (name, example)
    for name, command in COMMANDS.items()
    for each in (command.made() if isinstance(command, PeoplesCommand) else [command])
    for example in each.examples  # type: ignore[attr-defined]
]


def test_the_page_says_what_the_commands_say() -> None:
    made = reference.markdown()
    assert PAGE.read_text(encoding="utf-8") == made, "run: ./onbeat commands --markdown > docs/reference/commands.md"


@pytest.mark.parametrize("name", NAMED)
def test_commands_for_people_are_there_and_in_the_frame(name: str) -> None:
    assert isinstance(COMMANDS[name], PeoplesCommand)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_help_has_an_example_of_its_own_command(name: str) -> None:
    command = COMMANDS[name]
    assert isinstance(command, ExampledCommand)
    for each in command.made() if isinstance(command, PeoplesCommand) else [command]:
        is_meant = isinstance(command, PeoplesCommand) and command.default == getattr(each, "name", "")
        beginning = f"{name} {each.name}".strip() if hasattr(each, "does") and not is_meant else name
        assert each.examples
        assert [example for example in each.examples if not f"{example} ".startswith(f"{beginning} ")] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_shows_its_examples(name: str) -> None:
    command = COMMANDS[name]
    if isinstance(command, PeoplesCommand) and command.made()[0].name:
        for verb in command.made():
            assert verb.examples[0] in verb.parser_options()["epilog"]
    else:
        assert f"./onbeat {name}" in command.create_parser("./onbeat", name).format_help().split("examples:")[1]


@pytest.mark.parametrize(("name", "example"), [pair for pair in EXAMPLES if pair[0] != "worker"])
def test_every_example_can_be_typed(name: str, example: str) -> None:
    """As far as it can be told without doing it. The arguments of a worker are Celery's."""
    words = shlex.split(example.split(" > ")[0])
    assert words[0] == name
    command = COMMANDS[name]
    names = [verb.name for verb in command.made()] if isinstance(command, PeoplesCommand) else [""]
    is_default_meant = names[0] and (len(words) == 1 or words[1] not in names)
    parsed: Any = _parser(command, name).parse_args([*([command.default] if is_default_meant else []), *words[1:]])  # type: ignore[attr-defined]
    assert parsed is not None


def _parser(command: BaseCommand, name: str) -> ArgumentParser:
    return command.create_parser("./onbeat", name)


def test_every_verb_takes_json() -> None:
    for name, command in COMMANDS.items():
        if isinstance(command, PeoplesCommand):
            for verb in command.made():
                words = [verb.name] if verb.name else []
                assert "--json" in _help(command, name, words), (name, verb.name)


def _help(command: BaseCommand, name: str, words: list[str]) -> str:
    parser: Any = _parser(command, name)
    for word in words:
        listed = next(
            action for action in parser._actions if hasattr(action, "choices") and action.dest == "subcommand"
        )
        parser = listed.choices[word]
    return str(parser.format_help())


def test_the_page_tells_every_exit_code() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert [f"| {code:d} | " in text for code in Exit] == [True] * len(Exit)
