"""What all views of the API share: parse, call one function, render.

Owns the frame of a request that changes something. Invariant: the change, its entry in the audit trail and the answer
that is kept for an Idempotency-Key are stored together or not at all.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from http import HTTPStatus
from typing import Any, ClassVar

from django.db import transaction
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from access import audit
from access.roles import Role
from api import idempotency
from api.callers import ByApiKey, BySession, Caller, RoleNeeded
from api.parsing import AlwaysJson, StrictJson
from api.problems import Problem

THROUGH = "rest"
Handler = Callable[..., Response]


class OpenView(APIView):
    """For whoever has the address."""

    authentication_classes: Sequence[Any] = []
    permission_classes: Sequence[Any] = []
    parser_classes = [StrictJson]
    content_negotiation_class = AlwaysJson
    http_method_names = ["get", "head", "post", "put", "patch", "delete"]

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        # Django takes such a body for an empty one, which would mean "nothing said".
        if request.headers.get("Transfer-Encoding") and not request.META.get("CONTENT_LENGTH"):
            raise Problem(HTTPStatus.LENGTH_REQUIRED, "Send the body whole, with Content-Length, and not chunked.")
        super().initial(request, *args, **kwargs)


class ApiView(OpenView):
    """For callers with a role."""

    authentication_classes = [ByApiKey, BySession]
    permission_classes = [RoleNeeded]
    needs: ClassVar[Mapping[str, Role]] = {"GET": Role.VIEWER}

    @property
    def caller(self) -> Caller:
        caller = self.request.auth
        assert isinstance(caller, Caller)
        return caller

    @property
    def signature(self) -> dict[str, Any]:
        """By whom and through what, as the domain functions want to know it."""
        return {"by": self.caller.name, "through": THROUGH}

    def record(self, action: str, subject: str, *, before: Any = None, after: Any = None, note: str = "") -> None:
        """Tell the audit trail what was done."""
        audit.record(
            who=self.caller.name,
            through=THROUGH,
            action=action,
            subject=subject,
            before=before,
            after=after,
            note=note,
        )


def changes(handler: Handler) -> Handler:
    """For a handler that changes something: all of it or nothing."""

    @wraps(handler)
    def handle(self: OpenView, request: Request, *args: Any, **kwargs: Any) -> Response:
        with transaction.atomic():
            return handler(self, request, *args, **kwargs)

    return handle


def creates(handler: Handler) -> Handler:
    """For a handler that makes something new: the same, once per Idempotency-Key."""

    @wraps(handler)
    def handle(self: ApiView, request: Request, *args: Any, **kwargs: Any) -> Response:
        with transaction.atomic():
            return idempotency.once(request, self.caller.owner, lambda: handler(self, request, *args, **kwargs))

    return handle
