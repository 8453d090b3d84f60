"""What RabbitMQ's management API tells, where there is one: all queues, and the alarms of its nodes.

Invariant: only looked at, never changed; each answer comes within a limit, and no address with a password is told.
"""

import base64
import json
from dataclasses import dataclass
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, unquote, urlsplit
from urllib.request import HTTPRedirectHandler, OpenerDirector, ProxyHandler, Request, build_opener

ANSWER_SECONDS = 3.0
_MOST_BYTES = 20 * 1024 * 1024


class ApiAway(Exception):
    """It does not answer, or not as it should."""


@dataclass(frozen=True)
class BrokerQueue:
    name: str
    messages: int
    consumers: int


class _NoRedirects(HTTPRedirectHandler):
    """The password is for this host alone."""

    def redirect_request(self, *_args: Any, **_kwargs: Any) -> None:
        return None


class RabbitmqApi:
    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._root = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"
        login = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
        self._headers = {"Authorization": f"Basic {base64.b64encode(login.encode()).decode()}"}
        self._opener: OpenerDirector = build_opener(ProxyHandler({}), _NoRedirects())

    def queues(self, virtual_host: str, prefix: str) -> list[BrokerQueue]:
        """Those whose names begin so."""
        found = self._asked(f"/api/queues/{quote(virtual_host, safe='')}?columns=name,messages,consumers")
        return [
            BrokerQueue(each["name"], each.get("messages") or 0, each.get("consumers") or 0)
            for each in found
            if each["name"].startswith(prefix)
        ]

    def alarms(self) -> list[str]:
        """Node and what it is short of."""
        kinds = {"mem_alarm": "memory", "disk_free_alarm": "disk"}
        nodes = self._asked("/api/nodes?columns=name,mem_alarm,disk_free_alarm")
        return [
            f"{node['name']} is short of {what}" for node in nodes for kind, what in kinds.items() if node.get(kind)
        ]

    def _asked(self, path: str) -> Any:
        try:
            with self._opener.open(Request(self._root + path, headers=self._headers), timeout=ANSWER_SECONDS) as answer:
                return json.loads(answer.read(_MOST_BYTES))
        except HTTPError as error:
            why = "it refuses the user or the password" if error.code in (401, 403) else f"it answered {error.code}"
            raise ApiAway(why) from None
        except (OSError, ValueError) as error:
            raise ApiAway(str(getattr(error, "reason", error)) or type(error).__name__) from None
