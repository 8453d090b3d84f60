"""`queues`: how much waits, since when, and who takes it."""

from terminal.frame import PeoplesCommand
from terminal.operations.queues import Queues


class Command(PeoplesCommand):
    verbs = [Queues]
