"""The name of a request, by which all that came of it is found again: in logs, on executions, in their tasks.

As Django's middleware. Who asks may bring a name; it is sent back as X-Request-Id. Invariant: what is brought is taken
only if it is short and plain, since it is stored and written to logs.
"""

import re
import uuid
from collections.abc import Callable

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from executions import events
from executions.models import REQUEST_ID_CHARACTERS

HEADER = "X-Request-Id"
_PLAIN = re.compile(rf"[A-Za-z0-9._:-]{{1,{REQUEST_ID_CHARACTERS}}}")


class RequestIds:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        brought = request.headers.get(HEADER, "")
        request_id = brought if _PLAIN.fullmatch(brought) else uuid.uuid4().hex
        with events.about(request=request_id):
            response = self._get_response(request)
        response.headers[HEADER] = request_id
        return response
