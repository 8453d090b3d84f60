"""What people and API keys may do. Pure: no Django.

Invariant: roles are in one line, each includes those before it; whoever has none may do nothing.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Any


class Role(StrEnum):
    """From the least to the most."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    EDITOR = "editor"
    ADMIN = "admin"

    def includes(self, other: "Role") -> bool:
        return _IN_ORDER.index(self) >= _IN_ORDER.index(other)

    @property
    def may(self) -> str:
        """What it adds to those before it, in words."""
        return _MAY[self]

    @property
    def group(self) -> str:
        """The group of Django users that have it."""
        return f"Onbeat {self.value}s"


_IN_ORDER = tuple(Role)
_MAY = {
    Role.VIEWER: "look",
    Role.OPERATOR: "run, pause, cancel and replay",
    Role.EDITOR: "change jobs",
    Role.ADMIN: "everything, also API keys, secrets and the audit trail",
}


def role_of(user: Any) -> Role | None:
    """The highest role of a Django user, signed in or not; None: no role at all."""
    if not user.is_active:
        return None
    if user.is_superuser:
        return Role.ADMIN
    return highest(user.groups.filter(name__in=[role.group for role in Role]).values_list("name", flat=True))


def highest(groups: Iterable[str]) -> Role | None:
    """Of those whose groups are named."""
    named = set(groups)
    return next((role for role in reversed(Role) if role.group in named), None)
