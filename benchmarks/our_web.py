"""The web process on a stage: gunicorn as `./onbeat run` starts it, a worker beside it, and calls that are timed.

An app calls the REST API with a key, a person visits the admin with the cookie of a session. Loopback only. The limit
of requests is raised and not switched off: each request still asks for its turn.
"""

import http.client
import json
import socket
import sys
import time
from dataclasses import dataclass
from typing import Any

from benchmarks.stage import Process, Stage
from launcher import platform
from launcher.refusal import Refusal

V1 = "/api/v1"
_HOST = "127.0.0.1"
_ANSWER_SECONDS = 60
_KEPT_SECONDS = 1  # gunicorn closes a connection that is not used for two
_REQUESTS_PER_MINUTE = "1000000"
_PERSON = "benchmark"


@dataclass(frozen=True)
class Reply:
    seconds: float  # from before the request is sent until the answer is read
    sent_at: float  # by the clock of this machine
    status: int
    text: bytes


class Connection:
    """A connection that is kept. Not for several threads."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection(_HOST, port, timeout=_ANSWER_SECONDS)
        self._called_at = 0.0

    def call(self, method: str, path: str, headers: dict[str, str], raw: bytes = b"") -> Reply:
        if time.monotonic() - self._called_at > _KEPT_SECONDS:
            self._connection.close()
            self._connection.connect()
        sent_at, started = time.time(), time.perf_counter()
        self._connection.request(method, path, raw, headers)
        response = self._connection.getresponse()
        text = response.read()
        seconds = time.perf_counter() - started
        self._called_at = time.monotonic()
        return Reply(seconds, sent_at, response.status, text)

    def close(self) -> None:
        self._connection.close()


# ── The REST API ─────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Answer:
    seconds: float
    sent_at: float
    body: Any
    next: str | None = None  # the address of the next page


@dataclass
class Caller:
    """One that keeps its connection. Not for several threads."""

    port: int
    secret: str

    def __post_init__(self) -> None:
        self._kept = Connection(self.port)

    def get(self, path: str) -> Answer:
        return self._call("GET", path, b"")

    def post(self, path: str, body: Any) -> Answer:
        return self._call("POST", path, json.dumps(body).encode())

    def _call(self, method: str, path: str, raw: bytes) -> Answer:
        headers = {"Authorization": f"Bearer {self.secret}", "Content-Type": "application/json"}
        path = path if path.startswith("/api") else V1 + path
        reply = self._kept.call(method, path, headers, raw)
        if reply.status >= http.client.MULTIPLE_CHOICES:
            said = reply.text[:300].decode(errors="replace")
            raise Refusal(f"{method} {path} was answered with {reply.status}: {said}")
        body = json.loads(reply.text)
        return Answer(reply.seconds, reply.sent_at, body, body.get("next"))

    def close(self) -> None:
        self._kept.close()


@dataclass(frozen=True)
class Web:
    process: Process
    port: int
    secret: str

    def caller(self) -> Caller:
        return Caller(self.port, self.secret)


def start_web(stage: Stage) -> Web:
    """One that answers, and the key of an admin."""
    from access import api_keys
    from access.roles import Role

    secret = api_keys.make(name="benchmark", role=Role.ADMIN).secret
    process, port = _start(stage)
    return Web(process, port, secret)


def _start(stage: Stage) -> tuple[Process, int]:
    with socket.create_server((_HOST, 0)) as listening:
        port = listening.getsockname()[1]
        program = platform.web(listening, {"ONBEAT_API_REQUESTS_PER_MINUTE": _REQUESTS_PER_MINUTE})
        process = stage.start_program(program)
    process.wait_until(lambda: _answers(port), what="the web process answers")
    return process, port


def _answers(port: int) -> bool:
    connection = Connection(port)
    try:
        return connection.call("GET", "/health/live", {}).status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


# ── The admin ────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Admin:
    """Visited by somebody who is signed in and may do everything."""

    process: Process
    port: int
    cookie: str

    def visitor(self) -> "Visitor":
        return Visitor(self.port, self.cookie)


@dataclass
class Visitor:
    """One that keeps its connection. Not for several threads."""

    port: int
    cookie: str

    def __post_init__(self) -> None:
        self._kept = Connection(self.port)

    def get(self, path: str, *, name: str) -> Reply:
        """A page, by its address and its name for people. Nothing else will do, nor a way to elsewhere."""
        reply = self._kept.call("GET", path, {"Cookie": self.cookie})
        if reply.status != http.client.OK:
            raise Refusal(f"The page {name!r} at {path} was answered with {reply.status}: no figure is worth that.")
        return reply


def start_admin(stage: Stage) -> Admin:
    """One that answers, and the session of a superuser who cannot sign in by a password."""
    from django.conf import settings
    from django.contrib.auth.models import User
    from django.test import Client

    person = User.objects.filter(username=_PERSON).first() or User.objects.create_superuser(_PERSON)
    client = Client()
    client.force_login(person)
    name = settings.SESSION_COOKIE_NAME
    process, port = _start(stage)
    return Admin(process, port, f"{name}={client.cookies[name].value}")


# ── A worker ─────────────────────────────────────────────────────────────────────────────────────────────────────


def start_worker(stage: Stage) -> Process:
    """A worker that has signed on and takes what is in the default queue."""
    from jobs.http_target import HTTP_QUEUE
    from workers.models import Worker

    stage.delete_at_end(queues=[HTTP_QUEUE], exchanges=[])  # which it makes beside the default one
    worker = stage.start("worker", [sys.executable, "manage.py", "worker"])
    worker.wait_until(lambda: Worker.objects.filter(pid=worker.pid).exists(), what="the worker has signed on")
    return worker
