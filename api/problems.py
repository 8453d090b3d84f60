"""What is answered when something cannot be done: problem+json (RFC 9457).

Owns the form of every answer that is no success. Invariant: bad input never becomes a 500; each problem has a sentence
that a person can act on, and names the places to correct; none shows a stack trace.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, NoReturn

from django.core.exceptions import PermissionDenied, RequestDataTooBig
from django.db import DataError, InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponseBase, JsonResponse
from django.views import defaults
from rest_framework import exceptions
from rest_framework.response import Response

from api.names import in_words_of_a_body, pointer_of
from executions import events
from executions.storable import in_a_line
from jobs.refusals import (
    InvalidRun,
    JobIsOver,
    KeyTaken,
    NoSuchJob,
    NoSuchSecret,
    Refused,
    SecretInUse,
    StaleVersion,
    TooLate,
    shown,
)
from notifications.refusals import NoSuchReceiver

MEDIA_TYPE = "application/problem+json"
API_ROOT = "/api/"
RETRY_SECONDS = 5  # after which somebody who found the database away may come again


@dataclass(frozen=True)
class Place:
    """What to correct: a pointer into the body, a query parameter or a header."""

    detail: str
    pointer: str | None = None
    parameter: str | None = None
    header: str | None = None

    def __str__(self) -> str:
        where = self.pointer or self.parameter or self.header
        return f"{where}: {self.detail}" if where else self.detail

    def as_json(self) -> dict[str, str]:
        named = {"pointer": self.pointer, "parameter": self.parameter, "header": self.header}
        return {name: value for name, value in named.items() if value is not None} | {"detail": self.detail}


class Problem(Exception):
    """One to be answered as it is."""

    def __init__(
        self,
        status: HTTPStatus,
        detail: str,
        *,
        places: Sequence[Place] = (),
        headers: Mapping[str, str] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.places = places
        self.headers = dict(headers or {})
        self.more = more

    def as_json(self) -> dict[str, Any]:
        body: dict[str, Any] = {
            "type": "about:blank",
            "title": self.status.phrase,
            "status": int(self.status),
            "detail": self.detail,
        }
        if self.places:
            body["errors"] = [place.as_json() for place in self.places]
        return body | self.more


def bad_body(places: Sequence[Place]) -> Problem:
    detail = str(places[0]) if len(places) == 1 else f"{len(places)} things in the request have to be corrected."
    return Problem(HTTPStatus.BAD_REQUEST, detail, places=places)


def bad_parameter(name: str, detail: str) -> Problem:
    return bad_body([Place(detail, parameter=name)])


def bad_header(name: str, detail: str) -> Problem:
    return bad_body([Place(detail, header=name)])


def not_there(what: str) -> Problem:
    return Problem(HTTPStatus.NOT_FOUND, what)


def answer(error: Exception, context: Mapping[str, Any]) -> Response | None:
    """DRF's exception handler. None: nobody foresaw this, and it is logged with its trace as a 500."""
    problem = problem_of(error, allowed=getattr(context.get("view"), "allowed_methods", ()))
    if problem is None:
        return None
    return Response(problem.as_json(), status=problem.status, headers=problem.headers, content_type=MEDIA_TYPE)


def problem_of(error: Exception, *, allowed: Sequence[str] = ()) -> Problem | None:
    match error:
        case Problem():
            return error
        case Refused():
            return _of_refusal(error)
        case RequestDataTooBig():
            return Problem(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "The body is too large; send it in parts, or pass references."
            )
        case Http404():
            return not_there("There is nothing at this address; /api/docs lists what there is.")
        case PermissionDenied():
            return Problem(HTTPStatus.FORBIDDEN, str(error) or "This is not allowed.")
        case exceptions.APIException():
            return _of_framework(error, allowed)
        case DataError():
            # A value that the database does not take and that nobody foresaw: the sender's to correct all the same.
            events.warn("a request held a value that the database does not take", error=in_a_line(error))
            return Problem(HTTPStatus.BAD_REQUEST, "A value of the request cannot be stored; look for a huge one.")
        case OperationalError() | InterfaceError():
            return Problem(
                HTTPStatus.SERVICE_UNAVAILABLE,
                "The database does not answer at this moment; nothing was changed that you have not been told of. "
                "Try again in a few seconds, with the same Idempotency-Key.",
                headers={"Retry-After": str(RETRY_SECONDS)},
            )
    return None


def _of_refusal(error: Refused) -> Problem:
    match error:
        case StaleVersion():
            return Problem(HTTPStatus.PRECONDITION_FAILED, str(error), current_version=error.current)
        case NoSuchJob() | NoSuchSecret() | NoSuchReceiver():
            return not_there(str(error))
        case KeyTaken() | JobIsOver() | SecretInUse() | TooLate():
            return Problem(HTTPStatus.CONFLICT, str(error))
    if isinstance(error, InvalidRun) and error.field == "job":
        return Problem(HTTPStatus.UNPROCESSABLE_ENTITY, str(error))  # the address names it, and not the body
    place = place_of(error)
    return Problem(HTTPStatus.UNPROCESSABLE_ENTITY, place.detail, places=[place])


def place_of(error: Refused, *, below: str = "") -> Place:
    """Where in a body, or below a place in it, what was refused stands."""
    pointer = f"/{error.field}" if isinstance(error, InvalidRun) else pointer_of(error.field)
    return Place(in_words_of_a_body(str(error)), pointer=below + pointer)


def _of_framework(error: exceptions.APIException, allowed: Sequence[str]) -> Problem:
    headers: dict[str, str] = {}
    status, detail = HTTPStatus(error.status_code), str(error.detail)
    if header := getattr(error, "auth_header", None):
        headers["WWW-Authenticate"] = header
    match error:
        case exceptions.ValidationError():
            return bad_body(list(_places(error.detail)))
        case exceptions.NotAuthenticated():
            detail = "Say who you are: send an API key as `Authorization: Bearer …`, or log in to the admin."
        case exceptions.MethodNotAllowed():
            headers["Allow"] = ", ".join(allowed)
            detail = f"This address takes {', '.join(allowed)}."
        case exceptions.UnsupportedMediaType():
            detail = "Send the body as JSON, with `Content-Type: application/json`."
    return Problem(status, detail, headers=headers)


def _places(detail: Any, path: str = "") -> Iterator[Place]:
    if isinstance(detail, Mapping):
        for name, inner in detail.items():
            yield from _places(inner, f"{path}/{_escaped(str(name))}")
    elif isinstance(detail, list):
        for inner in detail:
            yield from _places(inner, path)
    else:
        yield Place(str(detail), pointer=path)


def _escaped(segment: str) -> str:
    """As a JSON pointer says it; short, and without what is no text."""
    return shown(segment)[1:-1].replace("~", "~0").replace("/", "~1")


def refuse(field: str, detail: str) -> NoReturn:
    """For what can be read and cannot be."""
    raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, detail, places=[Place(detail, pointer=f"/{field}")])


# ── Django's own answers, for addresses below the API ────────────────────────────────────────────────────────────


def plain(problem: Problem) -> JsonResponse:
    return JsonResponse(problem.as_json(), status=problem.status, headers=problem.headers, content_type=MEDIA_TYPE)


def on_bad_request(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    if not request.path.startswith(API_ROOT):
        return defaults.bad_request(request, exception)
    return plain(
        Problem(
            HTTPStatus.BAD_REQUEST, "The request cannot be read; is its host one of ALLOWED_HOSTS, and is it whole?"
        )
    )


def on_not_found(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    if not request.path.startswith(API_ROOT):
        return defaults.page_not_found(request, exception)
    return plain(not_there("There is nothing at this address; /api/docs lists what there is."))


def on_error(request: HttpRequest) -> HttpResponseBase:
    if not request.path.startswith(API_ROOT):
        return defaults.server_error(request)
    return plain(
        Problem(
            HTTPStatus.INTERNAL_SERVER_ERROR,
            "Something went wrong that nobody foresaw, and nothing was changed; it is in the log of the web process.",
        )
    )
