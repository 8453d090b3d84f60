"""What all our commands share: they say in one sentence what keeps them from working, and print alike."""

import getpass
import os
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import InterfaceError, OperationalError

from executions.health import missing_migrations
from executions.storable import in_a_line

REFUSED = 2  # the exit code of what cannot be done as it was asked


class PlatformCommand(BaseCommand):
    def execute(self, *args: Any, **options: Any) -> str | None:
        try:
            return self._execute(*args, **options)
        except CommandError as refused:
            if not getattr(self, "_called_from_command_line", False) or options.get("traceback"):
                raise
            # Django would put the name of a Python class before it.
            self.stderr.write(f"onbeat: {refused}")
            sys.exit(refused.returncode)

    def _execute(self, *args: Any, **options: Any) -> str | None:
        try:
            missing = missing_migrations()
            if missing:
                raise CommandError(f"{missing} migrations are missing; run `./onbeat migrate`.")
            return super().execute(*args, **options)
        except (OperationalError, InterfaceError) as error:
            raise CommandError(f"The database does not answer; is it running? {in_a_line(error)}") from None


def user() -> str:
    """Who works at this terminal."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"user {os.getuid()}"  # as in a container, where a number need not have a name


def clock(moment: datetime | None) -> str:
    return "never" if moment is None else f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The lines of it."""
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    for row in (heads, *rows):
        yield "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
