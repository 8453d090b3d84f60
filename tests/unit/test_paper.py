"""What commands print: whole where it is piped, and nothing that a terminal would obey; ids can always be copied."""

import json
import uuid
from datetime import UTC, datetime
from io import StringIO
from typing import Any

import pytest
from rich.text import Text

from terminal.executions.tables import executions_table
from terminal.paper import Paper, block, facts, table

ID = uuid.UUID("01a1ec62-2f20-7063-8e14-4608b9dd4104")


class Screen(StringIO):
    def isatty(self) -> bool:
        return True


def printed(part: Any, *, columns: int | None = None, monkeypatch: pytest.MonkeyPatch | None = None) -> list[str]:
    """Its lines as they are piped; or, with a number of columns, on a terminal without colours."""
    if columns is None:
        out = StringIO()
    else:
        assert monkeypatch is not None
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setenv("TERM", "xterm")
        out = Screen()
    Paper(out, StringIO(), is_colour_forbidden=True).say(part)
    return [line.replace("\x1b[1m", "").replace("\x1b[0m", "") for line in out.getvalue().splitlines()]


def an_execution() -> dict[str, Any]:
    moment = datetime(2026, 11, 18, 2, 0, 20, tzinfo=UTC)
    facts: dict[str, Any] = {"id": ID, "job": "billing.daily", "state": "DEAD", "trigger": "SCHEDULE", "attempt": 1}
    facts |= {"max_attempts": 3, "fire_time": moment, "started_at": None, "finished_at": None}
    return {**facts, "reason": "", "error": "ValueError: " + "no " * 60}


def test_what_is_piped_is_one_line_a_row_however_long_it_is() -> None:
    assert len(printed(executions_table([an_execution()], has_job=True))) == 2


@pytest.mark.parametrize("columns", [80, 129, 130, 200])
@pytest.mark.parametrize("has_job", [True, False])
def test_an_id_can_be_copied_from_however_narrow_a_terminal(
    columns: int, has_job: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = printed(executions_table([an_execution()], has_job=has_job), columns=columns, monkeypatch=monkeypatch)
    assert str(ID) in lines[1]
    assert "DEAD" in lines[1]
    assert max(map(len, lines)) <= columns


@pytest.mark.parametrize(
    "part",
    [
        "no\x1b]0;title\x07 \x9b31m",
        Text("no\x1b[2J"),
        table(["HEAD"], [["no\x1b[31m"]]),
        facts([("name", "no\x1b[31m"), ("value", {"key": "no\x1b[31m"})]),
        block("no\x1b[31m\r\n  at line 1"),
    ],
)
def test_what_others_wrote_gives_no_terminal_a_command(part: Any) -> None:
    said = "".join(printed(part))
    assert "no" in said
    assert not {"\x1b", "\x07", "\x9b", "\r"} & set(said)


def test_several_lines_stay_so() -> None:
    assert printed(block("a\n  b\tc")) == ["  a", "    b     c"]


def test_a_line_comes_at_once_and_as_json_is_a_document_of_its_own() -> None:
    flushed: list[str] = []

    class Pipe(StringIO):
        def flush(self) -> None:
            flushed.append(self.getvalue())

    for is_json in (True, False):
        paper = Paper(Pipe(), StringIO(), is_json=is_json)
        paper.line(Text("a line"), {"at": datetime(2026, 1, 1, tzinfo=UTC)})
        last = flushed[-1]
        assert (json.loads(last) == {"at": "2026-01-01T00:00:00Z"}) if is_json else last == "a line\n"


@pytest.mark.parametrize(
    ("is_whole", "said"), [(False, "Stopped: 1,200 were done, and stay so."), (True, "Stopped: nothing was done.")]
)
def test_whoever_stops_a_bar_is_told_how_far_it_came(is_whole: bool, said: str) -> None:
    errors = StringIO()
    paper = Paper(StringIO(), errors, is_json=True)

    def stopped_in_the_middle() -> None:
        with paper.progress("Cancel", 5000, is_whole=is_whole) as advance:
            advance(1000)
            advance(200)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped_in_the_middle()
    assert errors.getvalue() == f"{said}\n"
