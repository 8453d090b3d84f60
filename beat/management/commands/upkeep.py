"""Do duties of the upkeep once, now."""

import json
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from beat.upkeep import DUTIES
from executions.clock import database_now

_NAMES = [duty.name for duty in DUTIES]


class Command(BaseCommand):
    help = "Do the duties that beats do beside firing once, now: all of them, or those that are named."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("duty", nargs="*", metavar="DUTY", help=", ".join(_NAMES))
        parser.add_argument("--list", action="store_true", help="tell what there is, and do nothing")
        parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")

    def handle(self, *_args: Any, **options: Any) -> None:
        for name in options["duty"]:
            if name not in _NAMES:
                raise CommandError(f"There is no duty {name!r}; there are {', '.join(_NAMES)}.", returncode=2)
        chosen = [duty for duty in DUTIES if not options["duty"] or duty.name in options["duty"]]
        width = max(len(duty.name) for duty in chosen)
        done = {}
        for duty in chosen:
            if options["list"]:
                seconds = f"{duty.every.total_seconds():g} s"
                self.stdout.write(f"{duty.name:<{width}}  every {seconds:<6}  {duty.does}")
                continue
            done[duty.name] = duty.run(database_now())
            if not options["json"]:
                self.stdout.write(f"{duty.name:<{width}}  {done[duty.name]:>6}  {duty.does}")
        if options["json"]:
            self.stdout.write(json.dumps(done))
