"""Commands as somebody types them: what they print, and how they refuse."""

import json
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from access.models import AuditEntry
from tests import rows


class Terminal(StringIO):
    """A standard input at which somebody sits."""

    def isatty(self) -> bool:
        return True


def typed(*arguments: str) -> list[str]:
    """The lines that it prints; it ends well."""
    output = StringIO()
    call_command(*arguments, stdout=output)
    return output.getvalue().splitlines()


def document(*arguments: str) -> Any:
    """With --json: exactly one line."""
    (line,) = typed(*arguments, "--json")
    return json.loads(line)


def ended(*arguments: str) -> tuple[int, list[str]]:
    """The exit code of one that ends with another than 0, and its lines."""
    output = StringIO()
    with pytest.raises(SystemExit) as end:
        call_command(*arguments, stdout=output)
    return int(str(end.value.code)), output.getvalue().splitlines()


def refusal(*arguments: str) -> str:
    """One sentence with exit code 2."""
    (sentence,) = refusals(*arguments)
    return sentence


def refusals(*arguments: str) -> list[str]:
    """A sentence for each thing to correct; nothing is printed as an answer, and nothing was changed."""
    before, entries = rows.everything(), AuditEntry.objects.count()
    output = StringIO()
    with pytest.raises(CommandError) as error:
        call_command(*arguments, stdout=output)
    assert error.value.returncode == 2
    assert output.getvalue() == ""
    assert (rows.everything(), AuditEntry.objects.count()) == (before, entries)
    sentences = str(error.value).split("\n")
    assert all(each.isprintable() and each.endswith((".", "?")) for each in sentences)
    return sentences
