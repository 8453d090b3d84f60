"""Which executions are meant: the same conditions for whoever lists, watches, cancels or replays them."""

from argparse import ArgumentParser
from datetime import datetime
from typing import Any

from api.executions.filters import sought
from executions.finding import Sought
from executions.states import State, Trigger
from terminal.frame import Asked
from terminal.moments import MOMENT, ago

_TEXTS = ("job", "queue", "worker", "fingerprint")
_MOMENTS = ("since", "until")


def filter_arguments(parser: ArgumentParser, *, has_time: bool = True) -> None:
    states, triggers = [state.value for state in State], [trigger.value for trigger in Trigger]
    parser.add_argument("--job", metavar="KEY", help="Of this job; the id finds also one that is over.")
    parser.add_argument("--state", action="append", type=str.upper, choices=states, help="May be said several times.")
    parser.add_argument(
        "--trigger", action="append", type=str.upper, choices=triggers, help="What asked for it; several times."
    )
    parser.add_argument("--queue", help="Of this queue.")
    parser.add_argument("--worker", help="Run last by this worker.")
    parser.add_argument("--fingerprint", help="Whose errors look alike; `dead_letters list` shows it.")
    if has_time:
        parser.add_argument("--since", metavar="MOMENT", help=f"Fired from here on. {MOMENT}, or how long ago: 2h, 3d.")
        parser.add_argument("--until", metavar="MOMENT", help="Fired before this.")


def said_in(asked: Asked, *, now: datetime) -> dict[str, Any]:
    """The conditions that were named, as the API says them."""
    said = asked.given("state", "trigger", *_TEXTS)
    moments = {name: text for name in _MOMENTS if (text := getattr(asked.options, name, None)) is not None}
    return said | {name: ago(name, text, now=now) for name, text in moments.items()}


def sought_by(asked: Asked, *, now: datetime) -> Sought:
    return sought(said_in(asked, now=now))
