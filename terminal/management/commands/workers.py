"""`workers`: who takes work."""

from terminal.frame import PeoplesCommand
from terminal.operations.processes import Workers


class Command(PeoplesCommand):
    verbs = [Workers]
