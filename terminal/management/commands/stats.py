"""`stats`: the hours, by fires and outcomes."""

from terminal.frame import PeoplesCommand
from terminal.operations.statistics import Stats


class Command(PeoplesCommand):
    verbs = [Stats]
