"""How a callback fails. Pure: no Django.

Their names are what a retry policy may name, and their texts are for people: one sentence, without a secret in it.
"""

from executions.storable import PlainError


class CallbackFailed(PlainError):
    """A callback that did not end well."""


class Unanswered(CallbackFailed):
    """No answer came, or none that could be read: the name, the connection or the answer failed, or took too long."""


class AnsweredLater(CallbackFailed):
    """The receiver answered that it cannot now (408, 425, 429, 5xx): tried again by policy."""


class GaveUp(CallbackFailed):
    """No further attempt would end otherwise."""


class Forbidden(GaveUp):
    """The address may not be called from here."""


class AnsweredNo(GaveUp):
    """The receiver answered, and not as expected."""
