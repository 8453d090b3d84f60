"""`api_keys`: by which programs show who they are."""

from terminal.access.api_keys import Create, List, Revoke
from terminal.frame import PeoplesCommand


class Command(PeoplesCommand):
    help = "Make, list and revoke API keys. `api_keys COMMAND --help` tells more."
    verbs = [Create, List, Revoke]
