"""What is told, and in whose form. Pure: no Django.

Owns the words for both, and what a receiver is told if it says nothing. A fact is of one kind; which kinds a receiver
wants is its own business.
"""

from enum import StrEnum


class Kind(StrEnum):
    FAILURE = "failure"  # an attempt ended badly
    DEAD_LETTER = "dead_letter"  # an execution was given up
    LATENESS = "lateness"  # what is due has not begun
    RECOVERY = "recovery"  # what was told is over
    TEST = "test"  # somebody asked whether it works

    @property
    def in_words(self) -> str:
        return self.value.replace("_", " ")


# That a receiver may ask for.
EVENTS = (Kind.FAILURE, Kind.DEAD_LETTER, Kind.RECOVERY, Kind.LATENESS)
# Not each failure: most of them end well with their retry.
DEFAULT_EVENTS = (Kind.DEAD_LETTER, Kind.RECOVERY, Kind.LATENESS)
# Of a job's trouble, which a later success ends. Lateness ends by itself.
FAILING = (Kind.FAILURE, Kind.DEAD_LETTER)


class Template(StrEnum):
    STANDARD = "standard"  # our own JSON, signed
    SLACK = "slack"  # a message with text and blocks, as Slack and those like it take it
    PAGERDUTY = "pagerduty"  # an event of PagerDuty's Events API v2


DEFAULT_LATE_AFTER_SECONDS = 300
DEFAULT_MOST_PER_HOUR = 20
PAGERDUTY_URL = "https://events.pagerduty.com/v2/enqueue"
# The worker task that sends them, and the beginning of the keys of the jobs that run it.
TASK = "onbeat.notify"
OWNER = "notifications"
