"""`explain`: why a job did or did not run."""

from terminal.explain import Explain
from terminal.frame import PeoplesCommand


class Command(PeoplesCommand):
    help = "Tell why a job did or did not run."
    verbs = [Explain]
