"""`preview`: when a schedule fires next."""

from terminal.frame import PeoplesCommand
from terminal.preview import Preview


class Command(PeoplesCommand):
    help = "Show when a schedule fires next."
    verbs = [Preview]
