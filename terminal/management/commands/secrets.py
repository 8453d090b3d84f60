"""`secrets`: what HTTP callbacks name."""

from terminal.access.secrets import Keep, List, Remove, Reseal
from terminal.frame import PeoplesCommand


class Command(PeoplesCommand):
    help = "Keep what HTTP callbacks name: signing keys and values of headers. `secrets COMMAND --help` tells more."
    verbs = [Keep, List, Remove, Reseal]
