"""How the API is documented: OpenAPI, made from the views.

Owns what every operation may answer beside its success, and who may call it. Invariant, held by a test that runs the
whole schema against a live server: no answer is undocumented.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.response import Response

from api.problems import MEDIA_TYPE

Handler = Callable[..., Response]
_ALWAYS = (400, 401, 403, 429, 503)
_WITH_BODY = (411, 413, 415, 422)
IDEMPOTENCY_KEY = OpenApiParameter(
    "Idempotency-Key",
    OpenApiTypes.STR,
    OpenApiParameter.HEADER,
    pattern="^[!-~]{1,255}$",
    description="Done once per key: who sends it again within 24 hours gets the first answer again.",
)
IF_MATCH = OpenApiParameter(
    "If-Match",
    OpenApiTypes.STR,
    OpenApiParameter.HEADER,
    pattern=r'^(\*|(W/)?"[0-9]{1,9}")$',
    description="The ETag of the job as it was read; if it was changed meanwhile, nothing is done (412).",
)
_WHEN = {
    400: "The request cannot be read; `errors` names the places.",
    401: "Nobody said who asks, or the API key is not known, expired or revoked.",
    403: "The role of whoever asks does not allow this.",
    404: "There is no such thing.",
    409: "It cannot be done as things are now; the sentence says why.",
    411: "The body came without its length, in chunks.",
    412: "The job was changed since it was read.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    422: "The request can be read and cannot be; `errors` names the places.",
    429: "Too many requests; Retry-After says when the next one is taken.",
    503: "The database does not answer at this moment.",
}


class PlaceAnswer(serializers.Serializer[Any]):
    """One of pointer (into the body), parameter (of the query) and header, and what is wrong there."""

    pointer = serializers.CharField(required=False)
    parameter = serializers.CharField(required=False)
    header = serializers.CharField(required=False)
    detail = serializers.CharField()


class ProblemAnswer(serializers.Serializer[Any]):
    """RFC 9457."""

    type = serializers.CharField()
    title = serializers.CharField()
    status = serializers.IntegerField()
    detail = serializers.CharField(help_text="What is wrong, and what to do about it, for a person.")
    errors = PlaceAnswer(many=True, required=False)  # type: ignore[assignment]  # a field here, as RFC 9457 calls it


def documented(
    name: str,
    summary: str,
    *,
    tag: str,
    answers: Mapping[int, Any],
    body: Any = None,
    query: Any = None,
    also: Sequence[int] = (),
    parameters: Sequence[OpenApiParameter] = (),
    examples: Sequence[tuple[str, Any]] = (),
    description: str = "",
) -> Callable[[Handler], Handler]:
    """One operation: its name and purpose, what it takes and everything that it may answer."""
    statuses = sorted({*_ALWAYS, *also, *(_WITH_BODY if body is not None else ())})
    responses: dict[Any, Any] = dict(answers)
    for status in statuses:
        responses[status, MEDIA_TYPE] = OpenApiResponse(ProblemAnswer, description=_WHEN[status])
    decorated: Callable[[Handler], Handler] = extend_schema(
        operation_id=name,
        summary=summary,
        description=description or summary,
        tags=[tag],
        request=body,
        responses=responses,
        parameters=[*([query] if query is not None else []), *parameters],
        examples=[OpenApiExample(title, value=value, request_only=True) for title, value in examples],
    )
    return decorated


def creating(
    name: str, summary: str, *, also: Sequence[int] = (), parameters: Sequence[OpenApiParameter] = (), **more: Any
) -> Callable[[Handler], Handler]:
    """The same for what makes something new, and is done once per Idempotency-Key."""
    return documented(name, summary, also=(*also, 409, 422), parameters=(IDEMPOTENCY_KEY, *parameters), **more)


def in_path(name: str, description: str, *, example: Any, kind: OpenApiTypes = OpenApiTypes.STR) -> OpenApiParameter:
    """A part of an address, with one that is there once the other examples were sent."""
    shown = [OpenApiExample(str(example), value=example)]
    return OpenApiParameter(name, kind, OpenApiParameter.PATH, description=description, examples=shown)


class _ByApiKeyScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = "api.callers.ByApiKey"
    name = "apiKey"

    def get_security_definition(self, _auto_schema: Any) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer", "description": "An API key: `Authorization: Bearer onbeat_…`."}


class _BySessionScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = "api.callers.BySession"
    name = "session"

    def get_security_definition(self, _auto_schema: Any) -> dict[str, str]:
        return {
            "type": "apiKey",
            "in": "cookie",
            "name": "sessionid",
            "description": "The session of the admin; changes need the CSRF token in X-CSRFToken.",
        }


class _BySignatureScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """The address is all there is to know."""

    target_class = "api.callers.BySignature"
    name: Any = ()

    def get_security_requirement(self, _auto_schema: Any) -> Any:
        return None

    def get_security_definition(self, _auto_schema: Any) -> Any:
        return ()


def close_bodies(result: dict[str, Any], **_more: Any) -> dict[str, Any]:
    """Say that a body takes no other fields than those named."""
    for name, component in result["components"]["schemas"].items():
        if name.endswith("Body") and component.get("type") == "object":
            component["additionalProperties"] = False
    return result
