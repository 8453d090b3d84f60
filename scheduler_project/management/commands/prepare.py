"""Make a database ready for use: migrate, an admin user, the demo jobs. What is there already stays as it is."""

import os
import secrets
from argparse import ArgumentParser
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import AbstractUser
from django.core.management import call_command
from django.db import connection

from executions import surroundings
from executions.clock import database_now
from executions.commands import ExampledCommand
from jobs import demo


class Command(ExampledCommand):
    examples = ("prepare", "prepare --demo embedded")
    help = (
        "Migrate the database, make an admin user if there is no user yet (its password from ONBEAT_ADMIN_PASSWORD, "
        "else a new one, printed once) and, if wanted, three small demo jobs if there is no job yet."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--demo",
            choices=["never", "embedded", "always"],
            default="never",
            help="When to make the demo jobs; 'embedded' means only on SQLite, never in somebody's real database.",
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        call_command("migrate", verbosity=0, interactive=False)
        self._ensure_admin()
        for name, where in surroundings.in_words().items():
            self.stdout.write(f"{name:<9} {where}")
        is_wanted = {"never": False, "embedded": connection.vendor == "sqlite", "always": True}
        if is_wanted[options["demo"]]:
            for job in demo.seed(now=database_now()):
                self.stdout.write(f"demo job {job.key}: {job.schedule}")

    def _ensure_admin(self) -> None:
        users = get_user_model().objects
        if users.exists():
            return
        given = os.environ.get("ONBEAT_ADMIN_PASSWORD", "")
        password = given or secrets.token_urlsafe(12)
        user: AbstractUser = users.create_superuser("admin", password=password)
        shown = "the one in ONBEAT_ADMIN_PASSWORD" if given else f"{password}  (shown only this once)"
        self.stdout.write(f"admin user {user.get_username()!r}, password: {shown}")
