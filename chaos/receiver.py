"""A service on this machine that jobs call over HTTP. It tells the ledger what it was asked and what it answered.

The path says how it behaves: `/ok`, `/flaky` (503 at the first attempt), `/later` (202, and the end is told a moment
after to the address that came with the request, as often as it takes).
"""

import contextlib
import json
import os
import threading
import time
import urllib.error
import urllib.request
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any

from chaos import ledger
from launcher.ports import HOST

_TELL_FOR_SECONDS = 120
_AGAIN_SECONDS = 0.5


class Receiver:
    def __init__(self, folder: Path) -> None:
        os.environ[ledger.FOLDER] = str(folder)
        self._server = ThreadingHTTPServer((HOST, 0), _Handler)
        self._server.daemon_threads = True
        self.url = f"http://{HOST}:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, name="receiver", daemon=True)

    def __enter__(self) -> "Receiver":
        self._thread.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    timeout = 10

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"] or 0))
        execution, attempt = self.headers["webhook-id"], int(self.headers["onbeat-attempt"])
        run = uuid.uuid4().hex
        ledger.note(what="begin", run=run, execution=execution, attempt=attempt, job=self.headers["onbeat-job"])
        status = 202 if self.path == "/later" else 503 if self.path == "/flaky" and attempt == 1 else 200
        ledger.note(what="end", run=run, how="failed" if status == 503 else "ok", token=run)
        with contextlib.suppress(OSError):  # the caller is gone, or its line
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()
        if status == 202:
            url = self.headers["onbeat-completion-url"]
            threading.Thread(target=_tell_the_end, args=(url,), daemon=True).start()

    def log_message(self, format: str, *args: Any) -> None:
        """Nobody reads it: the ledger has it all."""


def _tell_the_end(url: str) -> None:
    """Until somebody hears it, or it is too late for that."""
    deadline = time.monotonic() + _TELL_FOR_SECONDS
    body = json.dumps({"status": "succeeded"}).encode()
    while time.monotonic() < deadline:
        request = urllib.request.Request(url, data=body, headers={"Content-Type": "application/json"}, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=5):
                return
        except urllib.error.HTTPError as answer:
            if answer.code < 500 and answer.code != 429:
                return  # it was told already, or its attempt is over
        except OSError:
            pass
        time.sleep(_AGAIN_SECONDS)
