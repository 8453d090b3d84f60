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
    rests_times: int = 0  # what it took, at least; so it takes no more than one part in so many of a beat's time
    trusts_silence: bool = False  # waits after an outage, until those who could not speak had time to
