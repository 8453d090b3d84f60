"""`jobs`: what runs, and when."""

from terminal.frame import PeoplesCommand
from terminal.jobs import backfilling, listing


class Command(PeoplesCommand):
    help = "Find, define and run jobs. `jobs COMMAND --help` tells more."
    verbs = [listing.List, listing.Show, backfilling.Backfill]
