"""`retention`: what is kept for how long, and what is past that."""

from terminal.frame import PeoplesCommand
from terminal.operations.retention import Run, Show


class Command(PeoplesCommand):
    help = "What is kept for how long, and what is past that. Alone it shows; `retention run` removes."
    verbs = [Show, Run]
    default = "show"
