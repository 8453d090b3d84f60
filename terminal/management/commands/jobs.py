"""`jobs`: what runs, and when."""

from terminal.frame import PeoplesCommand
from terminal.jobs import applying, backfilling, defining, history, listing, running, states


class Command(PeoplesCommand):
    help = "Find, define and run jobs. `jobs COMMAND --help` tells more."
    verbs = [
        listing.List,
        listing.Show,
        defining.Create,
        defining.Change,
        states.Pause,
        states.Resume,
        states.Archive,
        history.History,
        listing.Next,
        running.Run,
        backfilling.Backfill,
        applying.Export,
        applying.Apply,
        applying.Sync,
    ]
