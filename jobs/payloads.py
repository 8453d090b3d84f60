"""What may be passed to a task: plain JSON within a size.

Invariant: what was accepted arrives as the value that was given, through every database and message. (A float beyond
all decimals, such as 1e22, may arrive as the whole number that it is.)
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from django.conf import settings

from executions.storable import holds_nul, is_too_deep, levels
from jobs.refusals import Refused

# Messages say dates and the like in this form, so a plain object of this form would arrive as something else.
_MARKED = {"__type__", "__value__"}


def check(args: Sequence[Any], kwargs: Mapping[str, Any], refusal: type[Refused]) -> None:
    for field, value, kind, name in (("args", args, list | tuple, "a list"), ("kwargs", kwargs, Mapping, "a mapping")):
        if not isinstance(value, kind):
            raise refusal(field, f"{field} must be {name}, not {type(value).__name__}.")
    size = _json_bytes("args", list(args), refusal) + _json_bytes("kwargs", dict(kwargs), refusal)
    if size > settings.ONBEAT_JOBS_PAYLOAD_BYTES:
        raise refusal(
            "kwargs",
            f"The arguments take {size} bytes and the limit is {settings.ONBEAT_JOBS_PAYLOAD_BYTES}; "
            "store large data elsewhere and pass a reference.",
        )


def _json_bytes(field: str, value: object, refusal: type[Refused]) -> int:
    try:
        encoded = json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        # UnicodeEncodeError is a ValueError: half a surrogate pair is no text.
        raise refusal(field, f"The {field} must be plain JSON: {error}.") from None
    if holds_nul(encoded):
        raise refusal(field, f"The {field} must not hold a NUL character.")
    objects = [part for level in levels(value) for part in level if isinstance(part, dict)]
    if any(part.keys() == _MARKED for part in objects):
        raise refusal(field, f"The {field} must not hold an object of just __type__ and __value__.")
    if not all(isinstance(name, str) for part in objects for name in part):
        raise refusal(field, f"The names in the {field} must be text.")
    if is_too_deep(value):
        raise refusal(field, f"The {field} are nested too deep; keep them flatter.")
    return len(encoded)
