"""The shapes of bodies and queries: which fields there are, and of what kind.

Owns strictness. A field that does not exist is refused with the nearest name, a value of another kind is refused and
never guessed at: "5" is no number. What a value may mean is said by the domain functions, not here.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from difflib import get_close_matches
from typing import Any, NoReturn
from uuid import UUID

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request

from api.problems import Place, bad_body
from jobs.refusals import shown as shown_in_python

MOST_ERRORS = 100  # of one object or list are told; who sends that many knows what is wrong
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(:\d\d(\.\d{1,9})?)?([Zz]|[+-]\d\d:\d\d)")
_FIRST_YEAR, _LAST_YEAR = 1970, 9998  # within which every moment has an instant in UTC
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_WHOLE = re.compile(r"-?[0-9]{1,10}", re.ASCII)


def _refuse(detail: str) -> NoReturn:
    raise ValidationError([detail])


def shown(value: object) -> str:
    """A value as a refusal names it: as JSON says it, and short."""
    words = {None: "null", True: "true", False: "false"}
    return words[value] if value is None or isinstance(value, bool) else shown_in_python(value)


# ── Kinds of values ──────────────────────────────────────────────────────────────────────────────────────────────


_SAID = {
    "required": "This is missing.",
    "null": "This must not be null; leave it out.",
    "blank": "This must not be empty; leave it out.",
    "max_length": "This must be up to {max_length} long.",
    "min_value": "This must be {min_value} or more.",
    "max_value": "This must be {max_value} or less.",
}


class _OurWords:
    default_error_messages: Any = _SAID


class Text(_OurWords, serializers.CharField):
    def __init__(self, **options: Any) -> None:
        super().__init__(**{"trim_whitespace": False, "allow_blank": True, **options})

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            _refuse(f"This must be text, not {shown(data)}.")
        return data


class Secret(Text):
    """Text that no refusal shows."""

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            _refuse("This must be text.")
        return data


class Whole(_OurWords, serializers.IntegerField):
    def to_internal_value(self, data: Any) -> int:
        if type(data) is not int:
            _refuse(f"This must be a whole number, not {shown(data)}.")
        return data


class Number(_OurWords, serializers.FloatField):
    def to_internal_value(self, data: Any) -> float:
        if isinstance(data, bool) or not isinstance(data, int | float):
            _refuse(f"This must be a number, not {shown(data)}.")
        return data  # as it was given: 1 stays 1


class Flag(_OurWords, serializers.BooleanField):
    def to_internal_value(self, data: Any) -> bool:
        if not isinstance(data, bool):
            _refuse(f"This must be true or false, not {shown(data)}.")
        return data


class Moment(_OurWords, serializers.DateTimeField):
    def to_internal_value(self, value: Any) -> datetime:
        if isinstance(value, str) and _MOMENT.fullmatch(value):
            try:
                moment = datetime.fromisoformat(value.upper())
            except ValueError:
                pass
            else:
                if _FIRST_YEAR <= moment.year <= _LAST_YEAR:
                    return moment
                _refuse(f"This must lie between the years {_FIRST_YEAR} and {_LAST_YEAR}, not {shown(value)}.")
        _refuse(f"This must be a date and time with an offset, such as 2026-11-01T07:30:00Z, not {shown(value)}.")


class Id(_OurWords, serializers.UUIDField):
    def to_internal_value(self, data: Any) -> UUID:
        if not isinstance(data, str) or not _UUID.fullmatch(data):
            _refuse(f"This must be the id of an execution, not {shown(data)}.")
        return UUID(data)


class OneOf(_OurWords, serializers.ChoiceField):
    """One of a few words, in capitals or not."""

    def to_internal_value(self, data: Any) -> str:
        if isinstance(data, str):
            for word in self.choices:
                if str(word).lower() == data.lower():
                    return str(word)
        _refuse(f"This must be one of {', '.join(map(str, self.choices))}, not {shown(data)}.")


class Plain(_OurWords, serializers.JSONField):
    """Any JSON."""

    def to_internal_value(self, data: Any) -> Any:
        return data


class ListOf(_OurWords, serializers.ListField):
    def to_internal_value(self, data: Any) -> list[Any]:
        if not isinstance(data, list):
            _refuse(f"This must be a list, not {shown(data)}.")
        if self.max_length is not None and len(data) > self.max_length:
            _refuse(f"This must hold up to {self.max_length}, not {len(data)}.")  # before each of them is looked at
        if not data and not self.allow_empty:
            _refuse("This must not be empty; leave it out.")
        read: list[Any] = []
        errors: dict[str, Any] = {}
        for place, value in enumerate(data):
            try:
                read.append(self.child.run_validation(value))
            except ValidationError as error:
                errors[str(place)] = error.detail
                if len(errors) == MOST_ERRORS:
                    break
        if errors:
            raise ValidationError(errors)
        return read


class Values(_OurWords, serializers.ListField):
    """A list of any JSON."""

    child = Plain()

    def to_internal_value(self, data: Any) -> list[Any]:
        if not isinstance(data, list):
            _refuse(f"This must be a list, not {shown(data)}.")
        return data


class Named(_OurWords, serializers.DictField):
    """An object of any JSON."""

    child = Plain()

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        if not isinstance(data, dict):
            _refuse(f"This must be an object, not {shown(data)}.")
        return data


# ── Bodies ───────────────────────────────────────────────────────────────────────────────────────────────────────


class Body(serializers.Serializer[Any]):
    """An object of named fields. Reads what was given, and nothing for what was left out."""

    part = "field"  # what one of them is called
    ignored: frozenset[str] = frozenset()  # what only answers have: whoever sends an answer back may leave it in

    def run_validation(self, data: Any = serializers.empty) -> Any:
        if data is None and self.allow_null:
            return None
        return self.to_internal_value({} if data is serializers.empty else data)

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        if not isinstance(data, Mapping):
            _refuse(f"This must be an object, not {shown(data)}.")
        fields = self.fields
        errors: dict[str, Any] = {}
        read: dict[str, Any] = {}
        for name, value in data.items():
            field = fields.get(name)
            if field is None:
                if name not in self.ignored:
                    errors[name] = [self._unknown(name)]
            else:
                try:
                    read[name] = field.run_validation(value)
                except ValidationError as error:
                    errors[name] = error.detail
            if len(errors) == MOST_ERRORS:
                break
        for name, field in fields.items():
            if field.required and name not in data:
                errors[name] = [f"{name} is missing."]
        if errors:
            raise ValidationError(errors)
        return read

    def _unknown(self, name: str) -> str:
        near = get_close_matches(name, self.fields, n=1)
        known = f"there are {', '.join(self.fields)}." if self.fields else "leave it out."
        return f"There is no {self.part} {shown(name)} here; " + (f"did you mean {near[0]!r}?" if near else known)

    @classmethod
    def read(cls, request: Request) -> dict[str, Any]:
        """What the body of a request says; without a body, nothing."""
        read: dict[str, Any] = cls().run_validation(request.data)
        return read


class NoBody(Body):
    """Nothing to say."""


# ── Queries ──────────────────────────────────────────────────────────────────────────────────────────────────────


class WholeInQuery(_OurWords, serializers.IntegerField):
    def to_internal_value(self, data: Any) -> int:
        if not _WHOLE.fullmatch(data):
            _refuse(f"This must be a whole number, not {shown(data)}.")
        return int(data)


@extend_schema_field(OpenApiTypes.STR)
class ManyInQuery(serializers.Field[list[str], str, str, Any]):
    """Words with commas between them, each one of a few."""

    def __init__(self, words: Any, **options: Any) -> None:
        self.words = [str(word) for word in words]
        super().__init__(**options)

    def to_internal_value(self, data: Any) -> list[str]:
        read = OneOf(choices=self.words)
        return [read.to_internal_value(word.strip()) for word in data.split(",")]


class Query(Body):
    part = "parameter"

    @classmethod
    def read(cls, request: Request) -> dict[str, Any]:
        given = {name: values[-1] for name, values in request.query_params.lists()}
        places = [
            Place(f"{name} holds what is no text; leave it out.", parameter=shown(name)[1:-1])
            for name, value in given.items()
            if not is_text(name) or not is_text(value)
        ]
        if places:
            raise bad_body(places)
        try:
            read: dict[str, Any] = cls().run_validation(given)
        except ValidationError as error:
            wrong: dict[str, Any] = dict(error.detail)  # type: ignore[arg-type]  # of a query each has its name
            raise bad_body([Place(str(said[0]), parameter=name) for name, said in wrong.items()]) from None
        return read


def is_text(value: str) -> bool:
    """Whether every database takes it."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return "\x00" not in value
