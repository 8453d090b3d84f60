"""How the folder broker stands, seen from outside: its queues, and since when their messages wait.

Invariant: only listed; no file is opened, moved or made.
"""

import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import unquote, urlsplit

from django.conf import settings


@dataclass(frozen=True)
class FolderQueue:
    name: str  # the broker's
    messages: int
    oldest_at: datetime | None


def root() -> Path:
    return Path(unquote(urlsplit(settings.CELERY_BROKER_URL).path))


def why_unusable() -> str:
    """What keeps processes of this user from using it; empty if nothing does. One that is not there yet is made."""
    place = root()
    while not place.exists() and place != place.parent:
        place = place.parent
    if not place.is_dir():
        return f"{place} is no folder"
    if not os.access(place, os.W_OK | os.X_OK):
        return f"{place} cannot be written to"
    return ""


def queues() -> list[FolderQueue]:
    places = sorted((root() / "queues").glob("*/ready"))
    return [_queue(unquote(place.parent.name), os.listdir(place)) for place in places if place.is_dir()]


def _queue(name: str, files: list[str]) -> FolderQueue:
    moments = [moment for file in files if (moment := _published_at(file)) is not None]
    return FolderQueue(name, len(files), min(moments, default=None))


def _published_at(file: str) -> datetime | None:
    """Names begin with the priority, then the time in nanoseconds."""
    parts = file.split("-")
    if len(parts) < 2 or not parts[1].isdecimal():
        return None
    return datetime.fromtimestamp(int(parts[1]) // 10**9, UTC)


def set_aside() -> int:
    """Files that were no messages."""
    place = root() / "undecodable"
    return len(os.listdir(place)) if place.is_dir() else 0
