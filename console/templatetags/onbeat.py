"""What the templates of the admin share. Invariant: whatever people wrote is escaped here, before it is marked safe."""

import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfoNotFoundError

from django import template
from django.core.serializers.json import DjangoJSONEncoder
from django.urls import reverse
from django.utils.html import escape, format_html
from django.utils.safestring import SafeString, mark_safe

from executions import words
from executions.recent import Recent

register = template.Library()
_TOKEN = re.compile(r'("(?:[^"\\]|\\.)*")(\s*:)?|\b(true|false|null)\b|(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)')
_WRITTEN_MOMENT = re.compile(r"\b(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) UTC\b", re.ASCII)
_PLACE = "00000000-0000-0000-0000-000000000000"
_STYLES = ("full", "short", "clock", "day")


@register.simple_tag
def moment(at: datetime | None, zone: str = "", style: str = "full") -> str:
    """In UTC, which the page's script turns into the viewer's zone; UTC and the job's zone on hover."""
    if at is None:
        return "–"
    at = at.astimezone(UTC)
    assert style in _STYLES
    return format_html(
        '<time class="ob-time ob-nowrap" datetime="{}" data-style="{}" data-hover="{}" title="{}">{} UTC</time>',
        at.isoformat(),
        style,
        hover := _hover(at, zone),
        hover,
        f"{at:%Y-%m-%d %H:%M:%S}",
    )


def _hover(at: datetime, zone: str) -> str:
    lines = [words.clock(at)]
    if zone and zone != "UTC":
        try:
            lines.append(f"{words.clock(at, zone)} (the job's)")
        except (ZoneInfoNotFoundError, ValueError, OSError):
            lines.append(f"{zone} cannot be read")
    return "\n".join(lines)


@register.filter
def with_moments(sentence: str, zone: str = "") -> SafeString:
    """A sentence that API and commands say as well, its moments in UTC turned into those of the page."""
    parts = _WRITTEN_MOMENT.split(sentence)  # what is between moments, and every second one a moment
    shown = [_shown(part, zone) if place % 2 else escape(part) for place, part in enumerate(parts)]
    return mark_safe("".join(shown))


def _shown(written: str, zone: str) -> str:
    try:
        return moment(datetime.fromisoformat(written).replace(tzinfo=UTC), zone)
    except ValueError:  # somebody wrote what is no day or hour
        return f"{written} UTC"


@register.simple_tag
def countdown(at: datetime | None, now: datetime) -> str:
    if at is None:
        return ""
    return format_html('<span data-until="{}">{}</span>', at.astimezone(UTC).isoformat(), words.away(at, now=now))


@register.filter
def wall(local: datetime) -> str:
    """What the clocks of its own zone show. Django's `date` would turn it into UTC, and name the weekday of that."""
    return f"{local:%a %Y-%m-%d %H:%M:%S}"


@register.filter
def pill(state: str) -> SafeString:
    return format_html('<span class="ob-pill ob-{}">{}</span>', words.tone(state), state.replace("_", " "))


@register.filter
def tone(state: str) -> str:
    return words.tone(state)


@register.filter
def duration(seconds: float | None) -> str:
    return words.duration(seconds)


@register.simple_tag
def strip(runs: Sequence[Recent], length: int) -> str:
    """The last runs of a job, the oldest first. As text and not by a template: a list holds more than a thousand."""
    address = reverse("admin:onbeat_executions_execution_change", args=[_PLACE])
    empty = "<i></i>" * (length - len(runs))
    cells = "".join(
        f'<a href="{address.replace(_PLACE, str(run.id))}" class="{escape(run.state)}" tabindex="-1" '
        f'data-at="{run.fire_time:%Y-%m-%dT%H:%M:%SZ}" data-tip="{escape(_told(run))}"></a>'
        for run in reversed(runs)
    )
    label = f"The last {len(runs)} runs" if len(runs) != 1 else "The last run"
    return mark_safe(f'<span class="ob-strip" role="group" aria-label="{label}">{empty}{cells}</span>')


def _told(run: Recent) -> str:
    ran = f", {words.duration(run.seconds)}" if run.seconds is not None else ""
    return f"{run.state}{ran}" + (f"\n{run.reason}" if run.reason else "")


@register.filter
def as_json(value: Any) -> SafeString:
    """Indented and coloured."""
    text = json.dumps(value, indent=2, ensure_ascii=False, cls=DjangoJSONEncoder)
    parts: list[str] = []
    last = 0
    for found in _TOKEN.finditer(text):
        parts.append(escape(text[last : found.start()]))
        string, colon, word, number = found.groups()
        if string:
            kind = "k" if colon else "s"
            parts.append(f'<span class="{kind}">{escape(string)}</span>{escape(colon or "")}')
        else:
            parts.append(f'<span class="{"c" if word else "n"}">{escape(word or number)}</span>')
        last = found.end()
    parts.append(escape(text[last:]))
    return mark_safe("".join(parts))


@register.filter
def in_thousands(number: int) -> str:
    return f"{number:,}"


@register.filter
def percent(value: float) -> str:
    """Never rounded up to a hundred that it is not."""
    return "100 %" if value == 100 else f"{min(value, 99.99):.2f} %" if value >= 99 else f"{value:.1f} %"


@register.filter
def in_json(value: Any) -> str:
    """In a line, for a difference."""
    return json.dumps(value, ensure_ascii=False, cls=DjangoJSONEncoder)
