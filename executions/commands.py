"""What all our commands share: they say in one sentence what keeps them from working."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import InterfaceError, OperationalError

from executions.health import missing_migrations
from executions.storable import in_a_line

REFUSED = 2  # the exit code of what cannot be done as it was asked


class PlatformCommand(BaseCommand):
    def execute(self, *args: Any, **options: Any) -> str | None:
        try:
            missing = missing_migrations()
            if missing:
                raise CommandError(f"{missing} migrations are missing; run `./onbeat migrate`.")
            return super().execute(*args, **options)
        except (OperationalError, InterfaceError) as error:
            raise CommandError(f"The database does not answer; is it running? {in_a_line(error)}") from None
