"""Do duties of the upkeep once, now."""

import json
from argparse import ArgumentParser
from collections.abc import Sequence
from typing import Any

from django.core.management.base import CommandError

from beat.upkeep import DUTIES
from beat.upkeep.duty import Duty
from executions.clock import database_now
from executions.commands import REFUSED, PlatformCommand

_NAMES = ", ".join(duty.name for duty in DUTIES)
_WIDTH = max(len(duty.name) for duty in DUTIES)


class Command(PlatformCommand):
    examples = ("upkeep --list", "upkeep rescue retention", "upkeep --json")
    help = "Do the duties that beats do beside firing once, now: all of them, or those that are named."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("duty", nargs="*", metavar="DUTY", help=_NAMES)
        parser.add_argument("--list", action="store_true", help="tell what there is, and do nothing")
        parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")

    def handle(self, *_args: Any, **options: Any) -> None:
        act = self._tell if options["list"] else self._do
        answers = {duty.name: act(duty, is_silent=options["json"]) for duty in _named(options["duty"])}
        if options["json"]:
            self.stdout.write(json.dumps(answers))

    def _tell(self, duty: Duty, *, is_silent: bool) -> dict[str, object]:
        seconds = duty.every.total_seconds()
        if not is_silent:
            self.stdout.write(f"{duty.name:<{_WIDTH}}  every {f'{seconds:g} s':<6}  {duty.does}")
        return {"every_seconds": seconds, "does": duty.does}

    def _do(self, duty: Duty, *, is_silent: bool) -> int:
        count = duty.run(database_now())
        if not is_silent:
            self.stdout.write(f"{duty.name:<{_WIDTH}}  {count:>6}  {duty.does}")
        return count


def _named(names: Sequence[str]) -> list[Duty]:
    """Those duties, or all; in their own order."""
    unknown = sorted({*names} - {duty.name for duty in DUTIES})
    if unknown:
        raise CommandError(f"There is no duty {unknown[0]!r}. Name one or more of: {_NAMES}.", returncode=REFUSED)
    return [duty for duty in DUTIES if not names or duty.name in names]
