"""What a duty of the upkeep is."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta


@dataclass(frozen=True)
class Duty:
    """Something done now and then beside firing, by one beat at a time; harmless if two do it at once."""

    name: str
    does: str  # the end of the sentence "This duty …"
    every: timedelta
    run: Callable[[datetime], int]  # returns how many things it did
    trusts_silence: bool = False  # waits after an outage, until those who could not speak had time to
