"""The pages that belong to no model, each with its address."""

from collections.abc import Callable
from typing import Any, NamedTuple

from django.http import HttpResponseBase

from console import dead_letters, queues
from console.dashboard import page as dashboard
from console.jobs import checks


class Page(NamedTuple):
    address: str
    name: str
    view: Callable[..., HttpResponseBase]


def _pages(*pages: tuple[str, str, Any]) -> list[Page]:
    return [Page(*page) for page in pages]


PAGES = _pages(
    ("living/", "dashboard_living", dashboard.living),
    ("dead-letters/", "dead_letters", dead_letters.groups),
    ("dead-letters/replay/", "dead_letters_replay", dead_letters.replay),
    ("dead-letters/discard/", "dead_letters_discard", dead_letters.discard),
    ("dead-letters/messages/<slug:deed>/", "dead_messages", dead_letters.messages),
    ("queues/", "queues", queues.queues),
    ("schedule-check/", "schedule_check", checks.schedule),
)
