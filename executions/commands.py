"""What all our commands share: they say in one sentence what keeps them from working."""

import getpass
import os
import sys
from argparse import RawDescriptionHelpFormatter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar

from django.core.management.base import BaseCommand, CommandError, CommandParser, DjangoHelpFormatter
from django.db import InterfaceError, OperationalError

from executions.checks import TAG
from executions.health import missing_migrations
from executions.storable import in_a_line

REFUSED = 2  # the exit code of what cannot be done as it was asked


class _Help(RawDescriptionHelpFormatter, DjangoHelpFormatter):
    """Ours first, as they stand there; then those that every command of Django has."""


class ExampledCommand(BaseCommand):
    """A command whose --help ends with examples."""

    examples: ClassVar[Sequence[str]] = ()  # as they are typed after ./onbeat

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        if self.examples:
            kwargs.setdefault("epilog", shown_examples(self.examples))
        kwargs.setdefault("formatter_class", _Help)
        parser = super().create_parser(prog_name, subcommand, **kwargs)
        parser.prog = f"./onbeat {subcommand}"
        return parser


def shown_examples(examples: Sequence[str]) -> str:
    return "\n".join(["examples:", *(f"  ./onbeat {each}" for each in examples)])


class PlatformCommand(ExampledCommand):
    requires_system_checks = [TAG]  # Django's own load every page of the web process
    needs_database: ClassVar[bool] = True  # it answers, and is migrated: else the command does not begin

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
            missing = missing_migrations() if self.needs_database else 0
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
