"""Pages of a list: by a cursor, so that the last page costs as much as the first.

Owns the form of cursors and of the answer. A cursor says after which item the page begins; whoever changes one by hand
gets another place in the list or a 400, and nothing more.
"""

import base64
import binascii
import json
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

from django.db.models import Model, QuerySet
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from api.problems import bad_parameter
from api.shapes import Query, WholeInQuery, is_text
from executions.identity import is_ours

Row = TypeVar("Row", bound=Model)

DEFAULT_LIMIT = 50
MOST_ITEMS = 200


class PageQuery(Query):
    limit = WholeInQuery(
        min_value=1, max_value=MOST_ITEMS, required=False, default=DEFAULT_LIMIT, help_text="How many items at most."
    )
    cursor = serializers.CharField(required=False, help_text="From the `next` of the page before.")


def limit_of(query: dict[str, Any]) -> int:
    limit: int = query.get("limit", DEFAULT_LIMIT)
    return limit


def written(*values: Any) -> str:
    """A cursor of these values."""
    plain = [value.isoformat() if isinstance(value, datetime) else value for value in values]
    text = json.dumps([str(value) if isinstance(value, uuid.UUID) else value for value in plain], ensure_ascii=False)
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def read(cursor: str, kinds: Sequence[type]) -> list[Any]:
    """The values of a cursor, each of the kind that it was written from."""
    try:
        text = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode()
        values = json.loads(text)
        if not isinstance(values, list) or len(values) != len(kinds):
            raise ValueError("not of this list")
        return [_read(value, kind) for value, kind in zip(values, kinds, strict=True)]
    except (ValueError, TypeError, OverflowError, RecursionError, binascii.Error):
        raise bad_parameter("cursor", "This cursor is not one of this list; begin without one.") from None


def _read(value: Any, kind: type) -> Any:
    if kind is int:
        if type(value) is not int or abs(value) >= 2**63:
            raise ValueError("no id")
        return value
    if kind is str:
        if not isinstance(value, str) or not is_text(value):
            raise ValueError("no text")
        return value
    if kind is uuid.UUID:
        found = uuid.UUID(value)
        if not is_ours(found):
            raise ValueError("no id of ours")
        return found
    moment = datetime.fromisoformat(value)
    if moment.tzinfo is None:
        raise ValueError("without a zone")
    return moment.astimezone(UTC)


def newest_first(rows: "QuerySet[Row, Row]", query: dict[str, Any], *, by: str = "pk") -> tuple[list[Row], str | None]:
    """The rows of a page by a number that grows with each of them, and the cursor of the next page."""
    rows, limit = rows.order_by(f"-{by}"), limit_of(query)
    if "cursor" in query:
        rows = rows.filter(**{f"{by}__lt": read(query["cursor"], [int])[0]})
    found = list(rows[: limit + 1])
    cursor = written(getattr(found[limit - 1], by)) if len(found) > limit else None
    return found[:limit], cursor


def answer(request: Request, items: Sequence[Any], cursor: str | None) -> Response:
    """A page, and where the next one is."""
    following = None
    if cursor is not None:
        query = request.query_params.copy()
        query["cursor"] = cursor
        following = f"{request.path}?{query.urlencode()}"
    return Response({"items": items, "next": following})
