"""The supervisor takes its programs' lines whatever becomes of its own output."""

import sys

import pytest

from launcher.supervisor import Program, Supervisor


class Closed:
    """A terminal or pipe whose reader has gone."""

    def write(self, _text: str) -> int:
        raise BrokenPipeError

    def flush(self) -> None:
        raise BrokenPipeError

    def isatty(self) -> bool:
        return False


def test_a_reader_that_has_gone_does_not_stop_the_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", Closed())
    supervisor = Supervisor([Program("web", ["true"])])
    supervisor.write("web", "a line")
    supervisor.write("web", "another line")


def test_lines_bear_the_name_of_their_program(capsys: pytest.CaptureFixture[str]) -> None:
    supervisor = Supervisor([Program("web", ["true"]), Program("worker", ["true"])])
    supervisor.write("web", "ready")
    assert capsys.readouterr().out == "web    │ ready\n"
