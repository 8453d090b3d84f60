"""Fields of the admin's forms: moments in the viewer's zone, JSON, lists of words."""

import json
from datetime import UTC, datetime
from typing import Any

from django import forms
from django.core.serializers.json import DjangoJSONEncoder

from jobs import dst
from jobs.refusals import Refused


class MomentInput(forms.DateTimeInput):
    input_type = "datetime-local"
    supports_microseconds = True  # or Django takes them from the moment before a form can compare it

    def __init__(self) -> None:
        super().__init__(attrs={"step": 1})

    def get_context(self, name: str, value: Any, attrs: Any) -> dict[str, Any]:
        """A moment is written in UTC, and turned into the viewer's zone by the page's script."""
        context = super().get_context(name, value, attrs)
        if isinstance(value, datetime):
            value = value.astimezone(UTC)
            context["widget"]["value"] = f"{value:%Y-%m-%dT%H:%M:%S}"
            context["widget"]["attrs"]["data-instant"] = value.isoformat()
        return context

    def format_value(self, value: Any) -> str | None:
        return None if value is None or isinstance(value, datetime) else str(value)


class MomentField(forms.CharField):
    """A wall-clock time to the second; the form says of which zone (`ZonedForm`).

    One that was not touched stays the moment it was, which the wall clock alone may not tell: its parts of a second, or
    which of two hours that look the same.
    """

    widget = MomentInput

    def prepare_value(self, value: Any) -> Any:
        return value

    def in_zone(self, text: str, zone: str, *, was: datetime | None = None) -> datetime | None:
        if not text:
            return None
        try:
            wall = datetime.fromisoformat(text)
            if wall.tzinfo is not None:
                return wall.astimezone(UTC)
        except (ValueError, OverflowError):
            raise forms.ValidationError(
                f"{text[:40]!r} is no date and time; write it as 2026-11-17T08:30:00."
            ) from None
        try:
            place = dst.zone_named(zone)
            if was is not None and was.astimezone(place).replace(tzinfo=None, microsecond=0, fold=0) == wall:
                return was
            instants = dst.instants_of(place, wall)
        except (Refused, OverflowError) as refused:
            raise forms.ValidationError(str(refused)) from None
        if not instants:
            raise forms.ValidationError(f"The clocks of {zone} skip {wall}; choose a moment an hour later.")
        return instants[0]


class ZonedForm(forms.Form):
    """Its moments are of the zone in which the page shows times."""

    def clean(self) -> dict[str, Any]:
        said = super().clean() or self.cleaned_data
        zone = str(self.data.get("viewer_zone") or "UTC")
        for name, field in self.fields.items():
            if isinstance(field, MomentField) and name in said:
                was = self.get_initial_for_field(field, name)
                try:
                    said[name] = field.in_zone(said[name], zone, was=was if isinstance(was, datetime) else None)
                except forms.ValidationError as wrong:
                    self.add_error(name, wrong)
        return said


class JsonField(forms.CharField):
    """JSON of one kind, as text that a person can edit."""

    def __init__(self, kind: type, **options: Any) -> None:
        self.kind = kind
        options.setdefault("widget", forms.Textarea(attrs={"rows": 4, "spellcheck": "false"}))
        super().__init__(**{"required": False, "strip": True, **options})

    def prepare_value(self, value: Any) -> Any:
        if value is None or isinstance(value, str):
            return value
        return json.dumps(value, indent=2, ensure_ascii=False, cls=DjangoJSONEncoder)

    def to_python(self, value: Any) -> Any:
        text = super().to_python(value)
        if not text:
            return self.kind()
        try:
            found = json.loads(text, parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as wrong:
            raise forms.ValidationError(f"This is no JSON: {wrong}.") from None
        if not isinstance(found, self.kind):
            example = '{"name": "value"}' if self.kind is dict else '["value", 7]'
            raise forms.ValidationError(f"This must be {'an object' if self.kind is dict else 'a list'}: {example}.")
        return found


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


class WordsField(forms.CharField):
    """Words with commas between them."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"required": False, **options})

    def prepare_value(self, value: Any) -> Any:
        return value if value is None or isinstance(value, str) else ", ".join(map(str, value))

    def to_python(self, value: Any) -> Any:
        return [word.strip() for word in (super().to_python(value) or "").split(",") if word.strip()]
