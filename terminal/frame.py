"""What all commands for people share: verbs, --json, who asks, exit codes, and refusals in one sentence.

Owns the frame. A command is a list of verbs (`jobs pause`) or one verb without a name (`queues`). A verb parses, calls
one function and says what became of it. Invariants: with --json exactly one document is printed, and with an error
none; exit codes mean the same everywhere (`Exit`); every verb has an example, which its --help shows.
"""

import logging
import os
import sys
import textwrap
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import IntEnum
from typing import Any, ClassVar, NoReturn, TextIO, cast

from django.core.management.base import CommandError
from rich.console import RenderableType

from api.problems import Place, Problem, problem_of
from executions.commands import PlatformCommand, shown_examples, user
from jobs.refusals import InvalidRun
from terminal.paper import Paper
from terminal.parsing import SentenceParser, look_arguments

THROUGH = "command"
_WIDTH = 100  # of the text in --help
_OF_THE_COMMAND = ("-h", "--help", "--version")  # and not of the verb that is meant


class Exit(IntEnum):
    """What exit codes mean. Ctrl-C is 130."""

    DONE = 0
    FAILED = 1  # it could not be done, what was waited for did not succeed, or the doctor found errors
    REFUSED = 2  # it cannot be done as it was asked: nothing was changed
    NOT_YET = 3  # not over within the time, or --check found differences


@dataclass(frozen=True)
class Told:
    """What a verb has to say: as JSON, and to a person."""

    data: Any  # or what makes it: only where it is asked for
    shown: Iterable[RenderableType] = ()
    code: Exit = Exit.DONE


@dataclass(frozen=True)
class Asked:
    """What was typed."""

    options: Namespace
    paper: Paper
    by: str = field(default_factory=user)

    def __getitem__(self, name: str) -> Any:
        return getattr(self.options, name)

    @property
    def signature(self) -> dict[str, Any]:
        """By whom and through what, as the domain functions want to know it."""
        return {"by": self.by, "through": THROUGH}

    def given(self, *names: str) -> dict[str, Any]:
        """Those of the options that were named."""
        said = {name: getattr(self.options, name) for name in names}
        return {name: value for name, value in said.items() if value is not None}

    def agrees(self, question: str) -> bool:
        """Whether the person at the terminal wants it; where nobody can answer, --yes has to say so."""
        if self["yes"]:
            return True
        if not sys.stdin.isatty():
            refuse("Nobody can be asked here; add --yes to do it, or --dry-run to look.")
        self.paper.aside(f"{question} [y/N] ", end="")
        return sys.stdin.readline().strip().lower() in ("y", "yes")  # the end of the input is a no


class Verb:
    """One thing that can be asked for."""

    name: ClassVar[str] = ""
    does: ClassVar[str]  # in a line
    explains: ClassVar[str] = ""
    examples: ClassVar[Sequence[str]]  # as they are typed after ./onbeat
    changes: ClassVar[bool] = False  # something that the audit trail tells of: --by says who
    asks: ClassVar[bool] = False  # before it does so: --yes and --dry-run
    called_here: ClassVar[Mapping[str, str]] = {}  # what the API's refusals call otherwise

    def add_arguments(self, parser: ArgumentParser) -> None:
        """What can be said, besides what all verbs take."""

    def act(self, asked: Asked) -> Told | None:
        """Do it. None: everything was printed on the way."""
        raise NotImplementedError

    @staticmethod
    def option_of(pointer: str, _asked: "Asked", /) -> str:
        """What to call a place of a body that the API's code refuses."""
        return pointer.lstrip("/").replace("/", ".")

    def parser_options(self) -> dict[str, Any]:
        does = self.does[0].upper() + self.does[1:] + "."
        return {
            "description": f"{textwrap.fill(does, _WIDTH)}\n\n{textwrap.fill(self.explains, _WIDTH)}".rstrip(),
            "epilog": shown_examples(self.examples),
            "formatter_class": RawDescriptionHelpFormatter,
        }

    def prepare(self, parser: ArgumentParser) -> None:
        self.add_arguments(parser)
        if self.asks:
            parser.add_argument("--dry-run", action="store_true", help="Say what would be done, and do nothing.")
            parser.add_argument("--yes", action="store_true", help="Do not ask; needed where nobody can answer.")
        if self.changes:
            parser.add_argument("--by", default="", metavar="WHO", help="Who asks; your user name if not given.")
        parser.add_argument("--json", action="store_true", help="Print one line of JSON instead.")
        parser.set_defaults(verb=self)


class PeoplesCommand(PlatformCommand):
    """A command of several verbs, or of the one that has no name."""

    verbs: ClassVar[Sequence[type[Verb]]]
    default: ClassVar[str] = ""  # the verb that is meant where none is named; nothing: the help is shown
    suppressed_base_arguments = {"--version", "--settings", "--pythonpath"}

    @classmethod
    def made(cls) -> list[Verb]:
        return [verb() for verb in cls.verbs]

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> Any:
        verbs = self.made()
        options = {} if verbs[0].name else verbs[0].parser_options()
        said = options.pop("description", self.help)
        parser: Any = super().create_parser(prog_name, subcommand, **options, **kwargs)
        parser.__class__ = SentenceParser  # Django makes one of its own class
        parser.description = said
        return parser

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = self.made()
        if not verbs[0].name:
            verbs[0].prepare(parser)
            return
        listed = parser.add_subparsers(
            prog=f"./onbeat {parser.prog.split()[-1]}",
            parser_class=SentenceParser,
            dest="subcommand",
            required=True,
            metavar="COMMAND",
            title="commands",
        )
        for verb in verbs:
            its_parser = listed.add_parser(verb.name, help=verb.does, **verb.parser_options())
            verb.prepare(its_parser)
            look_arguments(its_parser)

    def run_from_argv(self, argv: list[str]) -> None:
        names = [verb.name for verb in self.made() if verb.name]
        if names and (len(argv) == 2 or (self.default and argv[2].startswith("-") and argv[2] not in _OF_THE_COMMAND)):
            argv = [*argv[:2], self.default or "--help", *argv[2:]]
        elif names and not argv[2].startswith("-") and argv[2] not in names:
            near = get_close_matches(argv[2], names, n=1)
            remedy = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(names)}."
            self.stderr.write(f"onbeat: There is no command {argv[2][:80]!r} of {argv[1]}; {remedy}")
            sys.exit(Exit.REFUSED)
        try:
            super().run_from_argv(argv)
        except CommandError as refused:  # before it began: what was typed cannot be read
            self.stderr.write(f"onbeat: {refused}")
            sys.exit(refused.returncode)
        except BrokenPipeError:
            # Whoever read it has seen enough, as `head` has; nothing is to be written when Python ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(Exit.DONE)

    def handle(self, *_args: Any, **options: Any) -> None:
        verb: Verb = options["verb"]
        paper = Paper(
            # Django's wrappers would end every piece of a line with a new one.
            cast(TextIO, self.stdout._out),
            cast(TextIO, self.stderr._out),
            is_json=options["json"],
            is_colour_forced=options["force_color"],
            is_colour_forbidden=options["no_color"],
        )
        asked = Asked(Namespace(**options), paper, options.get("by") or user())
        with _quiet(is_wanted=options["verbosity"] < 2), _refusals_in_a_sentence(verb, asked):
            told = verb.act(asked)
        if told is None:
            return
        if options["json"]:
            paper.document(told.data() if callable(told.data) else told.data)
        else:
            paper.say_all(told.shown)
        if told.code is not Exit.DONE:
            sys.exit(told.code)


def refuse(text: str) -> NoReturn:
    """One sentence with the remedy; nothing was changed."""
    raise CommandError(text, returncode=Exit.REFUSED)


@contextmanager
def _refusals_in_a_sentence(verb: Verb, asked: Asked) -> Iterator[None]:
    try:
        yield
    except (CommandError, SystemExit):
        raise
    except Exception as error:
        problem = problem_of(error)
        if problem is None or problem.status >= 500:
            raise
        raise CommandError(_sentence(problem, error, verb, asked), returncode=Exit.REFUSED) from None


def _sentence(problem: Problem, error: Exception, verb: Verb, asked: Asked) -> str:
    if isinstance(error, InvalidRun) or not problem.places:
        return _called_here(problem.detail, verb)
    return "\n".join(_told(place, verb, asked) for place in problem.places)


def _told(place: Place, verb: Verb, asked: Asked) -> str:
    """With the option to correct, where there is one."""
    detail, pointer = _called_here(place.detail, verb), place.pointer or ""
    where = verb.option_of(pointer, asked) if pointer else f"--{place.parameter}" if place.parameter else ""
    for subject in ("This ", f"{pointer.lstrip('/').replace('/', '.')} "):
        if where and detail.startswith(subject):
            return detail.replace(subject, f"{where} ", 1)
    return detail if where in detail or not where.startswith("--") else f"{where}: {detail}"


def _called_here(said: str, verb: Verb) -> str:
    for otherwise, here in verb.called_here.items():
        said = said.replace(otherwise, here)
    return said


@contextmanager
def _quiet(*, is_wanted: bool) -> Iterator[None]:
    """What was done is told by the verb; of log lines a person at a terminal wants the warnings."""
    root = logging.getLogger()
    before = root.level
    root.setLevel(logging.WARNING if is_wanted else before)
    try:
        yield
    finally:
        root.setLevel(before)
