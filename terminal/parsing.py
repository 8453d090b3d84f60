"""How a command line is read, and how it is refused: in one sentence, with the way to the help.

Invariants: what cannot be read raises a CommandError and prints no list of all options; how a command looks
(`--no-color` and its like) may be said behind a verb as well as before it.
"""

import re
from argparse import SUPPRESS, ArgumentParser, Namespace
from difflib import get_close_matches
from typing import Any, NoReturn

from django.core.management.base import CommandError, CommandParser

from executions.commands import REFUSED
from jobs.refusals import shown

_VALUE = re.compile(r"argument (\S+): invalid (int|float) value: (.*)", re.DOTALL)
_CHOICE = re.compile(r"argument (\S+): invalid choice: (.*) \(choose from (.*)\)", re.DOTALL)
_COUNT = re.compile(r"argument (\S+): expected (\S+) arguments?")
_BOTH = re.compile(r"argument (\S+): not allowed with argument (\S+)")
_MISSING = re.compile(r"the following arguments are required: (.*)")
_AMBIGUOUS = re.compile(r"ambiguous option: (\S+) could match (.*)")
_NUMBERS = {"int": "whole number", "float": "number"}


class SentenceParser(CommandParser):
    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Namespace, list[str]]:  # type: ignore[override]
        """The parser of a verb tells of what it does not know: the one above it has other options."""
        said, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"{self._unknown(unknown[0])}.")
        return said, unknown

    def error(self, message: str) -> NoReturn:
        said = in_a_sentence(message)
        remedy = "" if said.endswith("?.") else f" `{self.prog} --help` tells what there is."
        raise CommandError(f"{said.removesuffix('.')}{'.' if remedy else ''}{remedy}", returncode=REFUSED)

    def _unknown(self, said: str) -> str:
        if not said.startswith("-"):
            return f"There is no place for {shown(said)} here"
        name = said.partition("=")[0]
        near = get_close_matches(name, [option for option in self._option_string_actions if option[1] == "-"], n=1)
        return f"There is no option {shown(name)[1:-1]}" + (f"; did you mean {near[0]}?" if near else "")


def in_a_sentence(message: str) -> str:
    """What argparse says, in our words; what it says otherwise, as it is."""
    if found := _VALUE.fullmatch(message):
        return f"{found[1]} {_short(found[3])} is no {_NUMBERS[found[2]]}."
    if found := _CHOICE.fullmatch(message):
        return f"{found[1]} {_short(found[2])} is none of {found[3].replace(chr(39), '')}."
    if found := _COUNT.fullmatch(message):
        return f"{found[1]} needs {'a value' if found[2] == 'one' else f'{found[2]} values'}."
    if found := _BOTH.fullmatch(message):
        return f"{found[1]} and {found[2]} exclude each other; say one of them."
    if found := _MISSING.fullmatch(message):
        return f"{found[1]} must be said."
    if found := _AMBIGUOUS.fullmatch(message):
        return f"{found[1]} may mean {found[2]}; write it out."
    return message


def _short(text: str) -> str:
    return text if len(text) <= 90 else f"{text[:90]}…"


def look_arguments(parser: ArgumentParser) -> None:
    """What a command takes before its verb, and people write behind it."""
    parser.add_argument("--no-color", action="store_true", default=SUPPRESS, help="Without colours; NO_COLOR=1, too.")
    parser.add_argument("--force-color", action="store_true", default=SUPPRESS, help="With colours, also in a pipe.")
    parser.add_argument("--traceback", action="store_true", default=SUPPRESS, help=SUPPRESS)
    parser.add_argument("-v", "--verbosity", type=int, choices=range(4), default=SUPPRESS, help=SUPPRESS)
