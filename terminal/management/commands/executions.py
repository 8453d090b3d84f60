"""`executions`: one run each."""

from terminal.executions.acting import Cancel, Replay, Retry
from terminal.executions.listing import List, Show
from terminal.executions.watching import Watch
from terminal.frame import PeoplesCommand


class Command(PeoplesCommand):
    help = "Find executions, watch them, and act on them. `executions COMMAND --help` tells more."
    verbs = [List, Show, Watch, Cancel, Retry, Replay]
