"""`beats`: who fires."""

from terminal.frame import PeoplesCommand
from terminal.operations.processes import Beats


class Command(PeoplesCommand):
    verbs = [Beats]
