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


_AS_JSON = json.JSONEncoder(allow_nan=False, ensure_ascii=False)  # json.dumps would make one for each value


def check(args: Sequence[Any], kwargs: Mapping[str, Any], refusal: type[Refused]) -> None:
    check_size(args_as_json(args, refusal), kwargs_as_json(kwargs, refusal), refusal)


def args_as_json(args: Sequence[Any], refusal: type[Refused]) -> str:
    if not isinstance(args, list | tuple):
        raise refusal("args", f"args must be a list, not {type(args).__name__}.")
    return _as_json("args", list(args), refusal)


def kwargs_as_json(kwargs: Mapping[str, Any], refusal: type[Refused]) -> str:
    if not isinstance(kwargs, Mapping):
        raise refusal("kwargs", f"kwargs must be a mapping, not {type(kwargs).__name__}.")
    return _as_json("kwargs", dict(kwargs), refusal)


def check_size(args: str, kwargs: str, refusal: type[Refused]) -> None:
    """Of both together, each as its JSON."""
    size = len(args.encode()) + len(kwargs.encode())
    if size > settings.ONBEAT_JOBS_PAYLOAD_BYTES:
        raise refusal(
            "kwargs",
            f"The arguments take {size} bytes and the limit is {settings.ONBEAT_JOBS_PAYLOAD_BYTES}; "
            "store large data elsewhere and pass a reference.",
        )


def _as_json(field: str, value: object, refusal: type[Refused]) -> str:
    try:
        text = _AS_JSON.encode(value)
        encoded = text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        # UnicodeEncodeError is a ValueError: half a surrogate pair is no text.
        raise refusal(field, f"The {field} must be plain JSON: {error}.") from None
    if rb"\u0000" in encoded and holds_nul(encoded):  # looking closer takes long
        raise refusal(field, f"The {field} must not hold a NUL character.")
    for level in levels(value):
        for part in level:
            if isinstance(part, dict):
                _check_names(field, part, refusal)
    if is_too_deep(value):
        raise refusal(field, f"The {field} are nested too deep; keep them flatter.")
    return text


def _check_names(field: str, part: dict[Any, Any], refusal: type[Refused]) -> None:
    if part.keys() == _MARKED:
        raise refusal(field, f"The {field} must not hold an object of just __type__ and __value__.")
    for name in part:
        if not isinstance(name, str):
            raise refusal(field, f"The names in the {field} must be text.")
