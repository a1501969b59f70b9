"""The network between services and brokers: a proxy on loopback that delays, cuts and resets connections."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from asyncio import StreamReader, StreamWriter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import Final, TypeVar

from chaos.kafka_protocol import RequestHead, request
from chaos.transactions import Action, Moment, OpenTransactions, Verdict

LOOPBACK: Final = "127.0.0.1"
_CONNECT_S: Final = 5.0
_TICK_S: Final = 1e-6
_RESET: Final = struct.pack("ii", 1, 0)
T = TypeVar("T")


class _Link:
    """A client's connection, and one to the broker on its behalf."""

    def __init__(self, proxy: Proxy, broker_port: int) -> None:
        self._proxy = proxy
        self.broker_port = broker_port
        self.name = ""
        """The client's id, known from its first request on."""
        self.is_open, self.is_released = asyncio.Event(), asyncio.Event()
        self.is_open.set()
        self._task = asyncio.current_task()
        self._writers: list[StreamWriter] = []
        self._due: dict[StreamWriter, float] = {}
        self._requests: dict[int, RequestHead] = {}

    async def serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        """Pass frames on, both ways, until either end closes."""
        self._writers.append(writer)
        try:
            async with asyncio.timeout(_CONNECT_S):
                broker_reader, broker_writer = await asyncio.open_connection(LOOPBACK, self.broker_port)
            self._writers.append(broker_writer)
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pass_on(reader, broker_writer, self._on_request))
                both.create_task(self._pass_on(broker_reader, writer, self._on_response))
        except* (OSError, EOFError):
            pass
        finally:
            for each in self._writers:
                each.transport.abort()

    async def _pass_on(self, reader: StreamReader, writer: StreamWriter, decide: Callable[[bytes], Verdict]) -> None:
        """Pass frames on one way.

        Raises:
            EOFError: when the connection ends, or a frame is dropped.
        """
        loop = asyncio.get_running_loop()
        while True:
            size = await reader.readexactly(4)
            frame = await reader.readexactly(int.from_bytes(size))
            await self.is_open.wait()
            verdict = decide(frame)
            if verdict == "drop":
                raise EOFError
            if verdict == "hold":
                self.is_released.clear()
                await self.is_released.wait()
            await self.is_open.wait()
            now, delay_s, due = loop.time(), self._proxy.delay_s, self._due.get(writer, 0.0)
            if delay_s or due > now:  # In order, also when the delay ends.
                self._due[writer] = max(due + _TICK_S, now + delay_s)
                loop.call_at(self._due[writer], writer.write, size + frame)
            else:
                writer.write(size + frame)
                await writer.drain()

    def _on_request(self, frame: bytes) -> Verdict:
        parsed = request(frame)
        if not self.name:
            self.name = parsed.client
            if self._proxy.is_cut(self):
                self.is_open.clear()
        if not parsed.member:
            return "pass"
        self._requests[parsed.correlation] = parsed
        return self._proxy.transactions.on_request(parsed)

    def _on_response(self, frame: bytes) -> Verdict:
        of = self._requests.pop(int.from_bytes(frame[:4], signed=True), None)
        return "pass" if of is None else self._proxy.transactions.on_response(of, frame)

    def end(self, *, reset: bool = False) -> None:
        """Close both connections; data that were not passed on are lost."""
        for writer in self._writers if reset else ():
            with suppress(OSError):
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        if self._task is not None:
            self._task.cancel()


class Proxy:
    """Passes connections on to brokers on loopback, in an event loop on a thread.

    Routes are the ports to listen on, with the broker's port of each.
    """

    def __init__(self, routes: Mapping[int, int]) -> None:
        self._routes = routes
        self.transactions = OpenTransactions()
        """State of each worker's transaction; use it on the loop only (see `call`)."""
        self.delay_s = 0.0
        """Delay of each frame, either way."""
        self._links: set[_Link] = set()
        self.is_cut: Callable[[_Link], bool] = lambda _: False
        """True if a link is cut at present."""
        self._loop = asyncio.new_event_loop()

    def call(self, function: Callable[[], T]) -> T:
        """Run a function on the loop, and return its result."""

        async def called() -> T:
            return function()

        return asyncio.run_coroutine_threadsafe(called(), self._loop).result(30)

    def trap(self, member: str, moment: Moment, action: Action) -> None:
        """Run an action once, when a worker's transaction reaches a moment."""
        self.call(lambda: self.transactions.traps.update({member: (moment, action)}))

    def is_trapped(self, member: str) -> bool:
        """Return True while a worker has a trap that was not sprung."""
        return self.call(lambda: member in self.transactions.traps)

    def disarm(self, member: str) -> bool:
        """Remove a trap; return False if it was sprung already."""
        return self.call(lambda: self.transactions.traps.pop(member, None)) is not None

    def cut(self, client: str = "", broker_port: int | None = None) -> None:
        """Cut the links of clients whose ids begin with this until `heal`: connections stay open, and data wait."""
        self.is_cut = lambda link: link.name.startswith(client) and broker_port in (None, link.broker_port)
        self._each(lambda link: link.is_open.clear() if self.is_cut(link) else None)

    def heal(self) -> None:
        """End the network partition."""
        self.is_cut = lambda _: False
        self._each(lambda link: link.is_open.set())

    def reset(self) -> None:
        """Reset every connection."""
        self._each(lambda link: link.end(reset=True))

    def release(self, client: str) -> None:
        """Pass on what traps hold of the clients whose ids begin with this."""
        self._each(lambda link: link.is_released.set() if link.name.startswith(client) else None)

    def _each(self, act: Callable[[_Link], object]) -> None:
        self.call(lambda: [act(link) for link in list(self._links)])

    async def _serve(self, broker_port: int, reader: StreamReader, writer: StreamWriter) -> None:
        link = _Link(self, broker_port)
        self._links.add(link)
        with suppress(asyncio.CancelledError):  # By `end`.
            await link.serve(reader, writer)
        self._links.discard(link)

    async def _close(self, servers: list[asyncio.Server]) -> None:
        for server in servers:
            server.close()
        while self._links:
            for link in self._links:
                link.end()
            await asyncio.sleep(0)
        await asyncio.sleep(0)  # Transports close in the next iteration of the loop.

    @contextmanager
    def running(self) -> Iterator[Proxy]:
        """Serve for the length of a `with` block."""
        loop = self._loop
        servers = [
            loop.run_until_complete(asyncio.start_server(partial(self._serve, broker_port), LOOPBACK, port))
            for port, broker_port in self._routes.items()
        ]
        thread = threading.Thread(target=loop.run_forever, name="proxy", daemon=True)
        thread.start()
        try:
            yield self
        finally:
            asyncio.run_coroutine_threadsafe(self._close(servers), loop).result(30)
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()
