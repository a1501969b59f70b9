"""The network between the services and the brokers: a proxy on loopback that delays, parts and resets connections."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import Final, TypeVar

from typing_extensions import override

from chaos.kafka_protocol import Frames, Request, request
from chaos.transactions import Moment, Transactions, Trap, Verdict

LOOPBACK: Final = "127.0.0.1"
_REQUEST_BYTES: Final = 1_024
_ANSWER_BYTES: Final = 256
_CONNECT_S: Final = 5.0
_TICK_S: Final = 1e-6
_RESET: Final = struct.pack("ii", 1, 0)

T = TypeVar("T")


def _nobody(_: _Link) -> bool:
    return False


class _Side(asyncio.Protocol):
    """One end of a link: what came in and has not yet been passed on, and why it is not."""

    def __init__(self, link: _Link, enough: int) -> None:
        self.link = link
        self.transport: asyncio.Transport | None = None
        self.frames = Frames(enough)
        self.waiting: deque[tuple[bytes, bool]] = deque()
        self.stopped_by: set[str] = set()
        self.due = 0.0

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if isinstance(transport, asyncio.Transport):
            self.transport = transport
        self.link.made(self)

    @override
    def data_received(self, data: bytes) -> None:
        self.waiting.extend(self.frames.feed(data))
        self.link.flow(self)

    @override
    def pause_writing(self) -> None:
        self.link.other(self).stop("the other end is full")

    @override
    def resume_writing(self) -> None:
        self.link.other(self).go_on("the other end is full")

    @override
    def connection_lost(self, _: Exception | None) -> None:
        self.link.end()

    def stop(self, why: str) -> None:
        """Read and pass on no more, for this reason among others."""
        self.stopped_by.add(why)
        if self.transport is not None and not self.transport.is_closing():
            self.transport.pause_reading()

    def go_on(self, why: str) -> None:
        """One reason is gone."""
        if why in self.stopped_by:
            self.stopped_by.remove(why)
            if not self.stopped_by:
                if self.transport is not None and not self.transport.is_closing():
                    self.transport.resume_reading()
                self.link.flow(self)

    def write(self, data: bytes, delay_s: float) -> None:
        """Send, later by the delay but never before what was sent earlier."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        due = max(self.due + _TICK_S, now + delay_s) if self.due > now or delay_s else 0.0
        if due:
            self.due = due
            loop.call_at(due, self._write, data)
        else:
            self._write(data)

    def _write(self, data: bytes) -> None:
        if self.transport is not None and not self.transport.is_closing():
            self.transport.write(data)


class _Link:
    """A client's connection, and one to the broker on its behalf."""

    def __init__(self, proxy: Proxy, broker_port: int) -> None:
        self._proxy = proxy
        self.broker_port = broker_port
        self.name = ""
        """The client's id, once it has asked something."""
        self.client, self.broker = _Side(self, _REQUEST_BYTES), _Side(self, _ANSWER_BYTES)
        self._asked: dict[int, Request] = {}
        self._connecting: asyncio.Task[None] | None = None

    def other(self, side: _Side) -> _Side:
        """The other end."""
        return self.broker if side is self.client else self.client

    def made(self, side: _Side) -> None:
        """An end stands."""
        if side is self.client:
            self._proxy.links.add(self)
            side.stop("connecting")
            self._connecting = asyncio.ensure_future(self._connect())
        else:
            self.client.go_on("connecting")

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(_CONNECT_S):
                await loop.create_connection(lambda: self.broker, LOOPBACK, self.broker_port)
        except OSError:
            self.end()

    def flow(self, side: _Side) -> None:
        """Pass on what may pass."""
        while side.waiting and not side.stopped_by:
            piece, head = side.waiting.popleft()
            verdict = self._verdict(side, piece) if head else "pass"
            if verdict == "drop":
                self.end()
            elif verdict == "hold":
                side.waiting.appendleft((piece, False))
                side.stop("held")
            else:
                self.other(side).write(piece, self._proxy.delay_s)

    def _verdict(self, side: _Side, piece: bytes) -> Verdict:
        transactions = self._proxy.transactions
        if side is self.broker:
            of = self._asked.pop(int.from_bytes(piece[4:8], signed=True), None)
            return "pass" if of is None else transactions.answered(of, piece[4:])
        asked = request(piece[4:])
        if not self.name:
            self.name = asked.client
            if self._proxy.is_parted(self):
                self.part()
        if not asked.member:
            return "pass"
        verdict = transactions.asked(asked)
        self._asked[asked.correlation] = asked
        return verdict

    def part(self) -> None:
        """Let nothing pass either way."""
        self.client.stop("parted")
        self.broker.stop("parted")

    def heal(self) -> None:
        """Let pass again what has waited."""
        self.client.go_on("parted")
        self.broker.go_on("parted")

    def release(self) -> None:
        """Let pass what a trap held."""
        self.client.go_on("held")
        self.broker.go_on("held")

    def end(self, *, reset: bool = False) -> None:
        """Close both ends, with what was under way lost."""
        self._proxy.links.discard(self)
        if self._connecting is not None:
            self._connecting.cancel()
        for side in (self.client, self.broker):
            side.waiting.clear()
            if side.transport is None:
                continue
            if reset and (plug := side.transport.get_extra_info("socket")) is not None:
                with suppress(OSError):
                    plug.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            side.transport.abort()


class Proxy:
    """Passes connections on to brokers on loopback. All that it does happens in one loop, in a thread of its own.

    Args:
        routes: the broker's port behind each port to listen on.

    Attributes:
        transactions: where each worker's transaction stands; to be touched on the loop only (see `call`).
        delay_s: how long each piece takes, each way.
    """

    def __init__(self, routes: Mapping[int, int]) -> None:
        self._routes = routes
        self.transactions = Transactions()
        self.delay_s = 0.0
        self.links: set[_Link] = set()
        self._parted: Callable[[_Link], bool] = _nobody
        self._loop = asyncio.new_event_loop()

    def call(self, function: Callable[[], T]) -> T:
        """Run a function on the loop, between what passes, and give what it gives."""

        async def called() -> T:
            return function()

        return asyncio.run_coroutine_threadsafe(called(), self._loop).result(30)

    def trap(self, member: str, moment: Moment, action: Callable[[], Verdict]) -> None:
        """Do something once, when a worker's transaction comes to a moment."""
        self.call(lambda: self.transactions.traps.update({member: Trap(moment, action)}))

    def disarm(self, member: str) -> bool:
        """Take a trap away; tells whether it was still set."""
        return self.call(lambda: self.transactions.traps.pop(member, None)) is not None

    def is_parted(self, link: _Link) -> bool:
        """Return whether a link is cut."""
        return self._parted(link)

    def part(self, beginning: str = "", broker_port: int | None = None) -> None:
        """Cut the links of the clients whose ids begin with this, until `heal`: packets are kept, connections stand.

        Args:
            beginning: of the clients' ids.
            broker_port: the only broker that is cut off; None for all of them.
        """

        def part() -> None:
            self._parted = lambda link: link.name.startswith(beginning) and broker_port in (None, link.broker_port)
            for link in self.links:
                if self.is_parted(link):
                    link.part()

        self.call(part)

    def heal(self) -> None:
        """End the partition."""

        def heal() -> None:
            self._parted = _nobody
            for link in list(self.links):
                link.heal()

        self.call(heal)

    def reset(self) -> None:
        """Break every connection."""
        self._each(lambda link: link.end(reset=True))

    def release(self, beginning: str) -> None:
        """Let pass what traps held of the clients whose ids begin with this."""
        self._each(lambda link: link.release() if link.name.startswith(beginning) else None)

    def _each(self, act: Callable[[_Link], object]) -> None:
        def over_all() -> None:
            for link in list(self.links):
                act(link)

        self.call(over_all)

    def _linked(self, broker_port: int) -> asyncio.Protocol:
        return _Link(self, broker_port).client

    @contextmanager
    def running(self) -> Iterator[Proxy]:
        """Serve for the length of a `with` block."""
        loop = self._loop
        servers = [
            loop.run_until_complete(loop.create_server(partial(self._linked, broker_port), LOOPBACK, port))
            for port, broker_port in self._routes.items()
        ]
        thread = threading.Thread(target=loop.run_forever, name="proxy", daemon=True)
        thread.start()
        try:
            yield self
        finally:
            for server in servers:
                self.call(server.close)
            self._each(_Link.end)
            self.call(lambda: None)  # Transports close in the loop's next round.
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()
