"""Sending one request to a real server on this machine: deadlines, sizes, odd answers, addresses, certificates."""

import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NoReturn

import pytest

from callbacks import resolving
from callbacks.refusals import Forbidden, Unanswered
from callbacks.sending import READ_BYTES, Answer, Request, send
from jobs.addresses import literal, network
from jobs.web_address import Rules, parsed
from tests.receiver import (
    Act,
    Receiver,
    answer,
    drip,
    drip_headers,
    hang_up,
    huge,
    no_http,
    receiving,
    reset,
    silent,
)
from tests.tiers import once_embedded

pytestmark = once_embedded  # no database is asked
ANY_PORT = (range(1, 65_536),)
HERE = Rules((network("127.0.0.0/8"),), ANY_PORT)
PUBLIC = Rules(ports=ANY_PORT)


def get(url: str, *, rules: Rules = HERE, seconds: float = 30, ca_file: str = "") -> Answer:
    """As a worker asks: the URL was looked at before."""
    parts = parsed(url, HERE)
    headers = (("host", parts.authority), ("content-length", "2"))
    return send(Request("POST", parts, headers, b"{}"), rules, seconds=seconds, ca_file=ca_file)


@pytest.fixture
def no_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever opens one fails: the guard must come before it."""

    def refuse(*_args: Any, **_kwargs: Any) -> NoReturn:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)


def test_an_answer_is_read_whole() -> None:
    with receiving(answer(201, b"hello", x_a="b")) as receiver:
        got = get(receiver.url("/a?b=c"))
    assert (got.status, got.body, got.is_cut) == (201, b"hello", False)
    assert ("x-a", "b") in got.headers
    assert receiver.sent[0].line == "POST /a?b=c HTTP/1.1"
    assert receiver.sent[0].headers["host"] == f"127.0.0.1:{receiver.port}"


def test_no_header_of_an_answer_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", "httpcore2.http11")
    with receiving(answer(x_echo="hunter2")) as receiver:
        get(receiver.url())
    assert "hunter2" not in caplog.text


def test_a_server_that_takes_the_request_slowly_does_not_stretch_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few bytes at a time are taken, each of them in time; the whole would last for seconds."""
    real = socket.create_connection

    def with_small_buffers(*args: Any, **more: Any) -> socket.socket:
        connection = real(*args, **more)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        return connection

    monkeypatch.setattr(socket, "create_connection", with_small_buffers)
    with receiving(reading_slowly=True) as receiver:
        parts = parsed(receiver.url(), HERE)
        body = b"x" * 500_000
        request = Request("POST", parts, (("host", "x"), ("content-length", str(len(body)))), body)
        began = time.monotonic()
        with pytest.raises(Unanswered, match=r"no whole answer within 1 s"):
            send(request, HERE, seconds=1)
        assert time.monotonic() - began < 2.5


@pytest.mark.parametrize("act", [drip, drip_headers, silent])
def test_no_answer_however_slow_stretches_the_deadline(act: Act) -> None:
    with receiving(act) as receiver, pytest.raises(Unanswered, match=r"no whole answer within 0\.4 s"):
        get(receiver.url(), seconds=0.4)


def test_of_an_endless_answer_the_beginning_is_read_and_no_more() -> None:
    with receiving(huge) as receiver:
        got = get(receiver.url())
    assert (len(got.body), got.is_cut) == (READ_BYTES, True)


@pytest.mark.parametrize(("act", "said"), [(reset, "reset by peer"), (hang_up, "no HTTP"), (no_http, "no HTTP")])
def test_what_is_no_answer_is_told_in_words(act: Act, said: str) -> None:
    with receiving(act) as receiver, pytest.raises(Unanswered, match=said):
        get(receiver.url())


def test_nobody_listens() -> None:
    with receiving() as receiver:
        url = receiver.url()
    with pytest.raises(Unanswered, match="Connection refused"):
        get(url)


def test_a_redirect_is_an_answer_and_not_followed() -> None:
    with receiving(answer()) as elsewhere, receiving(answer(302, location=elsewhere.url())) as receiver:
        assert get(receiver.url()).status == 302
    assert elsewhere.sent == []


def test_no_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with receiving(answer(200)) as proxy, receiving(answer(204)) as receiver:
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url(""))
        assert get(receiver.url()).status == 204
    assert proxy.connections == 0


# ── Addresses ────────────────────────────────────────────────────────────────────────────────────────────────────


def resolves_to(monkeypatch: pytest.MonkeyPatch, *answers: list[str]) -> list[str]:
    """A resolver that says one thing now and another the next time; which names it was asked for."""
    asked: list[str] = []
    real = socket.getaddrinfo

    def getaddrinfo(host: str, port: int, *args: Any, **more: Any) -> list[Any]:
        if literal(host) is not None:
            return list(real(host, port, *args, **more))  # no question: whoever connects takes it apart
        asked.append(host)
        found = answers[min(len(asked), len(answers)) - 1]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in found]

    monkeypatch.setattr(resolving.socket, "getaddrinfo", getaddrinfo)
    return asked


@pytest.mark.usefixtures("no_sockets")
@pytest.mark.parametrize(
    "addresses",
    [
        ["10.0.0.1"],
        ["127.0.0.1"],
        ["169.254.169.254"],
        ["::1"],
        ["::ffff:10.0.0.1"],
        ["64:ff9b::a00:1"],
        ["2002:a00:1::"],
        ["fe80::1%eth0"],
        ["93.184.216.34", "10.0.0.1"],
        ["10.0.0.1", "93.184.216.34"],
    ],
    ids=lambda addresses: " ".join(addresses),
)
def test_a_name_with_an_address_of_the_inside_is_refused_before_any_socket(
    monkeypatch: pytest.MonkeyPatch, addresses: list[str]
) -> None:
    resolves_to(monkeypatch, addresses)
    with pytest.raises(Forbidden, match="not a public one"):
        get("http://rebind.example:80/", rules=PUBLIC)


def test_a_name_is_resolved_once_and_the_checked_address_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    """First an allowed address, then another: whoever asked twice would go where nobody looked."""
    with receiving(answer(204)) as receiver:
        asked = resolves_to(monkeypatch, ["127.0.0.1"], ["10.0.0.1"])
        only_here = Rules((network("127.0.0.1/32"),), ANY_PORT)
        got = get(receiver.url(host="rebind.example"), rules=only_here)
    assert (got.status, asked) == (204, ["rebind.example"])
    assert receiver.sent[0].headers["host"] == f"rebind.example:{receiver.port}"


@pytest.mark.usefixtures("no_sockets")
@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "[::ffff:127.0.0.1]"])
def test_an_address_that_was_allowed_and_is_no_longer_is_refused_before_any_socket(host: str) -> None:
    url = parsed(f"http://{host}:80/", Rules((network("127.0.0.0/8"), network("::1/128"))))
    with pytest.raises(Forbidden, match="not a public one"):
        send(Request("GET", url, (), b""), PUBLIC, seconds=5)


def test_a_name_that_nobody_knows_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_args: Any, **_more: Any) -> NoReturn:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(resolving.socket, "getaddrinfo", unknown)
    with pytest.raises(Unanswered, match=r"nowhere\.example cannot be resolved: Name or service not known"):
        get("http://nowhere.example/")


def test_of_several_addresses_the_next_is_tried_when_one_takes_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    with receiving(answer(204)) as receiver:
        resolves_to(monkeypatch, ["127.0.0.9", "127.0.0.1"])
        assert get(receiver.url(host="two.example")).status == 204


def test_a_silent_address_leaves_time_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    with ExitStack() as stack:
        full = stack.enter_context(socket.create_server(("127.0.0.9", 0), backlog=0))
        port = full.getsockname()[1]
        for _ in range(3):  # its line is full from then on, and it answers nobody
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(("127.0.0.9", port))
        receiver = stack.enter_context(receiving(answer(204), port=port))
        resolves_to(monkeypatch, ["127.0.0.9", "127.0.0.1"])
        assert get(receiver.url(host="two.example"), seconds=3).status == 204


# ── Certificates ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of an authority of its own, for one name; with its key in the same file."""
    folder = tmp_path_factory.mktemp("tls")
    words = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=hooks.example"
    words += f" -addext subjectAltName=DNS:hooks.example,IP:::1 -keyout {folder}/key.pem -out {folder}/cert.pem"
    subprocess.run(words.split(), check=True, capture_output=True)
    both = folder / "both.pem"
    both.write_text((folder / "key.pem").read_text() + (folder / "cert.pem").read_text())
    return both


@pytest.fixture
def secure(certificate: Path) -> Iterator[Receiver]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with receiving(answer(204), tls=context) as receiver:
        yield receiver


def test_a_certificate_of_a_trusted_authority_is_taken_for_its_name(
    secure: Receiver, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolves_to(monkeypatch, ["127.0.0.1"])
    url = secure.url(scheme="https", host="hooks.example")
    assert get(url, ca_file=str(certificate.with_name("cert.pem"))).status == 204


def test_a_certificate_may_be_for_an_ipv6_address(certificate: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    here = Rules((network("::1/128"),), ANY_PORT)
    with receiving(answer(204), tls=context, host="::1") as receiver:
        url = parsed(receiver.url(scheme="https", host="[::1]"), here)
        request = Request("GET", url, (("host", url.authority),), b"")
        assert send(request, here, seconds=30, ca_file=str(certificate.with_name("cert.pem"))).status == 204


def test_a_certificate_of_nobody_is_refused_before_anything_is_sent(
    secure: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolves_to(monkeypatch, ["127.0.0.1"])
    with pytest.raises(Unanswered, match="the certificate is not trusted"):
        get(secure.url(scheme="https", host="hooks.example"))
    assert secure.sent == []


def test_a_certificate_for_another_name_is_refused(
    secure: Receiver, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolves_to(monkeypatch, ["127.0.0.1"])
    with pytest.raises(Unanswered, match="the certificate is not trusted"):
        get(secure.url(scheme="https", host="other.example"), ca_file=str(certificate.with_name("cert.pem")))


def test_a_server_that_speaks_no_tls_is_told_so() -> None:
    with receiving(greeting=b"SSH-2.0-OpenSSH_9.2\r\n") as receiver, pytest.raises(Unanswered, match="no secure conn"):
        get(receiver.url(scheme="https"))
