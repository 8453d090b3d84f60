"""The REST API on a stage: gunicorn as `./onbeat run` starts it, a worker beside it, and calls that are timed.

Loopback only. The limit of requests is raised and not switched off: each request still asks for its turn.
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


@dataclass(frozen=True)
class Answer:
    seconds: float  # from before the request is sent until the answer is read
    sent_at: float  # by the clock of this machine
    body: Any
    next: str | None = None  # the address of the next page


@dataclass
class Caller:
    """One that keeps its connection. Not for several threads."""

    port: int
    secret: str

    def __post_init__(self) -> None:
        self._connection = http.client.HTTPConnection(_HOST, self.port, timeout=_ANSWER_SECONDS)
        self._called_at = 0.0

    def get(self, path: str) -> Answer:
        return self._call("GET", path, b"")

    def post(self, path: str, body: Any) -> Answer:
        return self._call("POST", path, json.dumps(body).encode())

    def _call(self, method: str, path: str, raw: bytes) -> Answer:
        headers = {"Authorization": f"Bearer {self.secret}", "Content-Type": "application/json"}
        path = path if path.startswith("/api") else V1 + path
        if time.monotonic() - self._called_at > _KEPT_SECONDS:
            self._connection.close()
            self._connection.connect()
        sent_at, started = time.time(), time.perf_counter()
        self._connection.request(method, path, raw, headers)
        response = self._connection.getresponse()
        text = response.read()
        seconds = time.perf_counter() - started
        self._called_at = time.monotonic()
        if response.status >= http.client.MULTIPLE_CHOICES:
            raise Refusal(f"{method} {path} was answered with {response.status}: {text[:300].decode(errors='replace')}")
        body = json.loads(text)
        return Answer(seconds, sent_at, body, body.get("next"))

    def close(self) -> None:
        self._connection.close()


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
    with socket.create_server((_HOST, 0)) as listening:
        port = listening.getsockname()[1]
        program = platform.web(listening, {"ONBEAT_API_REQUESTS_PER_MINUTE": _REQUESTS_PER_MINUTE})
        process = stage.start_program(program)
    web = Web(process, port, secret)
    process.wait_until(lambda: _answers(web), what="the API answers")
    return web


def _answers(web: Web) -> bool:
    caller = web.caller()
    try:
        return bool(caller.get("/caller").body)
    except (OSError, http.client.HTTPException):
        return False
    finally:
        caller.close()


def start_worker(stage: Stage) -> Process:
    """A worker that has signed on and takes what is in the default queue."""
    from workers.models import Worker

    worker = stage.start("worker", [sys.executable, "manage.py", "worker"])
    worker.wait_until(lambda: Worker.objects.filter(pid=worker.pid).exists(), what="the worker has signed on")
    return worker
