"""The lines of `./onbeat chaos`, over real sockets of this machine: what passes, what waits, and who is told."""

import asyncio
import gc
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from chaos.proxy import Proxy
from launcher.ports import HOST, is_taken
from tests.echoing import (
    GOODBYE,
    SILENCE_SECONDS,
    CutBeforeItsTurn,
    Echo,
    answer_to,
    calling,
    hear,
    hears_nothing,
    hears_of_its_end,
    is_refused,
    listening,
    talking,
)


@pytest.fixture
def echo() -> Iterator[Echo]:
    with listening() as server:
        yield server


@pytest.fixture
def line(echo: Echo) -> Iterator[Proxy]:
    with Proxy(echo.url) as proxy:
        yield proxy


@pytest.fixture(autouse=True)
def nothing_unforeseen(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """What fails in the thread of a line is told by its log alone."""
    yield
    assert [record.getMessage() for record in caplog.get_records("call") if record.name == "asyncio"] == []


# ── A line that is whole ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("address", ["redis://:secret@127.0.0.1:{}/0", "http://127.0.0.1:{}/path?a=b"])
def test_only_the_port_of_an_address_is_another(address: str) -> None:
    with Proxy(address.format(8000)) as line:
        assert line.url == address.format(line.port)
        assert line.port != 8000


def test_what_is_said_and_answered_passes(echo: Echo, line: Proxy) -> None:
    with calling(line) as caller:
        assert answer_to(caller, b"one") == b"one"
        assert answer_to(caller, b"two") == b"two"
    assert echo.heard == b"onetwo"


def test_much_passes_whole_and_in_order(line: Proxy) -> None:
    words = b"".join(number.to_bytes(4, "big") for number in range(300_000))
    with calling(line) as caller:
        thread = threading.Thread(target=caller.sendall, args=(words,))
        thread.start()
        assert hear(caller, len(words)) == words
        thread.join()


def test_each_caller_hears_its_own_answers(line: Proxy) -> None:
    with talking(line) as one, talking(line) as other:
        one.sendall(b"one")
        other.sendall(b"two")
        assert hear(other, 3) == b"two"
        assert hear(one, 3) == b"one"


def test_a_server_hears_that_its_caller_has_left(echo: Echo, line: Proxy) -> None:
    with talking(line):
        assert echo.ended == []
    echo.wait_until_ended(1)


def test_a_caller_hears_that_its_server_has_left(line: Proxy) -> None:
    with talking(line) as one, talking(line) as other:
        one.sendall(GOODBYE)
        assert hears_of_its_end(one)
        assert answer_to(other, b"still here") == b"still here"


def test_a_line_to_nobody_ends_and_does_not_hang() -> None:
    with listening() as gone:
        url = gone.url
    with Proxy(url) as line, calling(line) as caller:
        assert hears_of_its_end(caller)


# ── Cut ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_line_that_is_cut_ends_for_both_and_takes_no_more(echo: Echo, line: Proxy) -> None:
    with talking(line) as one, talking(line) as other:
        line.cut()
        assert hears_of_its_end(one)
        assert hears_of_its_end(other)
        echo.wait_until_ended(2)
        assert is_refused(line)


def test_a_line_that_was_cut_and_mended_has_its_old_address(line: Proxy) -> None:
    port = line.port
    for _ in range(3):
        line.cut()
        assert is_refused(line)
        line.mend()
        with talking(line):
            assert line.port == port


def test_to_cut_or_mend_twice_is_as_good_as_once(line: Proxy) -> None:
    line.cut()
    line.cut()
    assert is_refused(line)
    line.mend()
    line.mend()
    with talking(line) as caller:
        assert answer_to(caller, b"again") == b"again"


@pytest.mark.parametrize("held_back", ["what was asked", "what was answered"])
def test_what_a_line_held_back_when_it_was_cut_is_lost_and_nobody_waits_for_it(
    echo: Echo, line: Proxy, held_back: str
) -> None:
    with talking(line) as caller:
        if held_back == "what was asked":
            line.freeze()
            caller.sendall(b"words")
        else:
            line.deafen()
            caller.sendall(b"words")
            echo.wait_until_heard(b"words")
        line.cut()
        assert hears_of_its_end(caller)
    line.mend()
    with talking(line):
        assert echo.heard.count(b"words") == (held_back == "what was answered")


@pytest.mark.parametrize("before", ["nobody has called", "a connection has ended", "a connection is open"])
def test_nobody_else_can_listen_where_a_line_is_cut(line: Proxy, before: str) -> None:
    with ExitStack() as stack:
        if before != "nobody has called":
            caller = stack.enter_context(talking(line))
        if before == "a connection has ended":
            caller.sendall(GOODBYE)
            assert hears_of_its_end(caller)
        line.cut()
        with pytest.raises(OSError, match="in use"):
            stack.enter_context(socket.create_server((HOST, line.port)))
        line.mend()
        stack.enter_context(talking(line))


def test_who_is_taken_when_the_line_is_cut_does_not_get_through(echo: Echo) -> None:
    with CutBeforeItsTurn(echo.url) as line, calling(line) as caller:
        caller.sendall(b"anybody there?")
        assert hears_of_its_end(caller)
        assert echo.began == []


def test_who_is_being_connected_when_the_line_is_cut_does_not_get_through(
    echo: Echo, line: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = asyncio.open_connection

    async def cut_meanwhile(host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        both = await connect(host, port)
        await line._cut()
        return both

    monkeypatch.setattr(asyncio, "open_connection", cut_meanwhile)
    with calling(line) as caller:
        caller.sendall(b"anybody there?")
        assert hears_of_its_end(caller)
        echo.wait_until_ended(1)
        assert echo.heard == b""


# ── Frozen ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_nothing_passes_a_frozen_line_until_it_is_mended(echo: Echo, line: Proxy) -> None:
    with talking(line) as caller:
        line.freeze()
        caller.sendall(b"first")
        assert hears_nothing(caller)
        caller.sendall(b"second")
        assert hears_nothing(caller)
        assert echo.heard == b"hello"
        line.mend()
        assert hear(caller, 11) == b"firstsecond"


def test_a_frozen_line_takes_callers_and_lets_them_wait(echo: Echo, line: Proxy) -> None:
    line.freeze()
    with calling(line) as caller:
        caller.sendall(b"anybody there?")
        assert hears_nothing(caller)
        assert echo.began == []
        line.mend()
        assert hear(caller, 14) == b"anybody there?"


def test_an_answer_that_is_on_its_way_waits_as_well(echo: Echo, line: Proxy) -> None:
    with talking(line) as caller:
        line.deafen()  # so that the answer is surely between the two when the line freezes
        caller.sendall(b"words")
        echo.wait_until_heard(b"words")
        line.freeze()
        assert hears_nothing(caller)
        line.mend()
        assert hear(caller, 5) == b"words"


@pytest.mark.parametrize("is_reset", [False, True])
def test_who_leaves_a_frozen_line_is_missed_when_it_is_mended(echo: Echo, line: Proxy, *, is_reset: bool) -> None:
    with talking(line) as caller:
        line.freeze()
        caller.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", is_reset, 0))
    assert not echo.has_ended.wait(SILENCE_SECONDS)
    line.mend()
    echo.wait_until_ended(1)


def test_a_caller_hears_that_its_server_has_left_when_the_frozen_line_is_mended(echo: Echo, line: Proxy) -> None:
    with talking(line) as caller:
        line.freeze()
        echo.hang_up()
        echo.wait_until_ended(1)
        assert hears_nothing(caller)
        line.mend()
        assert hears_of_its_end(caller)


def test_a_frozen_line_that_is_cut_ends_for_those_who_wait(line: Proxy) -> None:
    with talking(line) as one:
        line.freeze()
        with calling(line) as other:
            assert hears_nothing(other)
            line.cut()
            assert hears_of_its_end(one)
            assert hears_of_its_end(other)


# ── Deaf ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_over_a_deaf_line_all_arrives_and_no_answer_comes_back(echo: Echo, line: Proxy) -> None:
    """As when a broker has a message and its confirm is lost."""
    with talking(line) as caller:
        line.deafen()
        caller.sendall(b"publish")
        echo.wait_until_heard(b"publish")
        assert hears_nothing(caller)
        line.mend()
        assert hear(caller, 7) == b"publish"


def test_a_deaf_line_is_deaf_for_new_callers_too(echo: Echo, line: Proxy) -> None:
    line.deafen()
    with calling(line) as caller:
        caller.sendall(b"publish")
        echo.wait_until_heard(b"publish")
        assert hears_nothing(caller)


def test_over_a_deaf_line_nobody_hears_that_the_server_has_left(echo: Echo, line: Proxy) -> None:
    with talking(line) as caller:
        line.deafen()
        caller.sendall(GOODBYE)
        echo.wait_until_ended(1)
        for words in (b"hello?", b"anybody there?"):  # the second is answered with a reset, at the latest
            assert hears_nothing(caller)
            caller.sendall(words)
        assert hears_nothing(caller)
        line.mend()
        assert hears_of_its_end(caller)


def test_over_a_deaf_line_a_server_hears_that_its_caller_has_left(echo: Echo, line: Proxy) -> None:
    with talking(line):
        line.deafen()
    echo.wait_until_ended(1)


# ── Slow ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_over_a_slow_line_every_answer_comes_later_and_comes(echo: Echo, line: Proxy) -> None:
    with talking(line) as caller:
        line.slow(0.1)
        for words in (b"one", b"two"):
            assert answer_to(caller, words) == words
            assert time.monotonic() - echo.heard_at >= 0.1


def test_over_a_slow_line_what_is_asked_arrives_at_once(echo: Echo, line: Proxy) -> None:
    with talking(line) as caller:
        line.slow(3600)
        caller.sendall(b"ask")
        echo.wait_until_heard(b"ask")


def test_a_line_that_was_slow_and_mended_is_quick_again(line: Proxy) -> None:
    with talking(line) as caller:
        line.slow(3600)
        line.mend()
        assert answer_to(caller, b"quick") == b"quick"


# ── Torn ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_server_that_is_gone_hears_it_and_its_caller_does_not(echo: Echo, line: Proxy) -> None:
    with talking(line) as caller:
        line.tear(gone="server")
        echo.wait_until_ended(1)
        caller.sendall(b"anybody there?")
        assert hears_nothing(caller)
        line.mend()
        caller.sendall(b"and now?")
        assert hears_nothing(caller)
        assert echo.heard == b"hello"


def test_a_caller_that_is_gone_hears_it_and_its_server_only_when_the_line_is_mended(echo: Echo, line: Proxy) -> None:
    with talking(line) as caller:
        line.tear(gone="caller")
        assert hears_of_its_end(caller)
    with talking(line):  # as much as passes here, the server would long have heard of the other
        assert (len(echo.began), len(echo.ended)) == (2, 0)
        line.mend()
        echo.wait_until_ended(1)


@pytest.mark.parametrize("gone", ["server", "caller"])
def test_a_torn_line_is_whole_for_who_comes_after(line: Proxy, gone: str) -> None:
    with talking(line):
        line.tear(gone=gone)
        with talking(line) as later:
            line.mend()
            assert answer_to(later, b"still here") == b"still here"


def test_a_caller_of_a_server_that_is_gone_may_give_up(echo: Echo, line: Proxy) -> None:
    with talking(line):
        line.tear(gone="server")
    with talking(line) as later:
        line.mend()
        assert answer_to(later, b"well") == b"well"


def test_a_line_is_torn_for_one_side() -> None:
    with Proxy("http://127.0.0.1:8000") as line, pytest.raises(AssertionError):
        line.tear(gone="both")


# ── The end ──────────────────────────────────────────────────────────────────────────────────────────────────────────


TROUBLES: dict[str, Callable[[Proxy], None]] = {
    "whole": Proxy.mend,
    "cut": Proxy.cut,
    "frozen": Proxy.freeze,
    "deaf": Proxy.deafen,
    "torn from the server": lambda line: line.tear(gone="server"),
    "torn from the caller": lambda line: line.tear(gone="caller"),
}


@pytest.mark.parametrize("trouble", TROUBLES)
def test_a_line_ends_whatever_state_it_is_in_and_leaves_nothing_behind(echo: Echo, trouble: str) -> None:
    with ExitStack() as stack:
        with Proxy(echo.url) as line:
            caller = stack.enter_context(talking(line))
            TROUBLES[trouble](line)
        assert hears_of_its_end(caller)
        echo.wait_until_ended(1)
    assert not is_taken(line.port)
    assert "proxy" not in [thread.name for thread in threading.enumerate()]
    gc.collect()  # whoever was left waiting says so now
