"""From a checked URL to the addresses that it may be called at.

Invariant: a name is resolved once; if any of its addresses is not allowed, none is used; and whoever connects does so
to an address from here, so that a name cannot mean another machine a moment later.
"""

import socket
import threading
from ipaddress import ip_address
from queue import Empty, SimpleQueue
from typing import Any

from callbacks.refusals import Forbidden, Unanswered
from jobs.addresses import Address, is_allowed
from jobs.web_address import Rules, WebAddress, refusal


def addresses_of(url: WebAddress, rules: Rules, *, seconds: float) -> list[Address]:
    """All checked, in the order of the resolver."""
    found = [url.address] if url.address is not None else _resolved(url, seconds=seconds)
    for address in found:
        if not is_allowed(address, rules.networks):
            # Not which: who may edit jobs shall not learn from names what the inside looks like.
            raise Forbidden(refusal(f"An address of {url.host}"))
    return found


def _resolved(url: WebAddress, *, seconds: float) -> list[Address]:
    """A resolver has limits of its own, longer than ours: so it works in a thread that may be left behind."""
    answers: SimpleQueue[Any] = SimpleQueue()

    def ask() -> None:
        try:
            answers.put(socket.getaddrinfo(url.host, url.port, type=socket.SOCK_STREAM))
        except (OSError, UnicodeError) as error:
            answers.put(error)

    threading.Thread(target=ask, name="onbeat-resolver", daemon=True).start()
    try:
        answer = answers.get(timeout=seconds)
    except Empty:
        raise Unanswered(f"the name {url.host} was not resolved in time") from None
    if isinstance(answer, Exception):
        said = answer.strerror if isinstance(answer, OSError) and answer.strerror else "it is no name"
        raise Unanswered(f"the name {url.host} cannot be resolved: {said}")
    # The same address may come several times. What is behind a `%` names an interface, of link-local ones.
    return list(dict.fromkeys(ip_address(sockaddr[0]) for *_, sockaddr in answer))
