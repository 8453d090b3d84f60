"""What is refused of receivers, and why. Pure: no Django."""

from jobs.refusals import Refused


class InvalidReceiver(Refused):
    """The receiver cannot be."""


class NoSuchReceiver(InvalidReceiver):
    """None has this name."""
