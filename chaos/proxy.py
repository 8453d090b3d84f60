"""Stands between a process and a real server on this machine, and lets the line misbehave.

A line can be cut (open connections are closed, new ones refused), frozen (connections are taken, nothing passes), slow
(every answer waits), deaf (what is asked arrives, and no answer comes back), torn (open connections are gone for one
side, and the other does not hear of it) and mended. What a frozen or deaf line holds back, the end of a connection as
well, passes when it is mended, as on a real network.
"""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Coroutine
from dataclasses import dataclass
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from launcher.ports import HOST, free_port

_CHUNK = 65536


@dataclass(eq=False)
class _Pair:
    """The two ends of one connection: its caller's and its server's."""

    caller: asyncio.StreamWriter
    server: asyncio.StreamWriter
    is_torn: bool = False  # one end is gone, and the other is told nothing


class Proxy:
    """One line, with an address of its own. Its work is done in a thread, so that its user may block."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        assert parts.hostname
        assert parts.port
        self._server_at = (parts.hostname, parts.port)
        # Not from the range of outgoing connections: a client that knocks at a closed port there may reach itself.
        self.port = free_port(set())
        login, at, _ = parts.netloc.rpartition("@")
        self.url = urlunsplit(parts._replace(netloc=f"{login}{at}{HOST}:{self.port}"))
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._flows = asyncio.Event()
        self._answers_flow = asyncio.Event()
        self._answer_after_seconds = 0.0
        self._listener: asyncio.Server | None = None
        self._is_cut = False
        self._kept: socket.socket | None = None  # holds the port while nobody listens on it
        self._waiting: set[asyncio.StreamWriter] = set()  # taken, and not connected to the server yet
        self._pairs: set[_Pair] = set()

    def __enter__(self) -> "Proxy":
        self._thread.start()
        self.mend()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.cut()
        self._do(self._end_all())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        if self._kept is not None:
            self._kept.close()

    def cut(self) -> None:
        self._do(self._cut())

    def freeze(self) -> None:
        self._do(self._hold(self._flows))

    def deafen(self) -> None:
        """What callers say arrives, and they hear nothing."""
        self._do(self._hold(self._answers_flow))

    def slow(self, seconds: float) -> None:
        """Every piece of an answer comes that much later."""
        self._answer_after_seconds = seconds

    def tear(self, *, gone: str) -> None:
        """Open connections are gone for the "server" or for the "caller", and the other end is told nothing.

        A caller finds out when it gives up. A server finds out when the line is mended. New connections pass.
        """
        assert gone in ("server", "caller")
        self._do(self._tear(gone))

    def mend(self) -> None:
        self._do(self._mend())

    def _do(self, act: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(act, self._loop).result(timeout=10)

    async def _cut(self) -> None:
        self._is_cut = True
        if self._listener is not None:
            self._listener.close()
            self._listener = None
            self._kept = _bound(self.port)
            # Nobody else may listen there now. It was needed to bind: connections that have ended still bear the port.
            self._kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
        for writer in self._waiting:
            writer.transport.abort()
        for pair in self._pairs:
            pair.caller.transport.abort()
            pair.server.transport.abort()

    async def _hold(self, flow: asyncio.Event) -> None:
        flow.clear()

    async def _tear(self, gone: str) -> None:
        for pair in self._pairs:
            pair.is_torn = True
            (pair.server if gone == "server" else pair.caller).transport.abort()

    async def _mend(self) -> None:
        self._is_cut = False
        self._answer_after_seconds = 0.0
        self._flows.set()
        self._answers_flow.set()
        for pair in self._pairs:
            if pair.is_torn and pair.caller.transport.is_closing():
                pair.server.transport.abort()
        if self._listener is None:
            self._kept = self._kept or _bound(self.port)
            self._kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._listener = await asyncio.start_server(self._serve, sock=self._kept)
            self._kept = None

    async def _end_all(self) -> None:
        """Those that wait in a frozen line go as well."""
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._waiting.add(writer)
        try:
            if self._is_cut:  # it was taken before, and its turn comes only now
                writer.transport.abort()
                return
            await self._flows.wait()
            server_reader, server_writer = await asyncio.open_connection(*self._server_at)
            if self._is_cut:  # meanwhile
                writer.transport.abort()
                server_writer.transport.abort()
                return
            pair = _Pair(writer, server_writer)
            self._pairs.add(pair)
            self._waiting.discard(writer)
            try:
                await asyncio.gather(
                    self._pass_on(reader, pair, server_writer, is_answer=False),
                    self._pass_on(server_reader, pair, writer, is_answer=True),
                )
            finally:
                self._pairs.discard(pair)
                _close(server_writer)
        except (OSError, asyncio.CancelledError):
            pass  # one side is gone, or all of it is over
        finally:
            self._waiting.discard(writer)
            _close(writer)

    async def _pass_on(
        self, reader: asyncio.StreamReader, pair: _Pair, writer: asyncio.StreamWriter, *, is_answer: bool
    ) -> None:
        # Each way ends for itself, a reset as well: who is gone is told to the other end the other way, if that flows.
        with contextlib.suppress(OSError):
            while data := await reader.read(_CHUNK):
                if is_answer and self._answer_after_seconds:
                    await asyncio.sleep(self._answer_after_seconds)
                await self._wait_until_it_flows(is_answer=is_answer)
                if not pair.is_torn:
                    writer.write(data)
                    await writer.drain()
        await self._wait_until_it_flows(is_answer=is_answer)
        if not pair.is_torn:
            writer.close()

    async def _wait_until_it_flows(self, *, is_answer: bool) -> None:
        await self._flows.wait()
        if is_answer:
            await self._answers_flow.wait()


def _close(writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError, RuntimeError):
        writer.close()


def _bound(port: int) -> socket.socket:
    one = socket.socket()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    one.bind((HOST, port))
    one.setblocking(False)
    return one
