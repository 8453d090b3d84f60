"""Sending one request and reading its answer, within a deadline and a size.

Invariant: it connects to a checked address and to no other; the deadline bounds the whole, however slowly the answer
drips; no more than the wanted bytes of it are read. It follows no redirect, uses no proxy and decodes nothing.
"""

import logging
import ssl
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import httpcore2

from callbacks.refusals import Unanswered
from callbacks.resolving import addresses_of
from jobs.addresses import Address
from jobs.web_address import Rules, WebAddress

READ_BYTES = 64 * 1024  # of an answer; what lies beyond is not read

# At DEBUG the library tells the headers of answers, in which a receiver may echo what it was sent. A filter stays
# whatever levels are set later.
for _name in ("httpcore2.connection", "httpcore2.http11"):
    logging.getLogger(_name).addFilter(lambda _record: False)


@dataclass(frozen=True)
class Request:
    method: str
    url: WebAddress
    headers: tuple[tuple[str, str], ...] = field(repr=False)
    body: bytes = field(repr=False)


@dataclass(frozen=True)
class Answer:
    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    is_cut: bool  # there was more
    seconds: float


class _Deadline:
    def __init__(self, seconds: float) -> None:
        self._at = time.monotonic() + seconds

    def left(self) -> float:
        left = self._at - time.monotonic()
        if left <= 0:
            raise httpcore2.ReadTimeout("the deadline has passed")
        return left

    def share(self, of: int) -> float:
        """Of what is left, for the first of several tries."""
        return self.left() / of


class _Bounded(httpcore2.NetworkStream):
    """A stream on which each wait ends with the deadline of the whole."""

    def __init__(self, stream: httpcore2.NetworkStream, deadline: _Deadline) -> None:
        self._stream = stream
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ARG002 - the deadline is ours
        return self._stream.read(max_bytes, self._deadline.left())

    def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ARG002
        # Not by the library, which begins to count anew whenever a part was taken.
        connection, rest = self._stream.get_extra_info("socket"), memoryview(buffer)
        while rest:
            connection.settimeout(self._deadline.left())
            try:
                rest = rest[connection.send(rest) :]
            except TimeoutError as error:
                raise httpcore2.WriteTimeout(error) from error
            except OSError as error:
                raise httpcore2.WriteError(error) from error

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ARG002
    ) -> httpcore2.NetworkStream:
        name = server_hostname and server_hostname.strip("[]")  # a certificate has an IPv6 address without them
        return _Bounded(self._stream.start_tls(ssl_context, name, self._deadline.left()), self._deadline)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class _ToAddresses(httpcore2.NetworkBackend):
    """Connects to the first of some addresses that takes the connection, whatever host is named."""

    def __init__(self, addresses: Iterable[Address], deadline: _Deadline) -> None:
        self._addresses = list(addresses)
        self._deadline = deadline

    def connect_tcp(self, host: str, port: int, *_args: Any, **_kwargs: Any) -> httpcore2.NetworkStream:  # noqa: ARG002
        for number, address in enumerate(self._addresses):
            tries = len(self._addresses) - number
            try:
                stream = httpcore2.SyncBackend().connect_tcp(str(address), port, timeout=self._deadline.share(tries))
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
                if tries == 1:
                    raise
            else:
                return _Bounded(stream, self._deadline)
        raise AssertionError("a name has an address")


def send(request: Request, rules: Rules, *, seconds: float, ca_file: str = "") -> Answer:
    """Raises Unanswered or Forbidden."""
    began, deadline = time.monotonic(), _Deadline(seconds)
    addresses = addresses_of(request.url, rules, seconds=seconds)
    url = httpcore2.URL(
        scheme=request.url.scheme, host=_host(request.url), port=request.url.port, target=request.url.path
    )
    pool = httpcore2.ConnectionPool(
        ssl_context=_tls(ca_file) if request.url.is_secure else None,
        max_keepalive_connections=0,
        network_backend=_ToAddresses(addresses, deadline),
    )
    try:
        with pool, pool.stream(request.method, url, headers=list(request.headers), content=request.body) as response:
            body, is_cut = _beginning(response.iter_stream())
            return Answer(response.status, _texts(response.headers), body, is_cut, time.monotonic() - began)
    except httpcore2.TimeoutException:
        raise Unanswered(f"no whole answer within {seconds:g} s") from None
    except (httpcore2.NetworkError, httpcore2.ProtocolError) as error:
        raise Unanswered(_why(error)) from None


def _host(url: WebAddress) -> str:
    return f"[{url.host}]" if ":" in url.host else url.host


def _beginning(parts: Iterable[bytes]) -> tuple[bytes, bool]:
    read = bytearray()
    for part in parts:
        read += part
        if len(read) > READ_BYTES:
            return bytes(read[:READ_BYTES]), True
    return bytes(read), False


def _texts(headers: Iterable[tuple[bytes, bytes]]) -> tuple[tuple[str, str], ...]:
    return tuple((name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in headers)


def _why(error: Exception) -> str:
    """In words, from the system's own error beneath the library's."""
    cause: Any = error.__cause__ or error.__context__ or error
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"the certificate is not trusted: {cause.verify_message}"
    if isinstance(cause, ssl.SSLError):
        return f"no secure connection: {cause.reason or cause}"
    if isinstance(cause, OSError):
        return f"the connection failed: {cause.strerror or cause}"
    return "the answer is no HTTP"  # the library's words would quote it


@cache
def _tls(ca_file: str) -> ssl.SSLContext:
    """With the system's authorities, and one of the operator's own beside them."""
    context = ssl.create_default_context()
    if ca_file:
        context.load_verify_locations(ca_file)
    return context
