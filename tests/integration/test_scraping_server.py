"""Where beats and workers show their metrics: whoever asks, the process goes on and others are answered."""

import http.client
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest
from pytest_django import Settings

from executions import scraping
from executions.scraping import Server, has_token
from tests.waiting import wait_until

pytestmark = pytest.mark.embedded

HERE = "127.0.0.1"
TOKEN = "a-token-that-is-long"


def look() -> Iterator[Any]:
    from prometheus_client.core import GaugeMetricFamily

    yield GaugeMetricFamily("seen_now", "By a test.", value=7)


def taken() -> socket.socket:
    """A port that somebody else listens at."""
    return socket.create_server((HERE, 0))


def free_range(count: int) -> int:
    """The first of so many ports in a row that nobody listens at."""
    for first in range(20_000, 32_000, count):
        with ExitStack() as stack:
            try:
                for port in range(first, first + count):
                    stack.enter_context(socket.create_server((HERE, port)))
            except OSError:
                continue
            return first
    raise AssertionError("no ports are free")


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    with ExitStack() as stack:

        def one(address: str, look: scraping.Look = look) -> Server:
            server = Server(address, look)
            server.start()
            stack.callback(server.stop)
            return server

        yield one


@pytest.fixture
def port(serve: Callable[..., Server]) -> int:
    first = free_range(1)
    serve(f"{HERE}:{first}")
    return first


def ask(port: int, path: str = "/metrics", method: str = "GET", **headers: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection(HERE, port, timeout=10)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_it_shows_what_was_counted_and_what_is_seen_now(port: int) -> None:
    status, page = ask(port)
    assert status == 200
    assert "seen_now 7.0" in page
    assert "onbeat_fires_planned_total" in page
    assert "onbeat_build_info{" in page


def test_it_shows_nothing_else(port: int) -> None:
    for path in ("/", "/metrics/", "/metricsx", "/admin/", "/../metrics"):
        assert ask(port, path)[0] == 404
    assert ask(port, "/metrics?name=x")[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "HEAD", "OPTIONS", "BREW"])
def test_it_is_asked_by_get_alone(port: int, method: str) -> None:
    assert ask(port, method=method)[0] == 501
    assert ask(port)[0] == 200


def test_with_a_token_nobody_reads_without_it(port: int, settings: Settings) -> None:
    settings.ONBEAT_EXECUTIONS_METRICS_TOKEN = TOKEN
    assert ask(port, Authorization=f"Bearer {TOKEN}")[0] == 200
    for refused in ("", "Bearer", TOKEN, f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", f"Basic {TOKEN}"):
        status, said = ask(port, Authorization=refused)
        assert (status, TOKEN in said, "seen_now" in said) == (403, False, False)
    assert ask(port)[0] == 403


@pytest.mark.parametrize("sent", ["Bearer ключ", "Bearer \udcff", "Bearer é", "\x00"])
def test_a_token_of_any_characters_is_refused_and_no_error(sent: str, settings: Settings) -> None:
    settings.ONBEAT_EXECUTIONS_METRICS_TOKEN = TOKEN
    assert not has_token(sent)


def test_a_token_may_have_any_characters(port: int, settings: Settings) -> None:
    settings.ONBEAT_EXECUTIONS_METRICS_TOKEN = "ключ-от-квартиры"
    sent = f"Bearer {settings.ONBEAT_EXECUTIONS_METRICS_TOKEN}".encode().decode("latin-1")
    assert ask(port, Authorization=sent)[0] == 200
    assert ask(port, Authorization="Bearer ÿÿ")[0] == 403


def test_the_next_port_is_taken_where_one_is(serve: Any, caplog: pytest.LogCaptureFixture) -> None:
    first = free_range(3)
    with socket.create_server((HERE, first)):
        serve(f"{HERE}:{first}-{first + 2}")
        serve(f"{HERE}:{first}-{first + 2}")
        assert ask(first + 1)[0] == ask(first + 2)[0] == 200
    assert [message for message in caplog.messages if f":{first + 1}/" in message] == [
        f"metrics can be read  url=http://{HERE}:{first + 1}/metrics"
    ]


@pytest.mark.parametrize("host", [HERE, "no-such-host.invalid", "x" * 70, "a..b", "8.8.8.8"])
def test_where_it_cannot_listen_a_warning_is_said_and_the_process_goes_on(
    host: str, serve: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with taken() as other:
        server = serve(f"{host}:{other.getsockname()[1]}")
        server.stop()
    (said,) = caplog.messages
    assert said.startswith("metrics cannot be read here: no port is free")


def test_without_an_address_nobody_is_answered(serve: Any, caplog: pytest.LogCaptureFixture) -> None:
    serve("").stop()
    assert caplog.messages == []


def test_it_listens_on_ipv6_as_well(serve: Any, caplog: pytest.LogCaptureFixture) -> None:
    port = free_range(1)
    serve(f"[::1]:{port}")
    if "no port is free" in caplog.text:
        pytest.skip("this machine has no IPv6")
    connection = http.client.HTTPConnection("::1", port, timeout=10)
    connection.request("GET", "/metrics")
    assert connection.getresponse().status == 200
    connection.close()
    assert f"url=http://[::1]:{port}/metrics" in caplog.text


def test_who_listens_does_not_ask_who_it_is(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name service that does not answer would hold a beat up."""
    monkeypatch.setattr(socket, "getfqdn", lambda *_: pytest.fail("the name service is asked"))
    port = free_range(1)
    serve(f"{HERE}:{port}")
    assert ask(port)[0] == 200


def test_who_says_nothing_or_reads_nothing_keeps_nobody_waiting(port: int) -> None:
    with ExitStack() as stack:
        for said in (b"", b"GET /met", b"GET /metrics HTTP/1.1\r\n", b"\x16\x03\x01", b"GET /metrics HTTP/1.0\r\n\r\n"):
            for _ in range(5):
                slow = stack.enter_context(socket.create_connection((HERE, port), timeout=10))
                slow.sendall(said)
        assert ask(port)[0] == 200


def test_many_are_answered_at_once(port: int) -> None:
    with ThreadPoolExecutor(40) as many:
        assert {status for status, _ in many.map(lambda _: ask(port), range(120))} == {200}


def test_who_hangs_up_before_the_answer_is_worth_no_line(port: int, capfd: pytest.CaptureFixture[str]) -> None:
    for _ in range(10):
        hasty = socket.create_connection((HERE, port), timeout=10)
        hasty.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")  # a reset
        hasty.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        hasty.close()
    assert ask(port)[0] == 200
    wait_until(lambda: not [each for each in threading.enumerate() if "process_request" in each.name], what="all left")
    assert "Traceback" not in capfd.readouterr().err


def test_what_cannot_be_shown_is_told_in_the_log_and_the_next_is_answered(
    serve: Any, caplog: pytest.LogCaptureFixture
) -> None:
    failures = iter([True])

    def failing() -> Iterator[Any]:
        if next(failures, False):
            raise RuntimeError("the pool is in pieces")
        yield from look()

    port = free_range(1)
    serve(f"{HERE}:{port}", failing)
    assert ask(port) == (500, "The metrics cannot be shown; the log of this process says why.\n")
    assert ask(port)[0] == 200
    assert "a scrape failed  error='RuntimeError: the pool is in pieces'" in caplog.messages


def test_when_it_has_stopped_its_port_is_free(serve: Any) -> None:
    port = free_range(1)
    for _ in range(3):
        server = serve(f"{HERE}:{port}")
        assert ask(port)[0] == 200
        server.stop()
    with pytest.raises(ConnectionRefusedError):
        ask(port)
