"""Ports on the loopback address: which are taken, and which one to use."""

import random
import socket

from launcher.processes import wait_until

HOST = "127.0.0.1"
# Below the range from which systems lend ports to outgoing connections, so that a port of ours is
# still free when its server comes back.
CHOICES = range(20_000, 32_000)


def is_taken(port: int) -> bool:
    # Both questions are needed: macOS lets us bind beside a server that listens on all addresses.
    with socket.socket() as caller:
        caller.settimeout(1)
        if caller.connect_ex((HOST, port)) == 0:
            return True
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, port))
        except OSError:
            return True
    return False


def free_port(but_not: set[int]) -> int:
    candidates = (port for port in random.sample(CHOICES, len(CHOICES)) if port not in but_not)
    return next(port for port in candidates if not is_taken(port))


def keep_or_choose(port: int, but_not: set[int], patience_seconds: float = 3) -> int:
    """The recorded port if nobody holds it, else a free one. A server of ours that was just killed gets a moment
    to let go of it."""
    if port and wait_until(lambda: not is_taken(port), patience_seconds):
        return port
    return free_port(but_not | {port})
