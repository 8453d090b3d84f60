"""Health and metrics are asked for by neighbours: by address, in plain http, and under whatever name.

Owns that they need no name that is allowed; the settings exempt the same addresses from HTTPS. Invariant: their answers
depend on no name and hold no link, so that any will do.
"""

import re
from collections.abc import Callable

from django.conf import settings
from django.http import HttpRequest, HttpResponse


def by_any_name(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """A middleware: a probe counts as asking for a host that is allowed."""
    probes = re.compile("|".join(settings.SECURE_REDIRECT_EXEMPT))

    def answer(request: HttpRequest) -> HttpResponse:
        if probes.search(request.path.lstrip("/")):
            request.META["HTTP_HOST"] = _an_allowed_host()
        return get_response(request)

    return answer


def _an_allowed_host() -> str:
    return next(iter(settings.ALLOWED_HOSTS), "").lstrip(".*") or "localhost"
