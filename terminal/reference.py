"""All commands on one page: made from the commands themselves, so that it cannot say anything else.

Owns docs/reference/commands.md; a test compares the two.
"""

import argparse
from collections.abc import Iterator
from typing import Any

from django.apps import apps
from django.core.management import get_commands, load_command_class
from django.core.management.base import BaseCommand

from executions.commands import ExampledCommand
from terminal.frame import Exit, PeoplesCommand, Verb

_TOP = """\
# Commands

`./onbeat COMMAND …` and `python manage.py COMMAND …` are the same. This page is made of the commands
(`./onbeat commands --markdown`), and a test compares it with them.

Each command for people takes `--json` and then prints one JSON document and nothing else, in the forms of the
[REST API](../how-to/use-the-api.md) where there is one. Those that change something call the functions that REST and
the admin call, and are told in the audit trail; `--by` says who asks, and it is your user name if you do not. On a
terminal there are colours, and bars for what takes long; `--no-color` and `NO_COLOR` switch them off. What is piped is
plain. `--help` tells the same as this page, with Django's own options (`--settings`, `--traceback` …). Errors are one
sentence on the standard error.

| exit code | means |
|---|---|
"""
_CODES = {
    Exit.DONE: "it is done, or all is well",
    Exit.FAILED: "it could not be done; what was waited for did not succeed; the doctor found errors",
    Exit.REFUSED: "it cannot be done as it was asked, and nothing was changed",
    Exit.NOT_YET: "not over within the time; `--check` found differences",
}


def commands() -> dict[str, BaseCommand]:
    """All commands of ours by name: first those for people, then those that run and prepare processes."""
    ours = {config.name for config in apps.get_app_configs() if config.label.startswith(("onbeat_", "scheduler_"))}
    found = {name: load_command_class(app, name) for name, app in get_commands().items() if app in ours}
    return dict(sorted(found.items(), key=lambda pair: (not isinstance(pair[1], PeoplesCommand), pair[0])))


def in_a_line(command: BaseCommand) -> str:
    """What it is for."""
    if isinstance(command, PeoplesCommand) and not command.made()[0].name:
        does = command.made()[0].does
        return does[0].upper() + does[1:] + "."
    return command.help.split(". ")[0].rstrip(".") + "."


def markdown() -> str:
    return "".join(_page())


def _page() -> Iterator[str]:
    yield _TOP
    for code, meaning in _CODES.items():
        yield f"| {code:d} | {meaning} |\n"
    yield "| 130 | Ctrl-C |\n\n| command | what it is for |\n|---|---|\n"
    found = commands()
    for name, command in found.items():
        yield f"| [`{name}`](#{name}) | {_escaped(in_a_line(command))} |\n"
    for name, command in found.items():
        yield f"\n## {name}\n"
        yield from _command(name, command)


def _command(name: str, command: BaseCommand) -> Iterator[str]:
    parser = command.create_parser("./onbeat", name)
    if not isinstance(command, PeoplesCommand):
        yield f"\n{command.help}\n"
        yield from _arguments(parser, leave_out=_of_django())
        yield from _examples(command.examples if isinstance(command, ExampledCommand) else ())
    elif not command.made()[0].name:
        yield from _verb(command.made()[0], parser, leave_out=_of_django())
    else:
        yield f"\n{command.help}\n"
        listed = next(each for each in parser._actions if isinstance(each, argparse._SubParsersAction))
        for verb in command.made():
            yield f"\n### {name} {verb.name}\n"
            yield from _verb(verb, listed.choices[verb.name], leave_out=_of_django())


def _verb(verb: Verb, parser: Any, *, leave_out: frozenset[str]) -> Iterator[str]:
    yield f"\n{verb.does[0].upper()}{verb.does[1:]}.\n"
    if verb.explains:
        yield f"\n{' '.join(verb.explains.split())}\n"
    yield from _arguments(parser, leave_out=leave_out)
    yield from _examples(verb.examples)


def _of_django() -> frozenset[str]:
    """What every command of Django takes."""
    return frozenset(action.dest for action in BaseCommand().create_parser("", "")._actions)


def _arguments(parser: Any, *, leave_out: frozenset[str]) -> Iterator[str]:
    actions = [action for action in parser._actions if action.dest not in leave_out]
    if not actions:
        return
    yield "\n| argument | meaning |\n|---|---|\n"
    for action in actions:
        yield f"| `{_said(action)}` | {_escaped(_meaning(action))} |\n"


def _said(action: argparse.Action) -> str:
    """As usage says it."""
    value = action.metavar or ("…" if action.choices else action.dest.upper())
    values = " ".join(value) if isinstance(value, tuple) else value
    if not action.option_strings:
        return f"{values} …" if action.nargs in ("*", "+") else values
    return ", ".join(action.option_strings) + (f" {values}" if action.nargs != 0 else "")


def _meaning(action: argparse.Action) -> str:
    said = (action.help or "") % {**vars(action), "prog": "./onbeat"}
    choices = (
        ""
        if not action.choices or isinstance(action.choices, dict)
        else " One of " + ", ".join(map(str, action.choices)) + "."
    )
    return f"{said}{choices}{' Needed.' if action.required and action.option_strings else ''}".strip()


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


def _examples(examples: Any) -> Iterator[str]:
    if examples:
        yield "\n```\n" + "".join(f"./onbeat {each}\n" for each in examples) + "```\n"
