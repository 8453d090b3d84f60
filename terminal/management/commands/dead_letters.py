"""`dead_letters`: what waits for a person."""

from terminal.dead_letters import listing, settling
from terminal.frame import PeoplesCommand


class Command(PeoplesCommand):
    help = "Look at what gave up, run it again, or discard it. `dead_letters COMMAND --help` tells more."
    verbs = [listing.List, listing.Show, settling.Replay, settling.Discard]
