"""What a browser may do with our pages: where scripts, styles and pictures come from, and who may frame them.

Invariant: a page loads, calls and sends to nothing but this host, nobody frames it, and a script that got into its text
does not run.
"""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

Answer = Callable[[HttpRequest], HttpResponse]

# Why each is not stricter: docs/decisions/0016-what-a-browser-may-do.md
_PAGES = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self' 'unsafe-inline'",
    "img-src": "'self' data:",
    "font-src": "'self'",
    "connect-src": "'self'",
    "form-action": "'self'",
    "frame-ancestors": "'none'",
    "base-uri": "'none'",
    "object-src": "'none'",
}
_ADMIN = _PAGES | {"script-src": "'self' 'unsafe-eval'"}
_UNUSED = ("camera", "display-capture", "geolocation", "microphone", "payment", "usb")


def _written(policy: dict[str, str]) -> str:
    return "; ".join(f"{directive} {sources}" for directive, sources in policy.items())


PAGES, ADMIN = _written(_PAGES), _written(_ADMIN)
PERMISSIONS = ", ".join(f"{feature}=()" for feature in _UNUSED)


def told(get_response: Answer) -> Answer:
    """A middleware: with every answer, unless its view says otherwise."""

    def answer(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        found = request.resolver_match
        is_admin = found is not None and found.app_name == "admin"
        response.headers.setdefault("Content-Security-Policy", ADMIN if is_admin else PAGES)
        response.headers.setdefault("Permissions-Policy", PERMISSIONS)
        return response

    return answer
