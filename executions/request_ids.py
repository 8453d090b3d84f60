"""The name of a request, by which all that came of it is found again: in logs, on executions, in their tasks.

As Django's middleware. Who asks may bring a name; it is sent back as X-Request-Id. Invariant: what is brought is taken
only if it is short and plain, since it is stored and written to logs.
"""

import uuid
from collections.abc import Callable
from http import HTTPStatus

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.log import log_response

from executions import events

HEADER = "X-Request-Id"


class RequestIds:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        brought = request.headers.get(HEADER, "")
        request_id = brought if events.is_request_id(brought) else uuid.uuid4().hex
        with events.about(request=request_id):
            response = self._get_response(request)
            if response.status_code >= HTTPStatus.BAD_REQUEST and isinstance(response, HttpResponse):
                # As Django does it of what was not logged by then, but outside of us, where the request has no name.
                reason, path = response.reason_phrase, request.path
                log_response("%s: %s", reason, path, response=response, request=request)
        response.headers[HEADER] = request_id
        return response
