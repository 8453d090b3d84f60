"""Does our server answer? Asked in the servers' own protocols, with our password.

An open port alone proves little: a stranger may have taken it since. Only the server that holds our data accepts
our password, so each of these is True for it alone. No client library is needed, and one call takes a few
milliseconds.
"""

import base64
import hashlib
import hmac
import secrets
import socket
import struct
from collections.abc import Callable

from launcher.ports import HOST
from launcher.service_record import NAME

_TIMEOUT_SECONDS = 3


class _Refused(Exception):
    """Whoever listens there is not our server, or is not ready."""


def postgres_answers(port: int, password: str) -> bool:
    return _asked(port, lambda caller: _log_in_to_postgres(caller, password))


def redis_answers(port: int, password: str) -> bool:
    return _asked(port, lambda caller: _ping_redis(caller, password))


def rabbitmq_answers(port: int, password: str) -> bool:
    return _asked(port, lambda caller: _open_amqp(caller, password))


def _asked(port: int, conversation: Callable[[socket.socket], None]) -> bool:
    if not port:
        return False
    try:
        with socket.create_connection((HOST, port), timeout=_TIMEOUT_SECONDS) as caller:
            caller.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            conversation(caller)
    except (OSError, _Refused, struct.error, ValueError, KeyError):
        return False
    return True


def _read(caller: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = caller.recv(min(size - len(data), 65_536))
        if not more:
            raise _Refused("closed")
        data += more
    return data


# Redis: https://redis.io/docs/latest/develop/reference/protocol-spec/


def _ping_redis(caller: socket.socket, password: str) -> None:
    caller.sendall(f"AUTH {password}\r\n".encode())
    _expect(_read(caller, 5) == b"+OK\r\n")
    caller.sendall(b"PING\r\n")
    _expect(_read(caller, 7) == b"+PONG\r\n")


def _expect(true: bool) -> None:
    if not true:
        raise _Refused("not the answer of our server")


# PostgreSQL: https://www.postgresql.org/docs/current/protocol-flow.html, with SCRAM-SHA-256 (RFC 7677)


def _log_in_to_postgres(caller: socket.socket, password: str) -> None:
    settings = b"".join(word.encode() + b"\0" for word in ("user", NAME, "database", NAME))
    body = struct.pack("!I", 196_608) + settings + b"\0"
    caller.sendall(struct.pack("!I", len(body) + 4) + body)
    _expect(_authentication(caller)[0] == 10)  # it offers SASL

    nonce = secrets.token_hex(12)
    first = f"n=,r={nonce}"
    first_message = f"n,,{first}".encode()
    _send_postgres(caller, b"SCRAM-SHA-256\0" + struct.pack("!I", len(first_message)) + first_message)
    code, challenge = _authentication(caller)
    _expect(code == 11)
    fields = dict(part.split("=", 1) for part in challenge.decode().split(","))
    _expect(fields["r"].startswith(nonce))

    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), base64.b64decode(fields["s"]), int(fields["i"]))
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    last = f"c=biws,r={fields['r']}"
    transcript = f"{first},{challenge.decode()},{last}".encode()
    signature = hmac.digest(hashlib.sha256(client_key).digest(), transcript, "sha256")
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    _send_postgres(caller, f"{last},p={base64.b64encode(proof).decode()}".encode())
    _expect(_authentication(caller)[0] == 12)
    _expect(_authentication(caller)[0] == 0)
    while (kind := _postgres_message(caller)[0]) != b"Z":  # ready for a query: the database exists, too
        _expect(kind != b"E")
    caller.sendall(b"X" + struct.pack("!I", 4))


def _send_postgres(caller: socket.socket, body: bytes) -> None:
    caller.sendall(b"p" + struct.pack("!I", len(body) + 4) + body)


def _postgres_message(caller: socket.socket) -> tuple[bytes, bytes]:
    kind, size = struct.unpack("!cI", _read(caller, 5))
    return kind, _read(caller, size - 4)


def _authentication(caller: socket.socket) -> tuple[int, bytes]:
    kind, body = _postgres_message(caller)
    _expect(kind == b"R")
    return struct.unpack("!I", body[:4])[0], body[4:]


# RabbitMQ: AMQP 0-9-1, https://www.rabbitmq.com/resources/specs/amqp0-9-1.pdf

_START, _START_OK, _TUNE, _TUNE_OK, _OPEN, _OPEN_OK, _CLOSE, _CLOSE_OK = 10, 11, 30, 31, 40, 41, 50, 51


def _open_amqp(caller: socket.socket, password: str) -> None:
    caller.sendall(b"AMQP\x00\x00\x09\x01")
    _amqp_answer(caller, _START)
    credentials = f"\0{NAME}\0{password}".encode()
    no_properties = struct.pack("!I", 0)
    start_ok = no_properties + b"\x05PLAIN" + struct.pack("!I", len(credentials)) + credentials + b"\x05en_US"
    _send_amqp(caller, _START_OK, start_ok)
    _send_amqp(caller, _TUNE_OK, _amqp_answer(caller, _TUNE))  # its own limits suit us
    _send_amqp(caller, _OPEN, bytes([len(NAME)]) + NAME.encode() + b"\0\0")
    _amqp_answer(caller, _OPEN_OK)
    _send_amqp(caller, _CLOSE, struct.pack("!HBHH", 200, 0, 0, 0))  # or its log would name us a lost client
    _amqp_answer(caller, _CLOSE_OK)


def _send_amqp(caller: socket.socket, method: int, arguments: bytes) -> None:
    body = struct.pack("!HH", 10, method) + arguments
    caller.sendall(struct.pack("!BHI", 1, 0, len(body)) + body + b"\xce")


def _amqp_answer(caller: socket.socket, method: int) -> bytes:
    kind, _channel, size = struct.unpack("!BHI", _read(caller, 7))
    _expect(kind == 1 and size < 65_536)
    body = _read(caller, size + 1)
    _expect(struct.unpack("!HH", body[:4]) == (10, method))
    return body[4:-1]
