"""What all commands for people share: verbs and their help, refusals, exit codes, colours, and quiet logs."""

import json
import logging
import pkgutil
import re
import shlex
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from io import StringIO
from typing import Any, ClassVar

import pytest
from django.core.management import CommandError, load_command_class

from api.problems import Place, bad_body, not_there
from executions import events
from jobs.refusals import InvalidDefinition, InvalidRun
from terminal.frame import Asked, Exit, PeoplesCommand, Told, Verb, refuse
from terminal.management import commands
from terminal.paper import Paper, coloured, facts, strong, table, toned
from terminal.parsing import in_a_sentence

NAMES = [module.name for module in pkgutil.iter_modules(commands.__path__)]
COMMANDS: dict[str, Any] = {name: load_command_class("terminal", name) for name in NAMES}
VERBS = [(name, verb) for name, command in COMMANDS.items() for verb in command.made()]
IDS = [f"{name} {verb.name}".strip() for name, verb in VERBS]


class Greet(Verb):
    name = "greet"
    does = "say hello"
    examples: ClassVar[Sequence[str]] = ("hail greet anna",)
    changes = asks = True
    called_here: ClassVar[dict[str, str]] = {"the body's word": "--word"}

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name")
        parser.add_argument("--number", type=int)
        parser.add_argument("--tone", choices=["kind", "rude"])

    @staticmethod
    def option_of(pointer: str, _asked: Asked, /) -> str:
        return {"/number": "--number", "/deep/number": "--number"}.get(pointer, pointer[1:])

    def act(self, asked: Asked) -> Told:
        _DEEDS.get(asked["name"], lambda: None)()
        code = Exit[asked["name"].upper()] if asked["name"].upper() in Exit.__members__ else Exit.DONE
        return Told(lambda: {"by": asked.by, "number": asked["number"]}, [toned("DEAD"), "x" * 300], code)


def _refused(error: Exception) -> Any:
    def deed() -> None:
        raise error

    return deed


def _logs() -> None:
    events.emit("this is told")
    events.warn("this is wrong")


_DEEDS = {
    "remedy": lambda: refuse("It cannot be; do otherwise."),
    "definition": _refused(InvalidDefinition("number", "The number is odd.")),
    "deep": _refused(bad_body([Place("This must be even.", pointer="/deep/number")])),
    "dotted": _refused(bad_body([Place("deep.number must be even.", pointer="/deep/number")])),
    "elsewhere": _refused(bad_body([Place("This must be red.", pointer="/colour")])),
    "two": _refused(bad_body([Place("This must be red.", pointer="/colour"), Place("No.", pointer="/number")])),
    "run": _refused(InvalidRun("number", "--number 'x' is odd.")),
    "gone": _refused(not_there("There is no such thing.")),
    "called": _refused(not_there("Say the body's word.")),
    "bug": _refused(ZeroDivisionError("a bug")),
    "logs": _logs,
}


class Hail(PeoplesCommand):
    help = "Greet people."
    verbs: ClassVar[Sequence[type[Verb]]] = [Greet]


class Nameless(Greet):
    name = ""


class Wave(PeoplesCommand):
    help = "Without a verb."
    verbs: ClassVar[Sequence[type[Verb]]] = [Nameless]


class Typed:
    """What a command line prints and how it ends."""

    def __init__(self, command: PeoplesCommand, *words: str, is_terminal: bool = False) -> None:
        out, err = (_Screen() if is_terminal else StringIO() for _ in range(2))
        command.stdout._out, command.stderr._out = out, err  # type: ignore[assignment]
        self.code: Any = 0
        try:
            command.run_from_argv(["manage.py", type(command).__name__.lower(), *words])
        except SystemExit as end:
            self.code = end.code or 0
        self.out, self.err = out.getvalue(), err.getvalue()


class _Screen(StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _no_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("executions.commands.missing_migrations", lambda: 0)
    for name in ("NO_COLOR", "FORCE_COLOR", "DJANGO_COLORS", "TERM", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


# ── Every verb of every command ──────────────────────────────────────────────────────────────────────────────────


def test_there_are_commands_and_their_verbs_have_names_of_their_own() -> None:
    assert {"jobs", "executions", "dead_letters", "queues"} <= set(NAMES)
    for command in COMMANDS.values():
        names = [verb.name for verb in command.made()]
        assert len(set(names)) == len(names)
        assert names == [""] or "" not in names
        assert names == [""] or command.help.endswith(".")


@pytest.mark.parametrize(("command", "verb"), VERBS, ids=IDS)
def test_every_verb_tells_what_it_does_in_a_line(command: str, verb: Verb) -> None:
    assert verb.does[0].islower()
    assert not verb.does.endswith(".")
    assert "\n" not in verb.does
    assert not verb.explains or verb.explains.endswith(".")


@pytest.mark.parametrize(("command", "verb"), VERBS, ids=IDS)
def test_every_verb_has_json_examples_and_a_help_for_each_option(command: str, verb: Verb) -> None:
    parser = ArgumentParser()
    verb.prepare(parser)
    options = {option for action in parser._actions for option in action.option_strings}
    assert "--json" in options
    assert verb.changes == ("--by" in options)
    assert verb.asks == ("--yes" in options)
    assert not verb.asks or "--dry-run" in options
    for action in parser._actions:
        assert action.help, action
        assert not action.help[0].islower() or action.dest == "help", action.help
        assert action.help.endswith((".", "-")) or action.dest == "help", action.help
    assert verb.examples
    for example in verb.examples:
        words = shlex.split(example.partition(" > ")[0])
        if verb.name and verb.name == COMMANDS[command].default and words[1:2] != [verb.name]:
            words.insert(1, verb.name)  # it is meant where no verb is named
        assert words[: 1 + bool(verb.name)] == list(filter(None, [command, verb.name]))
        assert COMMANDS[command].create_parser("manage.py", command).parse_args(words[1:]).verb


@pytest.mark.parametrize(("command", "verb"), VERBS, ids=IDS)
def test_every_verb_shows_its_examples_in_its_help(
    command: str, verb: Verb, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        COMMANDS[command].create_parser("manage.py", command).parse_args([*filter(None, [verb.name]), "--help"])
    assert end.value.code == 0
    said = capsys.readouterr().out
    assert re.search(rf"^usage: \./onbeat {command} ?{verb.name}", said)
    assert all(f"  ./onbeat {example}\n" in said for example in verb.examples)
    assert "manage.py" not in said


# ── Verbs ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_without_a_verb_the_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert Typed(Hail()).code == 0
    said = capsys.readouterr().out
    assert said.startswith("usage: ./onbeat hail ")
    assert re.search(r"^    greet +say hello$", said, re.MULTILINE)
    assert "--settings" not in said


@pytest.mark.parametrize(
    ("verb", "says"),
    [
        ("gret", "onbeat: There is no command 'gret' of hail; did you mean 'greet'?\n"),
        ("zzz", "onbeat: There is no command 'zzz' of hail; there are greet.\n"),
        ("x" * 999, f"onbeat: There is no command '{'x' * 80}' of hail; there are greet.\n"),
    ],
)
def test_an_unknown_verb_is_told_the_nearest(verb: str, says: str) -> None:
    typed = Typed(Hail(), verb)
    assert (typed.code, typed.out, typed.err) == (2, "", says)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--numbr", "5"], "There is no option --numbr; did you mean --number?"),
        (["--numbr=5"], "There is no option --numbr; did you mean --number?"),
        (["--zzz"], "There is no option --zzz. `./onbeat hail greet --help` tells what there is."),
        (["--z\x1b[31m"], r"There is no option --z\x1b[31m. `./onbeat hail greet --help` tells what there is."),
        (["--number", "x"], "--number 'x' is no whole number. `./onbeat hail greet --help` tells what there is."),
        (["--number"], "--number needs a value. `./onbeat hail greet --help` tells what there is."),
        (["--tone", "sad"], "--tone 'sad' is none of kind, rude. `./onbeat hail greet --help` tells what there is."),
        (["bert"], "There is no place for 'bert' here. `./onbeat hail greet --help` tells what there is."),
    ],
)
def test_what_cannot_be_read_is_one_sentence(words: list[str], says: str) -> None:
    typed = Typed(Hail(), "greet", "anna", *words)
    assert (typed.code, typed.out, typed.err) == (2, "", f"onbeat: {says}\n")
    with pytest.raises(CommandError) as refused:
        Hail().create_parser("manage.py", "hail").parse_args(["greet", "anna", *words])
    assert refused.value.returncode == 2


def test_a_command_without_verbs_refuses_alike() -> None:
    typed = Typed(Wave(), "anna", "--numbr", "5")
    assert (typed.code, typed.err) == (2, "onbeat: There is no option --numbr; did you mean --number?\n")
    assert Typed(Wave()).err == "onbeat: name must be said. `./onbeat wave --help` tells what there is.\n"


def test_what_argparse_says_otherwise_stays_as_it_is() -> None:
    assert in_a_sentence("argument --at: not allowed with argument --in") == (
        "--at and --in exclude each other; say one of them."
    )
    assert in_a_sentence("argument --rate: invalid float value: 'x'") == "--rate 'x' is no number."
    assert in_a_sentence("ambiguous option: --a could match --ab, --ac") == "--a may mean --ab, --ac; write it out."
    assert in_a_sentence("something new") == "something new"


# ── Answers, refusals and exit codes ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("name", "code"), [("anna", 0), ("done", 0), ("failed", 1), ("refused", 2), ("not_yet", 3)])
def test_the_exit_code_is_what_the_verb_says(name: str, code: int) -> None:
    assert Typed(Hail(), "greet", name).code == code
    typed = Typed(Hail(), "greet", name, "--json")
    assert (typed.code, typed.out.count("\n")) == (code, 1)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("remedy", "It cannot be; do otherwise."),
        ("definition", "--number: The number is odd."),
        ("deep", "--number must be even."),
        ("dotted", "--number must be even."),
        ("elsewhere", "colour must be red."),
        ("two", "colour must be red.\n--number: No."),
        ("run", "--number 'x' is odd."),
        ("gone", "There is no such thing."),
        ("called", "Say --word."),
    ],
)
@pytest.mark.parametrize("more", [[], ["--json"]])
def test_a_refusal_names_the_option_and_prints_no_answer(name: str, says: str, more: list[str]) -> None:
    typed = Typed(Hail(), "greet", name, *more)
    assert (typed.code, typed.out, typed.err) == (2, "", f"onbeat: {says}\n")


def test_what_nobody_foresaw_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError):
        Typed(Hail(), "greet", "bug")


def test_who_asks_is_named_or_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "anna")
    assert json.loads(Typed(Hail(), "greet", "x", "--json").out)["by"] == "anna"
    assert json.loads(Typed(Hail(), "greet", "x", "--json", "--by", "ops").out)["by"] == "ops"
    assert json.loads(Typed(Hail(), "greet", "x", "--json", "--by", "").out)["by"] == "anna"


def test_only_the_options_that_were_named_are_given() -> None:
    asked = Asked(Namespace(a=None, b=0, c="x"), Paper(StringIO(), StringIO()))
    assert asked.given("a", "b", "c") == {"b": 0, "c": "x"}


@pytest.mark.parametrize(
    ("answer", "is_yes"),
    [("y\n", True), (" Yes \n", True), ("n\n", False), ("\n", False), ("", False), ("ye\n", False)],
)
def test_only_a_yes_is_a_yes(monkeypatch: pytest.MonkeyPatch, answer: str, is_yes: bool) -> None:
    err = StringIO()
    monkeypatch.setattr(sys, "stdin", type("Keyboard", (StringIO,), {"isatty": lambda _: True})(answer))
    asked = Asked(Namespace(yes=False), Paper(StringIO(), err))
    assert asked.agrees("Really?") is is_yes
    assert err.getvalue() == "Really? [y/N] "
    assert Asked(Namespace(yes=True), Paper(StringIO(), err)).agrees("Really?")


# ── Looks ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_is_piped_is_whole_and_without_colours() -> None:
    assert Typed(Hail(), "greet", "anna").out == "DEAD\n" + "x" * 300 + "\n"


def test_a_terminal_gets_colours() -> None:
    assert Typed(Hail(), "greet", "anna", is_terminal=True).out.startswith("\x1b[1;31mDEAD\x1b[0m")


@pytest.mark.parametrize("words", [["--no-color", "greet", "anna"], ["greet", "anna", "--no-color"]])
def test_no_color_is_obeyed_before_and_behind_the_verb(words: list[str]) -> None:
    assert "31m" not in Typed(Hail(), *words, is_terminal=True).out


def test_the_variable_no_color_is_obeyed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert "31m" not in Typed(Hail(), "greet", "anna", is_terminal=True).out


@pytest.mark.parametrize("words", [["--force-color", "greet", "anna"], ["greet", "anna", "--force-color"]])
def test_colours_can_be_wanted_in_a_pipe(words: list[str]) -> None:
    assert Typed(Hail(), *words).out.startswith("\x1b[1;31mDEAD")


def test_json_has_no_colours_at_a_terminal_either() -> None:
    assert json.loads(Typed(Hail(), "greet", "anna", "--json", "--number", "5", is_terminal=True).out)["number"] == 5


def said(*parts: Any, width: int | None = None) -> list[str]:
    out = _Screen() if width else StringIO()
    paper = Paper(out, StringIO(), is_colour_forbidden=True)
    if width:
        paper.console.width = width
    paper.say(*parts)
    return out.getvalue().splitlines()


def test_a_table_that_is_piped_is_as_wide_as_it_must_be() -> None:
    rows = [("a" * 200, 1, None), ("b", True, [1, 2])]
    assert said(table(("KEY", "N", "MORE"), rows, right=["N"])) == [
        f"{'KEY':<200}    N  MORE",
        f"{'a' * 200}    1  -",
        f"{'b':<200}  yes  1, 2",
    ]


def test_on_a_narrow_terminal_what_is_to_be_copied_stays_whole() -> None:
    lines = said(table(("ID", "WHY"), [("0123456789" * 2, "a long story " * 5)], whole=["ID"]), width=40)
    assert lines[1].startswith("01234567890123456789  a long story")
    assert len(lines) > 3
    assert all(len(re.sub("\x1b[^m]*m", "", line)) <= 40 for line in lines)


def test_facts_leave_out_what_has_no_value() -> None:
    assert said(facts([("a", 0), ("bb", ""), ("c", None), ("d", []), ("e", False)])) == ["a  0", "e  no"]


def test_nothing_printed_gives_a_terminal_a_command() -> None:
    bad = "a\x1b[31mb\x9bc\x07d\re"
    lines = said(bad, strong(bad), coloured(bad, "ok"), table(["X"], [[bad]]), facts([("x", bad)]))
    assert not {character for line in lines for character in line} & set("\x1b\x9b\x07\r")


def test_markup_and_emoji_of_others_stay_as_they_are() -> None:
    assert said("[red]a[/red] :boom: [/]") == ["[red]a[/red] :boom: [/]"]


# ── Logs ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("more", "is_told"), [([], False), (["-v", "2"], True)])
def test_logs_of_a_command_stay_quiet(caplog: pytest.LogCaptureFixture, more: list[str], is_told: bool) -> None:
    level = logging.getLogger().level
    logging.getLogger().setLevel(logging.INFO)
    try:
        Typed(Hail(), "greet", "logs", *more)
        assert ("this is told" in caplog.text) is is_told
        assert "this is wrong" in caplog.text
        assert logging.getLogger().level == logging.INFO
    finally:
        logging.getLogger().setLevel(level)
