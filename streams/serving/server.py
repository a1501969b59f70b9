"""A small HTTP server for scrapers and probes, whose connections are bounded in number, size and time."""

from __future__ import annotations

import errno
import io
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from http.client import HTTPException
from socketserver import TCPServer, ThreadingMixIn
from typing import Any, TextIO
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

import structlog
from typing_extensions import override

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

LAST_PORT = 65_535
"""A service's port is the base plus its own offset, which may lead beyond it."""
MOST_CONNECTIONS = 32
"""Connections at a time, each with a thread. One more takes the place of the oldest that has not asked anything yet."""
LIFE_S = 10.0
"""Seconds after which a connection is cut, however far its request or its response has come."""
HEAD_BYTES = 16 * 1024
"""The longest request line and headers together."""
_LOOK_S = 0.5
_RELEASE_S = 1.0
"""The time in seconds for which the threads of connections that were cut are waited for."""
_REST_BYTES = 256 * 1024
"""The bytes of a request that are read and thrown away after its response. A connection that is closed with unread
input is reset, and the response may be lost with it."""
_TEXT = ("Content-Type", "text/plain; charset=utf-8")

App = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
"""A WSGI application, which answers GET; HEAD follows from it."""


class _BoundedServer(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    request_queue_size = 4 * MOST_CONNECTIONS

    def __init__(self, host: str, port: int) -> None:
        self._changed = threading.Condition()
        self._open: dict[socket.socket, float] = {}
        """The time at which each connection was accepted, oldest first."""
        self._answering: set[socket.socket] = set()
        super().__init__((host, port), _Handler)

    @override
    def server_bind(self) -> None:
        """Bind without asking the name service what this host is called."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()

    @override
    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread, once there is room."""
        if self._admitted(request):
            super().process_request(request, client_address)
        else:
            self.close_request(request)

    def _admitted(self, request: socket.socket) -> bool:
        with self._changed:
            if len(self._open) >= MOST_CONNECTIONS:
                waiting = (each for each in self._open if each not in self._answering)
                _cut(next(waiting, next(iter(self._open))))
            if not self._changed.wait_for(lambda: len(self._open) < MOST_CONNECTIONS, _RELEASE_S):
                return False
            self._open[request] = time.monotonic()
            return True

    def answers(self, request: socket.socket) -> None:
        """A connection has asked something."""
        with self._changed:
            self._answering.add(request)

    @override
    def service_actions(self) -> None:
        """Cut connections that have lasted too long."""
        with self._changed:
            for request, began in self._open.items():
                if time.monotonic() - began > LIFE_S:
                    _cut(request)

    @override
    def shutdown_request(self, request: Any) -> None:
        """Close a connection so that its last bytes arrive."""
        with suppress(OSError):
            request.shutdown(socket.SHUT_WR)
            left = _REST_BYTES
            while left > 0 and (read := request.recv(left)):
                left -= len(read)
        self.close_request(request)

    @override
    def close_request(self, request: Any) -> None:
        """Close a connection and make room for another."""
        super().close_request(request)
        with self._changed:
            self._open.pop(request, None)
            self._answering.discard(request)
            self._changed.notify_all()

    @override
    def server_close(self) -> None:
        """Stop listening, cut all connections and wait for their threads."""
        super().server_close()
        with self._changed:
            for request in self._open:
                _cut(request)
            self._changed.wait_for(lambda: not self._open, _RELEASE_S)

    @override
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: connections break, and the application's own errors are logged where they are raised."""


class _Head:
    """A reader of a request's line and headers that gives no more than so many bytes."""

    def __init__(self, file: io.BufferedIOBase) -> None:
        self._file, self._left = file, HEAD_BYTES

    def readline(self, size: int) -> bytes:
        """The next line.

        Raises:
            HTTPException: if there is too much.
        """
        line = self._file.readline(min(size, self._left + 1))
        self._left -= len(line)
        if self._left < 0:
            raise HTTPException(f"the request line and headers have over {HEAD_BYTES} bytes")
        return line


class _Handler(WSGIRequestHandler):
    timeout = LIFE_S
    default_request_version = "HTTP/1.0"  # Else a line that cannot be read is answered as HTTP/0.9, without a status.

    @override
    def handle(self) -> None:
        """Answer one request."""
        file = self.rfile
        self.rfile = _Head(file)  # type: ignore[assignment] # Only lines are read from it.
        try:
            super().handle()
        except HTTPException as error:
            self.requestline = self.command = self.request_version = ""
            self.send_error(HTTPStatus.REQUEST_URI_TOO_LONG, explain=str(error))
        finally:
            self.rfile = file

    @override
    def parse_request(self) -> bool:
        """Read the headers."""
        read = super().parse_request()
        if read and isinstance(self.server, _BoundedServer):
            self.server.answers(self.connection)
        return read

    @override
    def get_stderr(self) -> TextIO:
        """Return the stream to which wsgiref writes tracebacks of responses that could not be sent."""
        return io.StringIO()

    @override
    def log_message(self, format: str, *args: Any) -> None:
        """Requests of a scraper are no news."""


def _cut(connection: socket.socket) -> None:
    """End a connection; the thread that reads from it or writes to it finds out at once."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _guarded(app: App) -> App:
    """The application behind what any of them needs: methods, lengths, and an answer to its own errors."""

    def answer(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        method = environ["REQUEST_METHOD"]
        if method not in {"GET", "HEAD"}:
            start("405 Method Not Allowed", [_TEXT, ("Allow", "GET, HEAD")])
            return [b"only GET and HEAD are answered\n"]
        said: list[tuple[str, list[tuple[str, str]]]] = []
        try:
            body = b"".join(app(environ, lambda status, headers: said.append((status, headers))))
            ((status, headers),) = said
        except Exception:
            log.exception("a request could not be answered")
            start("500 Internal Server Error", [_TEXT])
            return [b"the log says what is wrong\n"]
        start(status, [*headers, ("Content-Length", str(len(body)))])
        return [] if method == "HEAD" else [body]

    return answer


@contextmanager
def serve_app(host: str, port: int, app: App, name: str = "http") -> Iterator[int]:
    """Serve a WSGI application while the block runs; gives the port, which the system chooses when `port` is 0.

    At most `MOST_CONNECTIONS` are open at a time, for at most `LIFE_S` seconds each. Neither requests nor connections
    that break write to standard error.

    Args:
        host: the address to listen on.
        port: the port to listen on.
        app: answers GET, in any thread.
        name: of the thread that accepts connections.

    Raises:
        OSError: if the port is taken, or is none.

    >>> from urllib.request import urlopen
    >>> def app(environ, start):
    ...     start("200 OK", [("Content-Type", "text/plain")])
    ...     return [b"hello"]
    >>> with serve_app("127.0.0.1", 0, app) as port, urlopen(f"http://127.0.0.1:{port}/") as answer:
    ...     answer.read()
    b'hello'
    """
    if not 0 <= port <= LAST_PORT:
        raise OSError(errno.EINVAL, f"ports end at {LAST_PORT}")
    server = _BoundedServer(host, port)
    server.set_app(_guarded(app))
    thread = threading.Thread(target=server.serve_forever, args=(_LOOK_S,), name=name, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
