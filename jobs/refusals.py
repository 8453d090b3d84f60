"""What is refused, and why. Pure: no Django.

Invariant: whoever catches a refusal can show its text to a person as it is: it names the value and the remedy, and
`field` is the field to correct. Nothing was saved.
"""


def shown(value: object) -> str:
    """A value as a refusal names it: short, however long it is."""
    try:
        text = repr(value)
    except ValueError:
        return f"a value of type {type(value).__name__} that is too long to show"  # Python writes no such numbers
    return text if len(text) <= 90 else f"{text[:90]}…"


class Refused(ValueError):
    """Bad input. `field` is what to correct; the text says how."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(problem)
        self.field = field


class InvalidSchedule(Refused):
    """The schedule cannot be."""


class InvalidDefinition(Refused):
    """The job cannot be."""


class InvalidRun(Refused):
    """The asked-for run cannot be. `place` is which one it is, where many are asked for."""

    place: int | None = None


class TooLate(InvalidRun):
    """The execution is not in a state in which this can be done."""


class KeyTaken(InvalidDefinition):
    """An open job has this key."""

    def __init__(self, key: str) -> None:
        super().__init__("key", f"There is a job {key!r} already; choose another key.")


class JobIsOver(InvalidDefinition, InvalidRun):
    """It is COMPLETED or ARCHIVED: it takes neither changes nor runs."""

    def __init__(self, field: str, key: str, problem: str) -> None:
        super().__init__(field, f"The job {key!r} is {problem}; create it anew.")


def check_text(refusal: "type[Refused]", **values: object) -> None:
    for field, value in values.items():
        if not isinstance(value, str):
            raise refusal(field, f"{field} must be text, not {type(value).__name__}.")


class StaleVersion(Refused):
    """Somebody else changed the job since it was read; the edit was not made."""

    def __init__(self, *, key: str, read: int, current: int) -> None:
        super().__init__(
            "version",
            f"The job {key!r} was changed meanwhile: this edit began from version {shown(read)} and the job is at "
            f"version {current}; read it again, and repeat the edit if it is still wanted.",
        )
        self.current = current


class NoSuchJob(Refused):
    """No open job has this key."""

    def __init__(self, key: str, near: list[str], *, is_over: bool = False) -> None:
        if is_over:
            super().__init__("job", f"The job {key!r} is over; create it anew.")
            return
        remedy = f"did you mean {' or '.join(map(repr, near))}?" if near else "create it first, or look for its key."
        super().__init__("job", f"There is no job {key[:80]!r}; {remedy}")


class InvalidSecret(Refused):
    """The secret cannot be."""


class NoSuchSecret(InvalidSecret):
    """None has this name."""


class SecretInUse(InvalidSecret):
    """An open job names it."""
