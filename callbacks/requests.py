"""The request of one attempt, ready to be sent."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from callbacks.sending import Request
from executions.version import VERSION
from jobs import signing
from jobs.http_target import WITHOUT_BODY, HttpTarget
from jobs.kept_secrets import Material
from jobs.web_address import WebAddress
from workers.context import Context

JSON = "application/json"
TEXT = "text/plain; charset=utf-8"


def request_of(
    http: HttpTarget,
    url: WebAddress,
    payload: Mapping[str, Any],
    run: Context,
    material: Material,
    *,
    completion_url: str,
    now: datetime,
) -> Request:
    body, kind = _body(http, payload)
    headers = {"content-type": kind} if body else {}
    headers |= {"user-agent": f"Onbeat/{VERSION}", "accept": "*/*"}
    headers |= {name.lower(): value for name, value in http.headers.items() if isinstance(value, str)}
    headers |= {name.lower(): value for name, value in material.headers.items()}
    headers |= _about(run, completion_url)
    if material.signing_keys:
        headers |= _signed(run.idempotency_key, int(now.timestamp()), body, material)
    # Last, so that nothing can take their place.
    headers |= {"host": url.authority, "accept-encoding": "identity", "connection": "close"}
    if body or http.method not in WITHOUT_BODY:
        headers["content-length"] = str(len(body))
    return Request(http.method, url, tuple(headers.items()), body)


def _body(http: HttpTarget, payload: Mapping[str, Any]) -> tuple[bytes, str]:
    """What is sent, and what it is if no header says otherwise. Text is sent as it is, everything else as JSON."""
    if http.method in WITHOUT_BODY:
        return b"", ""
    if isinstance(http.body, str):
        return http.body.encode(), TEXT
    said = payload if http.body is None else http.body
    return json.dumps(said, ensure_ascii=False, separators=(",", ":")).encode(), JSON


def _about(run: Context, completion_url: str) -> dict[str, str]:
    said = {
        "idempotency-key": run.idempotency_key,
        "onbeat-job": run.job_key,
        "onbeat-attempt": str(run.attempt),
        "webhook-id": run.idempotency_key,
    }
    if run.fire_time is not None:
        said["onbeat-fire-time"] = run.fire_time.astimezone(UTC).isoformat()
    if completion_url:
        said["onbeat-completion-url"] = completion_url
    return said


def _signed(message_id: str, timestamp: int, body: bytes, material: Material) -> dict[str, str]:
    signature = signing.signatures(message_id, timestamp, body, material.signing_keys)
    return {"webhook-timestamp": str(timestamp), "webhook-signature": signature}
