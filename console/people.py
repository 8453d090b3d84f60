"""Who looks at a page, and what that person may do.

Owns the question "may they?" of the admin. Invariant: it is answered by the role (`access/roles.py`) alone, at every
request, and a page that asks nobody shows nothing.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponseBase

from access import audit
from access.roles import Role, role_of

THROUGH = "admin"
View = Callable[..., HttpResponseBase]
_KEPT = "_onbeat_role"
_UNKNOWN = object()


def role(request: HttpRequest) -> Role | None:
    """Read once per request: a page asks for each of its buttons."""
    kept = getattr(request, _KEPT, _UNKNOWN)
    if kept is _UNKNOWN:
        kept = role_of(request.user)
        setattr(request, _KEPT, kept)
    return kept  # type: ignore[return-value]


def may(request: HttpRequest, needed: Role) -> bool:
    found = role(request)
    return found is not None and found.includes(needed)


def needs(needed: Role) -> Callable[[View], View]:
    """For a view that people of this role may use, and those above."""

    def guard(view: View) -> View:
        @wraps(view)
        def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            if not may(request, needed):
                raise PermissionDenied
            return view(request, *args, **kwargs)

        guarded.needed = needed  # type: ignore[attr-defined]
        return guarded

    return guard


def name_of(request: HttpRequest) -> str:
    return request.user.get_username()


def signature(request: HttpRequest) -> dict[str, Any]:
    """By whom and through what, as the domain functions want to know it."""
    return {"by": name_of(request), "through": THROUGH}


def record(
    request: HttpRequest, action: str, subject: str, *, before: Any = None, after: Any = None, note: str = ""
) -> None:
    """Tell the audit trail what was done."""
    audit.record(
        who=name_of(request), through=THROUGH, action=action, subject=subject, before=before, after=after, note=note
    )


class ByRole:
    """For admin classes: seen by a role, and changed by nobody unless they say so."""

    seen_by = Role.VIEWER
    list_per_page = 50

    def has_module_permission(self, request: HttpRequest) -> bool:
        return may(request, self.seen_by)

    def has_view_permission(self, request: HttpRequest, _obj: Any = None) -> bool:
        return may(request, self.seen_by)

    def has_add_permission(self, _request: HttpRequest, _obj: Any = None) -> bool:
        return False

    def has_change_permission(self, _request: HttpRequest, _obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, _request: HttpRequest, _obj: Any = None) -> bool:
        return False
