"""An HTTP server for scrapers and probes, with limits on the number, size and duration of connections."""

from __future__ import annotations

import errno
import io
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from http.client import HTTPException
from socketserver import TCPServer, ThreadingMixIn
from typing import Any, TextIO
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

import structlog
from typing_extensions import override

from ragweir.streams.runtime.machine import machine

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

LAST_PORT = 65_535
"""The largest port number."""
MAX_CONNECTIONS = 32
"""Open connections, each with a thread. One more closes the oldest one without a request."""
LIFE_SECONDS = 10.0
"""Time after which a connection is closed, even in the middle of a request or response."""
HEAD_BYTES = 16 * 1024
"""The largest size of the request line and headers together."""
_POLL_SECONDS = 0.5
_RELEASE_SECONDS = 1.0
"""Time for which the threads of closed connections are waited for."""
_MAX_UNREAD_BYTES = 256 * 1024
"""The unread bytes of a request that are discarded after its response. Closing a connection with unread input resets
it, and the response may be lost."""
_TEXT = ("Content-Type", "text/plain; charset=utf-8")

App = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
"""A WSGI application that answers GET; HEAD is derived from it."""


class _BoundedServer(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    request_queue_size = 4 * MAX_CONNECTIONS

    def __init__(self, host: str, port: int) -> None:
        self._changed = threading.Condition()
        self._open: dict[socket.socket, float] = {}
        """The open connections with the times of their accept, oldest first."""
        self._answering: set[socket.socket] = set()
        super().__init__((host, port), _Handler)

    @override
    def server_bind(self) -> None:
        """Bind without a DNS lookup of the host name."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()

    @override
    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread, if a connection is free."""
        if self._acquire(request):
            super().process_request(request, client_address)
        else:
            self.close_request(request)

    def _acquire(self, request: socket.socket) -> bool:
        with self._changed:
            if len(self._open) >= MAX_CONNECTIONS:
                waiting = (each for each in self._open if each not in self._answering)
                _disconnect(next(waiting, next(iter(self._open))))
            if not self._changed.wait_for(lambda: len(self._open) < MAX_CONNECTIONS, _RELEASE_SECONDS):
                return False
            self._open[request] = machine.monotonic()
            return True

    def on_request(self, request: socket.socket) -> None:
        """Record that a connection has sent a request."""
        with self._changed:
            self._answering.add(request)

    @override
    def service_actions(self) -> None:
        """Close connections that have lasted too long."""
        with self._changed:
            for request, began in self._open.items():
                if machine.monotonic() - began > LIFE_SECONDS:
                    _disconnect(request)

    @override
    def shutdown_request(self, request: Any) -> None:
        """Close a connection after the client has the response."""
        with suppress(OSError):
            request.shutdown(socket.SHUT_WR)
            left = _MAX_UNREAD_BYTES
            while left > 0 and (read := request.recv(left)):
                left -= len(read)
        self.close_request(request)

    @override
    def close_request(self, request: Any) -> None:
        """Close a connection and release it."""
        super().close_request(request)
        with self._changed:
            self._open.pop(request, None)
            self._answering.discard(request)
            self._changed.notify_all()

    @override
    def server_close(self) -> None:
        """Stop listening, close all connections and wait for their threads."""
        super().server_close()
        with self._changed:
            for request in self._open:
                _disconnect(request)
            self._changed.wait_for(lambda: not self._open, _RELEASE_SECONDS)

    @override
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log nothing: connections break, and errors of the application are logged where they are raised."""


class _Head:
    """A reader of a request's line and headers with a limit in bytes."""

    def __init__(self, file: io.BufferedIOBase) -> None:
        self._file, self._left = file, HEAD_BYTES

    def readline(self, size: int) -> bytes:
        """Return the next line; raise HTTPException beyond the limit."""
        line = self._file.readline(min(size, self._left + 1))
        self._left -= len(line)
        if self._left < 0:
            raise HTTPException(f"the request line and headers have over {HEAD_BYTES} bytes")
        return line


class _Handler(WSGIRequestHandler):
    timeout = LIFE_SECONDS
    default_request_version = "HTTP/1.0"  # An unreadable line would be answered as HTTP/0.9, without a status.

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
            self.server.on_request(self.connection)
        return read

    @override
    def get_stderr(self) -> TextIO:
        """Return the stream to which wsgiref writes tracebacks of responses that could not be sent."""
        return io.StringIO()

    @override
    def log_message(self, format: str, *args: Any) -> None:
        """Log no requests."""


def _disconnect(connection: socket.socket) -> None:
    """Shut a connection down, which interrupts the thread that uses it."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _with_http_rules(app: App) -> App:
    """Return the application with checks of methods, content lengths and a response to its errors."""

    def answer(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        method = environ["REQUEST_METHOD"]
        if method not in {"GET", "HEAD"}:
            start("405 Method Not Allowed", [_TEXT, ("Allow", "GET, HEAD")])
            return [b"only GET and HEAD are answered\n"]
        responses: list[tuple[str, list[tuple[str, str]]]] = []
        try:
            body = b"".join(app(environ, lambda status, headers: responses.append((status, headers))))
            ((status, headers),) = responses
        except Exception:
            log.exception("a request could not be answered")
            start("500 Internal Server Error", [_TEXT])
            return [b"internal error; the log has the reason\n"]
        start(status, [*headers, ("Content-Length", str(len(body)))])
        return [] if method == "HEAD" else [body]

    return answer


@contextmanager
def serve_app(host: str, port: int, app: App, name: str = "http") -> Iterator[int]:
    """Serve a WSGI application while the block runs; yield the port, which the system chooses if `port` is 0.

    At most `MAX_CONNECTIONS` are open at a time, for at most `LIFE_SECONDS` each. Requests and broken connections are
    not logged.

    Args:
        host: the address to listen on.
        port: the port to listen on.
        app: answers GET; called by several threads.
        name: the name of the thread that accepts connections.

    Raises:
        OSError: if the port is taken or out of range.

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
    server.set_app(_with_http_rules(app))
    thread = threading.Thread(target=server.serve_forever, args=(_POLL_SECONDS,), name=name, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
