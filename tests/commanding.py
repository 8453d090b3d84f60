"""Commands called as a test wants them: their lines, their JSON, their refusals."""

import json
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command


def lines_of(*words: str) -> list[str]:
    """What a command prints for a person, who pipes it."""
    output = StringIO()
    call_command(*words, stdout=output, stderr=StringIO())
    return output.getvalue().splitlines()


def data_of(*words: str) -> Any:
    """What it says with --json: one document, and nothing else."""
    (line,) = lines_of(*words, "--json")
    return json.loads(line)


def exit_of(*words: str) -> tuple[int, list[str]]:
    """Its exit code if it ends with another one than 0, and what it printed."""
    output = StringIO()
    with pytest.raises(SystemExit) as ended:
        call_command(*words, stdout=output, stderr=StringIO())
    assert isinstance(ended.value.code, int)
    return ended.value.code, output.getvalue().splitlines()


def refusal_of(*words: str) -> str:
    """The sentence that it is refused with."""
    with pytest.raises(CommandError) as refused:
        lines_of(*words)
    assert refused.value.returncode == 2
    text = str(refused.value)
    assert text.replace("\n", "").isprintable()
    return text
