"""The Idempotency-Key: what was asked for twice is done once.

Owns kept answers. Invariant: an answer is kept in the transaction of the work itself, so that there are both or
neither; who comes with the same key later gets the kept answer, word for word. Refusals are not kept: they changed
nothing, and the corrected request may use the same key.
"""

import hashlib
import json
import re
from collections.abc import Callable
from datetime import timedelta
from http import HTTPStatus

from django.db import connection
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.encoders import JSONEncoder

from access.idempotent_answers import IDEMPOTENT_HOURS
from access.models import IdempotentAnswer
from api.problems import Problem, bad_header
from executions.clock import database_now

HEADER = "Idempotency-Key"
REPLAYED = "Idempotency-Replayed"
_KEY = re.compile(r"[!-~]{1,255}")
_KEPT_HEADERS = ("ETag", "Location")


def once(request: Request, owner: str, do: Callable[[], Response]) -> Response:
    """Do it, or give the answer of whoever did it under this key. In a transaction."""
    key = request.headers.get(HEADER)
    if key is None:
        return do()
    if not _KEY.fullmatch(key):
        raise bad_header(HEADER, f"{HEADER} must be 1 to 255 visible ASCII characters, such as a UUID.")
    _hold(owner, key)
    now = database_now()
    fingerprint = _fingerprint(request)
    kept = IdempotentAnswer.objects.filter(owner=owner, key=key).first()
    if kept is not None and kept.created_at > now - timedelta(hours=IDEMPOTENT_HOURS):
        return _again(kept, fingerprint)
    response = do()
    facts = {
        "fingerprint": fingerprint,
        "status": response.status_code,
        "body": json.dumps(response.data, cls=JSONEncoder),
        "headers": {name: response[name] for name in _KEPT_HEADERS if name in response},
        "created_at": now,
    }
    IdempotentAnswer.objects.update_or_create(owner=owner, key=key, defaults=facts)
    return response


def _again(kept: IdempotentAnswer, fingerprint: str) -> Response:
    if kept.fingerprint != fingerprint:
        raise Problem(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            f"This {HEADER} was used for another request; use a new key for a new request.",
        )
    headers = {**kept.headers, REPLAYED: "true"}
    return Response(json.loads(kept.body), status=kept.status, headers=headers)


def _hold(owner: str, key: str) -> None:
    """Until the transaction ends nobody else works under this key. SQLite has one writer at a time anyhow."""
    if connection.vendor != "postgresql":
        return
    number = int.from_bytes(hashlib.sha256(f"{owner}\n{key}".encode()).digest()[:8], signed=True)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [number])
        if not cursor.fetchone()[0]:
            raise Problem(
                HTTPStatus.CONFLICT,
                f"A request with this {HEADER} is being worked on at this moment; ask again for its answer.",
                headers={"Retry-After": "1"},
            )


def _fingerprint(request: Request) -> str:
    said = f"{request.method}\n{request.get_full_path()}\n".encode() + request._request.body
    return hashlib.sha256(said).hexdigest()
