"""Calls to the REST API as an app makes them, within the test's own process."""

import json
from dataclasses import dataclass, field
from typing import Any

from django.test import Client

from access import api_keys
from access.roles import Role

V1 = "/api/v1"


@dataclass(frozen=True)
class Answer:
    status: int
    body: Any
    headers: dict[str, str]

    @property
    def pointers(self) -> list[str]:
        """The places that a problem names."""
        return [
            place.get("pointer") or place.get("parameter") or place.get("header")
            for place in self.body.get("errors", [])
        ]


@dataclass
class Caller:
    """One with an API key, or with none."""

    secret: str = ""
    headers: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._client = Client(raise_request_exception=True)

    def get(self, path: str, **headers: str) -> Answer:
        return self.call("GET", path, **headers)

    def post(self, path: str, body: Any = None, **headers: str) -> Answer:
        return self.call("POST", path, body, **headers)

    def put(self, path: str, body: Any = None, **headers: str) -> Answer:
        return self.call("PUT", path, body, **headers)

    def patch(self, path: str, body: Any = None, **headers: str) -> Answer:
        return self.call("PATCH", path, body, **headers)

    def delete(self, path: str, **headers: str) -> Answer:
        return self.call("DELETE", path, **headers)

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        raw = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        named = {name.replace("_", "-"): value for name, value in {**self.headers, **headers}.items()}
        if self.secret:
            named.setdefault("Authorization", f"Bearer {self.secret}")
        content_type = named.pop("Content-Type", "application/json")
        address = path if path.startswith("/api") else V1 + path
        response = self._client.generic(method, address, raw, content_type=content_type, headers=named)
        text = response.content.decode()
        return Answer(response.status_code, json.loads(text) if text else None, dict(response.headers))


def a_caller(role: Role = Role.ADMIN) -> Caller:
    return Caller(api_keys.make(name=f"the {role}", role=role).secret)
