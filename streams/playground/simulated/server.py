"""The simulated judge over HTTP, on an event loop in another thread, with kept-alive connections and delayed answers.

A delayed answer costs one timer. On one core the loop answered 1.1 to 1.3 times as many requests a second as the
standard library's threaded server.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from typing import Any, TypeVar

from ragweir.streams.playground.simulated.endpoint import Endpoint, Options, Request
from ragweir.streams.playground.simulated.faults import Faults
from ragweir.streams.playground.simulated.openai_api import Reply
from ragweir.streams.runtime.machine import machine

LOOPBACK = "127.0.0.1"
_HEAD_BYTES = 64 * 1024
_BODY_BYTES = 16 * 1024 * 1024
_BACKLOG = 1_024
"""Connections that may wait to be accepted; others are retried by TCP a second later."""
T = TypeVar("T")


class SimulatedJudge:
    """A running simulated judge. Its methods may be called from any thread."""

    def __init__(self, endpoint: Endpoint, loop: asyncio.AbstractEventLoop, base_url: str) -> None:
        self._endpoint, self._loop = endpoint, loop
        self.base_url = base_url
        """Base URL of its API, such as http://127.0.0.1:8089/v1."""

    def calls(self) -> dict[str, Any]:
        """Return the calls, as GET /admin/calls does."""
        return self._on_loop(self._endpoint.calls)

    def set_faults(self, **changes: Any) -> Faults:
        """Set the initial faults with these changes of fields of `Faults`; schedule and random numbers start again.

        Raises:
            WrongFaults: if the changes are invalid.
        """
        return self._on_loop(lambda: self._endpoint.set_faults(changes, machine.time()))

    def _on_loop(self, call: Callable[[], T]) -> T:
        async def called() -> T:
            return call()

        return asyncio.run_coroutine_threadsafe(called(), self._loop).result()


@contextmanager
def simulated_judge(
    host: str = LOOPBACK, port: int = 0, *, faults: Faults | None = None, **options: Any
) -> Iterator[SimulatedJudge]:
    """Run a simulated judge in this process for the length of a `with` block.

    Args:
        host: the address to listen on.
        port: the port to listen on; 0 lets the system choose.
        faults: the faults, until others are set; none by default.
        options: fields of `Options`.

    Raises:
        OSError: if it cannot listen on the port.
    """
    endpoint = Endpoint(Options(**options), faults or Faults(), machine.time())
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        connections: set[asyncio.Task[None]] = set()
        server = runner.run(_listen(endpoint, host, port, connections))
        bound = server.sockets[0].getsockname()[1]
        thread = threading.Thread(target=loop.run_forever, name="simulated-judge", daemon=True)
        thread.start()
        try:
            yield SimulatedJudge(endpoint, loop, f"http://{f'[{host}]' if ':' in host else host}:{bound}/v1")
        finally:
            asyncio.run_coroutine_threadsafe(_close(server, connections), loop).result()
            loop.call_soon_threadsafe(loop.stop)
            thread.join()


async def _listen(endpoint: Endpoint, host: str, port: int, connections: set[asyncio.Task[None]]) -> asyncio.Server:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            connections.add(task)
            task.add_done_callback(connections.discard)
        try:
            # A client may disconnect at any time.
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                while await _serve_one(endpoint, reader, writer):
                    pass
            writer.close()
        except asyncio.CancelledError:  # The server stops.
            writer.transport.abort()

    return await asyncio.start_server(connected, host, port, limit=_HEAD_BYTES, backlog=_BACKLOG)


async def _close(server: asyncio.Server, connections: set[asyncio.Task[None]]) -> None:
    server.close()
    for connection in connections:
        connection.cancel()
    await asyncio.gather(*connections, return_exceptions=True)
    await asyncio.sleep(0)  # Transports close in the next iteration of the loop.


async def _serve_one(endpoint: Endpoint, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """Answer one request; return true if another may follow on the connection.

    Raises:
        IncompleteReadError: if the connection ends.
    """
    read = await _read(reader)
    reply = read if isinstance(read, Reply) else endpoint.respond(read, machine.time())
    if reply.ending == "never":
        await reader.read()
        return False
    if reply.delay_s:
        await asyncio.sleep(reply.delay_s)
    last = isinstance(read, Reply) or reply.ending == "cut" or read.headers.get("connection", "").lower() == "close"
    head = _head(reply, last=last)
    writer.write(head + reply.body[: len(reply.body) // 2] if reply.ending == "cut" else head + reply.body)
    await writer.drain()
    return not last


async def _read(reader: asyncio.StreamReader) -> Request | Reply:
    """Return the next request, or the error reply to one that cannot be read."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        method, path, _ = first.split(" ")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        length = int(headers.get("content-length", "0"))
    except (asyncio.LimitOverrunError, ValueError):
        return Reply(HTTPStatus.BAD_REQUEST, b"")
    if "transfer-encoding" in headers:
        return Reply(HTTPStatus.LENGTH_REQUIRED, b"")
    if not 0 <= length <= _BODY_BYTES:
        return Reply(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, b"")
    return Request(method, path.partition("?")[0], headers, await reader.readexactly(length))


def _head(reply: Reply, *, last: bool) -> bytes:
    headers = {
        "Content-Type": "application/json",
        "Content-Length": str(len(reply.body)),
        **({"Connection": "close"} if last else {}),
        **reply.headers,
    }
    lines = [f"HTTP/1.1 {reply.status} {HTTPStatus(reply.status).phrase}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")
