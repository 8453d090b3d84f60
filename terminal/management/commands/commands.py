"""`commands`: what there is."""

from argparse import ArgumentParser

from terminal import reference
from terminal.frame import Asked, PeoplesCommand, Told, Verb
from terminal.paper import strong, table


class List(Verb):
    does = "list the commands of the platform"
    examples = ("commands", "commands --markdown > docs/reference/commands.md")

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--markdown", action="store_true", help="The whole reference, as a page.")

    def act(self, asked: Asked) -> Told:
        if asked["markdown"]:
            page = reference.markdown()
            return Told({"page": page}, [page.rstrip("\n")])
        found = {name: reference.in_a_line(command) for name, command in reference.commands().items()}
        rows = [(strong(name), says) for name, says in found.items()]
        return Told(found, [table(("COMMAND", "WHAT IT IS FOR"), rows, whole=["COMMAND"])])


class Command(PeoplesCommand):
    help = "List the commands of the platform."
    verbs = [List]
