"""The console's HTTP server: uvicorn in a thread, with limits on the number and the duration of connections.

uvicorn closes no connection that sends nothing, and its `limit_concurrency` turns everybody away while such ones last.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

import h11
import uvicorn
from starlette.types import ASGIApp
from typing_extensions import override
from uvicorn.protocols.http.h11_impl import H11Protocol

from ragweir.errors import PermanentError
from ragweir.streams.console.request_counts import RequestCounts
from ragweir.streams.runtime.serving.server import HEAD_BYTES, LAST_PORT
from ragweir.streams.settings.console import ConsoleSettings

MAX_CONNECTIONS = 128
"""Open connections. One more closes the oldest one without a whole request."""
_Phase = Literal["silent", "head", "body", "answer"]
SECONDS: Final[dict[_Phase, float]] = {"silent": 5, "head": 10, "body": 10, "answer": 60}
"""Time that a connection may take: until the first byte of a request, until its headers are whole, until its body is,
and until the answer is sent."""
_STOP_SECONDS = 2
_OWNER_ONLY = stat.S_IRUSR | stat.S_IWUSR


class BoundedConnection(H11Protocol):
    """A connection that is closed when a part of a request or its answer takes too long, or others need its place."""

    _phase: _Phase = "silent"
    _deadline: asyncio.TimerHandle | None = None
    _began_s = 0.0
    is_aborted = False
    """True if the connection is closed, though the loop has not done so yet."""

    def __init__(self, *given: Any, counts: RequestCounts, **named: Any) -> None:
        super().__init__(*given, **named)
        self._counts = counts

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._began_s = self.loop.time()
        self._enter("silent")
        _make_room(self.connections)

    @override
    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._enter(self._present())

    @override
    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._enter(self._present())

    @override
    def resume_writing(self) -> None:
        super().resume_writing()
        self._enter(self._present())

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        super().connection_lost(exc)

    @property
    def has_request(self) -> bool:
        """True if a whole request was read, and its answer is not sent to its end."""
        return self._phase == "answer"

    @property
    def age(self) -> float:
        """The time of the accept: the least is the oldest."""
        return self._began_s

    def abort(self, reason: str = "late") -> None:
        """Close the connection at once."""
        self.is_aborted = True
        self._counts.count("ragweir_console_connections_closed_total", reason)
        self.transport.abort()

    def _present(self) -> _Phase:
        # uvicorn takes an answer for complete that it has given to the operating system only in part.
        if self.flow.write_paused:
            return "answer"
        if self.cycle is None or self.cycle.response_complete:  # type: ignore[redundant-expr] # None before the first
            return "head" if self.conn.trailing_data[0] else "silent"
        return "body" if self.conn.their_state is h11.SEND_BODY else "answer"

    def _enter(self, phase: _Phase) -> None:
        if self._deadline is not None:
            if phase == self._phase:
                return
            self._deadline.cancel()
        self._phase = phase
        self._deadline = self.loop.call_later(SECONDS[phase], self.abort)


def _make_room(connections: Any) -> None:
    """Close the oldest connection without a whole request, or else the oldest one, if there are too many."""
    those = [each for each in connections if not each.is_aborted]
    if len(those) > MAX_CONNECTIONS:
        min(those, key=lambda each: (each.has_request, each.age)).abort("crowded")


@contextmanager
def served(app: ASGIApp, listening: socket.socket, counts: RequestCounts | None = None) -> Iterator[None]:
    """Serve an application on a socket that listens, while the block runs.

    Requests are not logged, and no header of a proxy is believed.

    Args:
        app: the application.
        listening: the socket.
        counts: counts the connections that are closed; None for counts that nobody reads.
    """
    config = uvicorn.Config(
        app,
        http=partial(BoundedConnection, counts=counts or RequestCounts()),  # type: ignore[arg-type] # it is called only
        ws="none",
        loop="asyncio",
        lifespan="off",
        proxy_headers=False,
        access_log=False,
        server_header=False,
        log_config=None,
        log_level="critical",
        backlog=MAX_CONNECTIONS,
        h11_max_incomplete_event_size=HEAD_BYTES,
        timeout_keep_alive=int(SECONDS["answer"]),  # The limits above are lower.
        timeout_graceful_shutdown=_STOP_SECONDS,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listening],), name="console", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join(2 * _STOP_SECONDS)


@contextmanager
def listen(settings: ConsoleSettings) -> Iterator[tuple[socket.socket, str]]:
    """Listen where the settings say while the block runs; yield the socket and the address that people use.

    Raises:
        PermanentError: if the port or the path cannot be used.
    """
    try:
        if settings.socket is not None:
            listening, address = listen_on_path(settings.socket), settings.public_url or "http://localhost"
        else:
            listening = listen_on_port(settings.host, settings.port)
            host = f"[{settings.host}]" if ":" in settings.host else settings.host
            address = settings.public_url or f"http://{host}:{listening.getsockname()[1]}"
    except OSError as error:
        place = settings.socket or f"{settings.host}:{settings.port}"
        raise PermanentError(f"the console cannot listen on {place}: {error.strerror}") from None
    with listening:
        yield listening, address
    if settings.socket is not None:
        settings.socket.unlink(missing_ok=True)


def listen_on_port(host: str, port: int) -> socket.socket:
    """Return a socket that listens on a port; 0 lets the system choose.

    Raises:
        OSError: if the port is taken or out of range.
    """
    if not 0 <= port <= LAST_PORT:
        raise OSError(errno.EINVAL, f"ports end at {LAST_PORT}")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=MAX_CONNECTIONS)


def listen_on_path(path: Path) -> socket.socket:
    """Return a Unix socket that listens at a path, to which only this process's user may connect.

    A socket that another process has left there is replaced.

    Raises:
        OSError: if something else is there, or a process listens on it.
    """
    listening = socket.socket(socket.AF_UNIX)
    try:
        with suppress(FileNotFoundError):
            if stat.S_ISSOCK(path.lstat().st_mode) and not _is_answered(path):
                path.unlink()
        # The mode of the file is that of the socket as it is bound: nobody can connect before the second call.
        os.fchmod(listening.fileno(), _OWNER_ONLY)
        listening.bind(str(path))
        path.chmod(_OWNER_ONLY)
        listening.listen(MAX_CONNECTIONS)
    except BaseException:
        listening.close()
        raise
    return listening


def _is_answered(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as asking:
        asking.settimeout(1)
        try:
            asking.connect(str(path))
        except ConnectionRefusedError:
            return False
    return True
