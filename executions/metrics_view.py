"""`/metrics` of the web process."""

from http import HTTPStatus
from ipaddress import ip_address

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from executions import figures, scraping

_FROM_ELSEWHERE = (
    "Metrics are shown to this machine alone. To scrape from elsewhere, or through a proxy, set "
    "ONBEAT_EXECUTIONS_METRICS_TOKEN and send it as `Authorization: Bearer …`."
)
_OF_PROXIES = ("forwarded", "x-forwarded-", "x-real-ip", "x-client-ip", "via")  # how the names of theirs begin


@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    if settings.ONBEAT_EXECUTIONS_METRICS_TOKEN:
        if not scraping.has_token(request.headers.get("Authorization", "")):
            return _refused(scraping.NO_TOKEN)
    elif not _is_asked_here(request):
        return _refused(_FROM_ELSEWHERE)
    return HttpResponse(scraping.page(figures.families), content_type=scraping.CONTENT_TYPE)


def _refused(why: str) -> HttpResponse:
    return HttpResponse(f"{why}\n", status=HTTPStatus.FORBIDDEN, content_type="text/plain; charset=utf-8")


def _is_asked_here(request: HttpRequest) -> bool:
    """From this very machine, and not by a proxy on it that asks for somebody else."""
    if any(name.lower().startswith(_OF_PROXIES) for name in request.headers):
        return False
    try:
        address = ip_address(request.META.get("REMOTE_ADDR", ""))
    except ValueError:  # a socket's file has none
        return False
    # Who listens at [::] sees IPv4 within IPv6.
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback
