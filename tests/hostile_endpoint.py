"""A server on loopback that writes raw bytes: what tests of a hostile endpoint share."""

import json
import socket
import socketserver
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from ragweir.metrics.judged.framing import unframed


@dataclass(frozen=True)
class Request:
    """One request as it came."""

    head: str
    body: bytes

    @property
    def check(self) -> str:
        """The check word of a question."""
        return unframed(json.loads(self.body)["messages"][0]["content"], "")[2]


Attack = Callable[[Request], Iterable[bytes]]
_TYPE = b"Content-Type: application/json\r\n"


@dataclass
class Hostile:
    """A server that answers each request with what an attack writes, and closes the connection after it."""

    attack: Attack
    requests: list[Request] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)
    port: int = 0
    stays: bool = False
    """Whether connections stay open for further requests."""

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def serve(self, connection: socket.socket) -> None:
        reader = connection.makefile("rb")
        while not self.stop.is_set():
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                line = reader.readline()
                if not line:
                    return
                head += line
            length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            request = Request(head.decode(), reader.read(length))
            self.requests.append(request)
            for piece in self.attack(request):
                # Said beforehand, or the next request may meet a connection that is just being closed.
                connection.sendall(piece if self.stays else piece.replace(_TYPE, _TYPE + b"Connection: close\r\n", 1))
                if self.stop.is_set():
                    return
            if not self.stays:
                return


@contextmanager
def hostile(attack: Attack, *, stays: bool = False) -> Iterator[Hostile]:
    server = Hostile(attack, stays=stays)

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with suppress(OSError):  # The client leaves when it has had enough.
                server.serve(self.request)

    class Threaded(socketserver.ThreadingTCPServer):
        daemon_threads = True
        allow_reuse_address = True
        request_queue_size = 64

    with Threaded(("127.0.0.1", 0), Handler) as listening:
        server.port = listening.server_address[1]
        thread = threading.Thread(target=listening.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.stop.set()
            listening.shutdown()
            thread.join()


def http(body: bytes, status: str = "200 OK", *headers: str, length: int | None = None) -> bytes:
    lines = [f"HTTP/1.1 {status}", "Content-Type: application/json", *headers]
    lines += [f"Content-Length: {len(body) if length is None else length}"]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def said(text: str, **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
    return {
        "id": "a",
        "model": "a model",
        "choices": [choice],
        "usage": {"prompt_tokens": 100, "completion_tokens": 10},
        **more,
    }


def good(request: Request, **more: Any) -> dict[str, Any]:
    """A usable answer."""
    return said(json.dumps({"score": 0.5, "check": request.check}), **more)
