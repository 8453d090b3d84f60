"""A real HTTP server on this machine that answers as a test wants, and notes what it was sent."""

import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Sent:
    """One request, as it came."""

    line: str
    headers: dict[str, str]
    body: bytes


Act = Callable[[socket.socket, Sent], None]


def answer(status: int = 200, body: bytes = b"", **headers: str) -> Act:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    lines = [f"HTTP/1.1 {status} Said", f"content-length: {len(body)}", *(f"{n}: {v}" for n, v in named.items())]
    said = "\r\n".join([*lines, "", ""]).encode() + body
    return lambda connection, _sent: connection.sendall(said)


def drip(connection: socket.socket, _sent: Sent) -> None:
    """A byte now and then: no pause is long, and the whole would take minutes."""
    connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 10000\r\n\r\n")
    _for_ever(connection, b"x", pause=0.05)


def drip_headers(connection: socket.socket, _sent: Sent) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nx: ")
    _for_ever(connection, b"y", pause=0.05)


def huge(connection: socket.socket, _sent: Sent) -> None:
    """Without end."""
    connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    _for_ever(connection, b"x" * 65536, pause=0)


def silent(connection: socket.socket, _sent: Sent) -> None:
    connection.recv(1)  # until the other side goes away


def reset(connection: socket.socket, _sent: Sent) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def hang_up(_connection: socket.socket, _sent: Sent) -> None:
    pass


def no_http(connection: socket.socket, _sent: Sent) -> None:
    connection.sendall(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")


def _for_ever(connection: socket.socket, part: bytes, *, pause: float) -> None:
    while True:
        connection.sendall(part)
        time.sleep(pause)


@dataclass
class Receiver:
    """Does the acts in turn, one for each request; the last one again and again."""

    port: int
    acts: list[Act]
    greeting: bytes = b""
    reading_slowly: bool = False
    sent: list[Sent] = field(default_factory=list)
    connections: int = 0
    under_way: int = 0
    most_at_once: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def url(self, path: str = "/hook", *, scheme: str = "http", host: str = "127.0.0.1") -> str:
        return f"{scheme}://{host}:{self.port}{path}"

    def serve(self, connection: socket.socket) -> None:
        with connection:
            connection.sendall(self.greeting)
            while self.reading_slowly and connection.recv(2048):
                time.sleep(0.05)
            request = _read(connection)
            if request is None:
                return
            with self.lock:
                self.sent.append(request)
                act = self.acts[min(len(self.sent), len(self.acts)) - 1]
                self.under_way += 1
                self.most_at_once = max(self.most_at_once, self.under_way)
            try:
                act(connection, request)
            finally:
                with self.lock:
                    self.under_way -= 1


@contextmanager
def receiving(
    *acts: Act,
    tls: ssl.SSLContext | None = None,
    greeting: bytes = b"",
    reading_slowly: bool = False,
    host: str = "127.0.0.1",
    port: int = 0,
) -> Iterator[Receiver]:
    """With a greeting it speaks first, as no HTTP server does."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, port), family=family) as server:
        if reading_slowly:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        receiver = Receiver(server.getsockname()[1], list(acts) or [answer()], greeting, reading_slowly)
        threading.Thread(target=_accept, args=(server, receiver, tls), daemon=True).start()
        yield receiver
        with suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)


def _accept(server: socket.socket, receiver: Receiver, tls: ssl.SSLContext | None) -> None:
    with suppress(OSError):
        while True:
            connection, _ = server.accept()
            receiver.connections += 1
            threading.Thread(target=_serve, args=(connection, receiver, tls), daemon=True).start()


def _serve(connection: socket.socket, receiver: Receiver, tls: ssl.SSLContext | None) -> None:
    connection.settimeout(60)
    with suppress(OSError):
        receiver.serve(connection if tls is None else tls.wrap_socket(connection, server_side=True))


def _read(connection: socket.socket) -> Sent | None:
    data = b""
    while b"\r\n\r\n" not in data:
        part = connection.recv(65536)
        if not part:
            return None
        data += part
    head, _, body = data.partition(b"\r\n\r\n")
    line, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (each.partition(":") for each in lines)}
    while len(body) < int(headers.get("content-length", "0")):
        body += connection.recv(65536)
    return Sent(line, headers, body)
