"""Answering who scrapes: the page of metrics, who may read it, and where beats and workers show theirs.

Invariants: a page is made from what this process has in memory or is given; a scrape that comes while another is
answered waits for nobody else; with a token set nobody reads without it. A port that is taken is told in the log and
ends nothing: to fire is more than to be looked at.
"""

import hmac
import os
import socket
import threading
from collections.abc import Callable, Iterable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any

from django.conf import settings

from executions import events, metrics, ports
from executions.storable import in_a_line
from executions.version import VERSION

PATH = "/metrics"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
NO_TOKEN = "Send the token of ONBEAT_EXECUTIONS_METRICS_TOKEN as `Authorization: Bearer …`."
_PATIENCE_SECONDS = 5.0
_STOPS_WITHIN_SECONDS = 0.1

Look = Callable[[], Iterable[Any]]


def page(*looks: Look) -> bytes:
    """Everything that was counted, and what these see now."""
    from prometheus_client import CollectorRegistry, generate_latest

    metrics.begin_at_zero()
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Page(looks))
    return generate_latest(registry)


class _Page:
    def __init__(self, looks: Iterable[Look]) -> None:
        self._looks = looks

    def describe(self) -> list[Any]:
        return []

    def collect(self) -> Iterable[Any]:
        yield metrics.BUILD.of({VERSION: 1})
        yield from metrics.families()
        for look in self._looks:
            yield from look()


def has_token(authorization: str) -> bool:
    """Whether a request may read, if a token is asked for."""
    token = settings.ONBEAT_EXECUTIONS_METRICS_TOKEN
    # A header comes as the characters that its bytes are in Latin-1, whatever they were meant to be.
    return hmac.compare_digest(authorization.encode("latin-1", "replace"), f"Bearer {token}".encode())


class Server:
    """The page of one beat or worker, on the first free port of those it may take."""

    def __init__(self, address: str, look: Look) -> None:
        self._address = address
        self._look = look
        self._server: ThreadingHTTPServer | None = None

    def start(self) -> None:
        if not self._address:
            return
        host, free = ports.parsed(self._address)
        for port in free:
            try:
                self._server = _listening(host, port, self._look)
                break
            except (OSError, UnicodeError) as error:  # the latter of a host that can be no name
                why = error
        if self._server is None:
            events.warn("metrics cannot be read here: no port is free", address=self._address, error=in_a_line(why))
            return
        # A child that outlived us would keep the port.
        os.register_at_fork(after_in_child=self._server.socket.close)
        threading.Thread(
            target=self._server.serve_forever, args=(_STOPS_WITHIN_SECONDS,), name="metrics", daemon=True
        ).start()
        shown = f"[{host}]" if ":" in host else host
        events.emit("metrics can be read", url=f"http://{shown}:{self._server.server_address[1]}{PATH}")

    def stop(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()


def _listening(host: str, port: int, look: Look) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        timeout = _PATIENCE_SECONDS  # for who connects and says nothing

        def do_GET(self) -> None:
            if self.path.partition("?")[0] != PATH:
                self._answer(HTTPStatus.NOT_FOUND, f"There is {PATH} here, and nothing else.\n".encode())
            elif settings.ONBEAT_EXECUTIONS_METRICS_TOKEN and not has_token(self.headers.get("Authorization", "")):
                self._answer(HTTPStatus.FORBIDDEN, f"{NO_TOKEN}\n".encode())
            else:
                self._answer(*_looked(look))

        def _answer(self, status: HTTPStatus, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", CONTENT_TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_args: Any) -> None:
            """A scrape every few seconds is worth no line."""

    class Here(ThreadingHTTPServer):
        daemon_threads = True
        allow_reuse_address = True
        request_queue_size = 64
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET

        def server_bind(self) -> None:
            # Not as HTTPServer does it: it asks the name service who we are, and a beat would wait for that.
            TCPServer.server_bind(self)

        def handle_error(self, *_request: Any) -> None:
            """Who asked is gone. Python's own would print a traceback past the log."""

    return Here((host, port), Handler)


def _looked(look: Look) -> tuple[HTTPStatus, bytes]:
    try:
        return HTTPStatus.OK, page(look)
    except Exception as error:  # the process goes on, and who asks is told where to look
        events.warn("a scrape failed", error=in_a_line(error))
        return HTTPStatus.INTERNAL_SERVER_ERROR, b"The metrics cannot be shown; the log of this process says why.\n"
