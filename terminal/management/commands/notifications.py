"""`notifications`: who is told when a job fails, is late or is well again."""

from terminal.frame import PeoplesCommand
from terminal.notifications.defining import Change, Create, Remove
from terminal.notifications.looking import List, Show, Test


class Command(PeoplesCommand):
    help = "Tell people and programs when jobs fail, are late or well again. `notifications COMMAND --help` tells more."
    verbs = [List, Show, Create, Change, Remove, Test]
