"""The execution that an address or a person names: by its id, or by a beginning of it that no other has."""

import re
from uuid import UUID

from api.problems import not_there
from executions.identity import fire_time_of, ids_beginning
from executions.models import Attempt, Execution

_FEWEST_DIGITS = 8  # the fire time to about a minute: fewer would be those of many
_BEGINNING = re.compile(r"[0-9a-f-]+", re.ASCII)


def found(execution_id: UUID) -> Execution:
    row = Execution.objects.with_id(execution_id).select_related("job").first()
    if row is None:
        raise not_there(f"There is no execution {execution_id}; old ones are removed after their days.")
    return row


def id_of(text: str) -> UUID:
    """The id that a person typed, whole or shortened. A whole one need not exist."""
    said = text.strip().lower()
    digits = said.replace("-", "")
    if not _BEGINNING.fullmatch(said) or not _FEWEST_DIGITS <= len(digits) <= 32:
        raise not_there(
            f"{text[:80]!r} is no id of an execution; `./onbeat executions list` shows them. Its first "
            f"{_FEWEST_DIGITS} digits or more are enough, if no other begins so."
        )
    if len(digits) == 32:
        return UUID(digits)
    first, last = ids_beginning(digits)
    near = list(Execution.objects.between_ids(first, last).order_by("pk").values_list("pk", flat=True)[:2])
    if not near:
        raise not_there(f"No execution has an id that begins with {said}; old ones are removed after their days.")
    if len(near) > 1:
        raise not_there(f"Several executions have an id that begins with {said}, as {near[0]}; say more of it.")
    return near[0]


def attempts_of(execution: Execution) -> list[Attempt]:
    """Those that have ended, in their order."""
    return list(Attempt.objects.filter(execution=execution.pk, fire_time=fire_time_of(execution.pk)).order_by("number"))


def subject_of(execution: Execution) -> str:
    return f"execution:{execution.pk}"
