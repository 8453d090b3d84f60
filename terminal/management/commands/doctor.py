"""`doctor`: what is wrong with this installation."""

from typing import Any

from terminal.doctor.examining import Examine
from terminal.frame import PeoplesCommand


class Command(PeoplesCommand):
    help = "Look at the whole installation and tell what is wrong."
    verbs = [Examine]
    # What would keep other commands from beginning is what this one is to tell of.
    needs_database = False
    requires_system_checks: list[Any] = []
