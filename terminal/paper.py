"""What a command prints: sentences, tables and bars for people, one JSON document for scripts.

Owns the look. Invariants: colours and bars are for terminals alone, and NO_COLOR and --no-color are obeyed; what is
piped is plain, whole and never wrapped; with JSON nothing else goes to the standard output; what others wrote gives no
terminal a command.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, TextIO

from django.utils.functional import Promise
from rest_framework.utils.encoders import JSONEncoder
from rich.console import Console, JustifyMethod, RenderableType
from rich.padding import Padding
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from executions import words

_STYLES = {"ok": "green", "bad": "bold red", "warn": "yellow", "run": "cyan", "calm": "dim"}
_OBEYED = {number: "�" for number in (*range(0x20), *range(0x7F, 0xA0)) if chr(number) not in "\n\t"}
_PIPED_WIDTH = 100_000  # what is piped is for a program, which folds nothing


class Paper:
    """The two streams of a command."""

    def __init__(
        self,
        out: TextIO,
        err: TextIO,
        *,
        is_json: bool = False,
        is_colour_forced: bool = False,
        is_colour_forbidden: bool = False,
    ) -> None:
        self.is_json = is_json
        self._out = out
        options: dict[str, Any] = {"highlight": False, "markup": False, "emoji": False}
        options |= {"no_color": True} if is_colour_forbidden else {}
        self.console = Console(file=out, force_terminal=is_colour_forced or None, **options)
        if not self.console.is_terminal:
            self.console.width = _PIPED_WIDTH
        self._aside = Console(file=err, **options)

    @property
    def is_terminal(self) -> bool:
        return self.console.is_terminal

    def say(self, *parts: RenderableType) -> None:
        """Print for a person; with JSON, nothing."""
        self.say_all(parts)

    def say_all(self, parts: Iterable[RenderableType]) -> None:
        if not self.is_json:
            for part in parts:
                self._print(part)

    def aside(self, text: str, *, end: str = "\n") -> None:
        """Beside the answer, on the standard error: it is in the way of no pipe."""
        self._aside.print(text, soft_wrap=True, end=end)

    def document(self, value: Any) -> None:
        self._out.write(as_json(value))

    def line(self, text: Text, value: Any) -> None:
        """One of many that come as things happen: with JSON a document of its own. Nobody waits for it."""
        if self.is_json:
            self.document(value)
        else:
            self.say(text)
        self._out.flush()

    def _print(self, part: RenderableType) -> None:
        if isinstance(part, str | Text):
            text = Text(part) if isinstance(part, str) else part.copy()
            text.plain = _plain(text.plain)
            self.console.print(text, soft_wrap=True)
            return
        with self.console.capture() as captured:
            self.console.print(part)
        for line in captured.get().splitlines():
            self._out.write(line.rstrip() + "\n")

    @contextmanager
    def progress(self, what: str, total: int | None, *, is_whole: bool = False) -> Iterator[Callable[[int], None]]:
        """A bar on the standard error, where that is a terminal. Yields what to call with how many more are done.

        Whoever stops it in the middle is told how far it came; if it is done whole or not at all, that nothing was.
        """
        columns = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()]
        is_shown = self._aside.is_terminal and not self.is_json
        bar = Progress(*columns, console=self._aside, disable=not is_shown, transient=True)
        task = bar.add_task(what, total=total)
        try:
            with bar:
                yield lambda done: bar.advance(task, done)
        except KeyboardInterrupt:
            done = f"{bar.tasks[0].completed:,.0f} were done, and stay so"
            self.aside(f"Stopped: {'nothing was done' if is_whole else done}.")
            raise


def as_json(value: Any) -> str:
    """One line, with moments as the API says them."""
    return json.dumps(value, cls=JSONEncoder, ensure_ascii=False) + "\n"


def table(
    heads: Sequence[str], rows: Iterable[Sequence[Any]], *, right: Sequence[str] = (), whole: Sequence[str] = ()
) -> Table:
    """Columns under heads: some on the right, for numbers; some whole on however narrow a terminal, to be copied.

    A cell is text, or Text with a colour.
    """
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for head in heads:
        justify: JustifyMethod = "right" if head in right else "left"
        made.add_column(head, justify=justify, overflow="fold", no_wrap=head in whole)
    for row in rows:
        made.add_row(*(cell if isinstance(cell, Text) else Text(_said(cell)) for cell in row))
    return made


def facts(pairs: Iterable[tuple[str | Text, Any]]) -> Table:
    """Names and values, one pair a line; what has no value is left out."""
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    made.add_column(style="dim", no_wrap=True)
    made.add_column(overflow="fold")
    for name, value in pairs:
        if value not in (None, "", [], {}):
            made.add_row(name, value if isinstance(value, Text) else Text(_said(value)))
    return made


def toned(state: Any) -> Text:
    """A state in its colour."""
    return Text(str(state), style=_STYLES[words.tone(str(state))])


def coloured(text: str, tone: str) -> Text:
    """Of the tones of `words`: ok, bad, warn, run, calm."""
    return Text(text, style=_STYLES[tone])


def block(text: str) -> Padding:
    """Several lines, as they are: an error with its trace."""
    return Padding(Text(_plain(text)), (0, 0, 0, 2))


def strong(text: str) -> Text:
    return Text(text, style="bold")


def _plain(text: str) -> str:
    """Without what a terminal would obey: errors and notes are written by anybody."""
    return text.translate(_OBEYED)


def _said(cell: Any) -> str:
    return _plain(_as_text(cell))


def _as_text(cell: Any) -> str:
    match cell:
        case None:
            return "-"
        case bool():
            return "yes" if cell else "no"
        case datetime():
            return words.clock(cell)
        case list() | tuple():
            return ", ".join(map(str, cell))
        case dict():
            return json.dumps(cell, cls=JSONEncoder, ensure_ascii=False)
        case str() | Promise():
            return str(cell)
    return str(cell)
