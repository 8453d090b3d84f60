"""Who calls, what they may do, and how often.

Owns the two ways in: an API key, or the session of somebody who is logged in to the admin (with CSRF, since a browser
sends a session by itself). Invariant: whatever the way, a caller has one of the four roles or is refused, and is
limited by the same rule.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from django.conf import settings
from rest_framework.authentication import BaseAuthentication, SessionAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle
from rest_framework.views import APIView

from access import api_keys
from access.api_keys import Denied
from access.rate_limit import RateLimit
from access.roles import Role, role_of
from api.problems import Problem, not_there
from callbacks import completions
from executions.clock import database_now

_SCHEME = "Bearer"
_MINUTE = 60.0
_DENIED_PER_MINUTE = 60  # from one address; whoever guesses is told so from then on
_TOLD_PER_MINUTE = 120  # about one execution, by its receiver
_limit = RateLimit()


@dataclass(frozen=True)
class Caller:
    owner: str  # names it for limits and idempotency keys: whatever changes about it, this does not
    name: str  # as people know it
    role: Role | None


class _Nobody:
    """In the place of Django's user where an API key calls."""

    is_authenticated = True
    is_active = True
    is_anonymous = False


class ByApiKey(BaseAuthentication):
    def authenticate(self, request: Request) -> tuple[Any, Caller] | None:
        scheme, _, secret = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != _SCHEME.lower():
            return None
        now = database_now()
        found = api_keys.find(secret.strip(), now=now)
        if isinstance(found, Denied):
            address = BaseThrottle().get_ident(request)
            _take(f"denied:{address}", most=_DENIED_PER_MINUTE)
            raise AuthenticationFailed(found.value)
        caller = Caller(f"key:{found.prefix}", f"{found.name} ({found.prefix})", Role(found.role))
        _count(caller)
        api_keys.note_use(found, now=now)
        return _Nobody(), caller

    def authenticate_header(self, _request: Request) -> str:
        return f'{_SCHEME} realm="onbeat"'


class BySession(SessionAuthentication):
    def authenticate(self, request: Request) -> tuple[Any, Caller] | None:
        found = super().authenticate(request)
        if found is None:
            return None
        user = found[0]
        caller = Caller(f"user:{user.pk}", user.get_username(), role_of(user))
        _count(caller)
        return user, caller


class BySignature(BaseAuthentication):
    """Who has the signed address of a completion may tell how it goes, and is nobody else."""

    def authenticate(self, request: Request) -> tuple[Any, Caller]:
        named = request.parser_context["kwargs"]
        if not completions.is_signed(named["id"], named["attempt"], named["signature"]):
            # Not counted with wrong keys: a receiver whose addresses are outdated shall not lock out its neighbours.
            _take(f"unsigned:{BaseThrottle().get_ident(request)}", most=_DENIED_PER_MINUTE)
            raise not_there("There is nothing to tell here; use the whole Onbeat-Completion-Url of the request.")
        owner = f"completion:{named['id']}"
        _take(owner, most=_TOLD_PER_MINUTE)
        return _Nobody(), Caller(owner, "the receiver", None)


class RoleNeeded(BasePermission):
    """Each view says which role each of its methods needs."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        needs: Mapping[str, Role] = view.needs  # type: ignore[attr-defined]
        method = "GET" if request.method == "HEAD" else request.method or ""
        caller = request.auth
        if not isinstance(caller, Caller):
            return False  # nobody; this becomes a 401
        if caller.role is None:
            raise Problem(
                HTTPStatus.FORBIDDEN,
                f"{caller.name} has no role here; an admin can add this user to one of the groups "
                f"{', '.join(role.group for role in Role)}.",
            )
        if not hasattr(view, method.lower()):
            return True  # this becomes a 405, whoever asks
        needed = needs.get(method, Role.ADMIN)
        if not caller.role.includes(needed):
            raise Problem(
                HTTPStatus.FORBIDDEN,
                f"This needs the role {needed} and {caller.name} is {caller.role}; use a key or user with that role.",
            )
        return True


def _count(caller: Caller) -> None:
    """Whatever a caller may do: a request that is refused costs as well."""
    if settings.ONBEAT_API_REQUESTS_PER_MINUTE:
        _take(caller.owner, most=settings.ONBEAT_API_REQUESTS_PER_MINUTE)


def _take(name: str, *, most: int) -> None:
    taken = _limit.take(f"api:{name}", most=most, per_seconds=_MINUTE)
    if not taken.is_allowed:
        wait = max(1, math.ceil(taken.retry_after_seconds))
        raise Problem(
            HTTPStatus.TOO_MANY_REQUESTS,
            f"Too many requests: {most} a minute are taken. The next one is taken in {wait} s.",
            headers={"Retry-After": str(wait)},
        )
