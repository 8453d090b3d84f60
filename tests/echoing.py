"""The two ends of a line that a test lets misbehave: a server that says back what it hears, and its callers."""

import asyncio
import errno
import socket
import socketserver
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from chaos.proxy import Proxy
from launcher.ports import HOST
from tests.waiting import wait_until

GOODBYE = b"goodbye"
_ANSWER_SECONDS = 10.0
# How long nothing comes before a test believes that nothing will. A line that is broken answers much sooner.
SILENCE_SECONDS = 0.15


class _Talk(socketserver.BaseRequestHandler):
    """Says back what it hears, and notes it. Hangs up on whoever says goodbye."""

    server: "Echo"

    def handle(self) -> None:
        self.server.began.append(self)
        with suppress(OSError):
            while (data := self.request.recv(65536)) and not data.endswith(GOODBYE):
                self.server.heard += data
                self.server.heard_at = time.monotonic()
                self.request.sendall(data)
        self.server.ended.append(self)
        self.server.has_ended.set()


class Echo(socketserver.ThreadingTCPServer):
    """The server at the other end of the line."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self) -> None:
        super().__init__((HOST, 0), _Talk)
        self.began: list[_Talk] = []
        self.ended: list[_Talk] = []
        self.has_ended = threading.Event()  # one of them, to wait for in vain
        self.heard = b""
        self.heard_at = 0.0

    @property
    def url(self) -> str:
        return f"redis://:secret@{HOST}:{self.server_address[1]}/0"

    def hang_up(self) -> None:
        """On everybody."""
        for talk in self.began:
            talk.request.shutdown(socket.SHUT_RDWR)

    def wait_until_heard(self, words: bytes) -> None:
        wait_until(lambda: self.heard.endswith(words), what=f"the server hears {words!r}")

    def wait_until_ended(self, count: int) -> None:
        wait_until(lambda: len(self.ended) == count, what=f"{count} connections of the server end")


@contextmanager
def listening() -> Iterator[Echo]:
    with Echo() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


class CutBeforeItsTurn(Proxy):
    """Cut after a caller was taken and before its line was made."""

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._cut()
        await super()._serve(reader, writer)


@contextmanager
def calling(line: Proxy) -> Iterator[socket.socket]:
    with socket.create_connection((HOST, line.port), timeout=_ANSWER_SECONDS) as caller:
        yield caller


@contextmanager
def talking(line: Proxy) -> Iterator[socket.socket]:
    """A connection over which something passed already, so that both ends of it are there."""
    with calling(line) as caller:
        assert answer_to(caller, b"hello") == b"hello"
        yield caller


def answer_to(caller: socket.socket, words: bytes) -> bytes:
    caller.sendall(words)
    return hear(caller, len(words))


def hear(caller: socket.socket, count: int) -> bytes:
    heard = b""
    while len(heard) < count and (data := caller.recv(65536)):
        heard += data
    return heard


def hears_nothing(caller: socket.socket) -> bool:
    """Neither an answer nor that the line is gone."""
    caller.settimeout(SILENCE_SECONDS)
    try:
        caller.recv(1)
    except TimeoutError:
        return True
    finally:
        caller.settimeout(_ANSWER_SECONDS)
    return False


def hears_of_its_end(caller: socket.socket) -> bool:
    try:
        return caller.recv(1) == b""
    except ConnectionResetError:
        return True


def is_refused(line: Proxy) -> bool:
    with socket.socket() as caller:
        return caller.connect_ex((HOST, line.port)) == errno.ECONNREFUSED
