"""The HTTP server of telemetry under clients that speak badly, slowly or not at all: it answers others in silence."""

import contextlib
import socket
import struct
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from ragweir.streams.runtime.serving import server
from ragweir.streams.runtime.serving.health import Health, serve
from ragweir.streams.runtime.serving.server import HEAD_BYTES, MAX_CONNECTIONS, serve_app
from ragweir.streams.services.instruments import telemetry_of

_PATIENCE_S = 30
_LARGE = 64 * 1024 * 1024
"""More than the buffers of both ends of a connection hold."""


@contextlib.contextmanager
def telemetry(more: Callable[[], bytes] = bytes) -> Iterator[int]:
    with serve(telemetry_of("evaluate", 0).registry, Health(not_ready=""), "127.0.0.1", 0, more) as port:
        yield port


def scraped(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=_PATIENCE_S) as answer:
        return str(answer.read().decode())


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=_PATIENCE_S)


def heard(connection: socket.socket) -> bytes:
    """All that comes until the other side ends; what a reset cut off is not missed."""
    found = b""
    with contextlib.suppress(ConnectionError):
        while part := connection.recv(65_536):
            found += part
    return found


def threads_after(before: int) -> int:
    """How many more threads there are, once those of connections have had time to end."""
    deadline = time.monotonic() + _PATIENCE_S
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.05)
    return threading.active_count() - before


@pytest.mark.slow
def test_two_hundred_silent_connections_keep_nobody_waiting(capfd: pytest.CaptureFixture[str]) -> None:
    """They take a bounded number of threads, /metrics answers beside them, and nothing is written."""
    before = threading.active_count()
    with telemetry() as port, contextlib.ExitStack() as held:
        most = 0
        for _ in range(200):
            held.enter_context(connected(port))
            most = max(most, threading.active_count())
        assert "ragweir_events_in_total" in scraped(port)
        assert 10 < most - before <= MAX_CONNECTIONS + 1
    assert threads_after(before) == 0
    assert capfd.readouterr().err == ""


ODD: dict[str, tuple[bytes, bytes]] = {
    "nothing": (b"", b""),
    "an empty line": (b"\r\n\r\n", b""),
    "bytes": (bytes(range(256)) * 4 + b"\r\n\r\n", b"400"),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\xa5" * 500 + b"\r\n\r\n", b"400"),
    "one word": (b"GET\r\n\r\n", b"400"),
    "four words": (b"GET /metrics HTTP/1.1 x\r\n\r\n", b"400"),
    "no version": (b"POST /metrics\r\n\r\n", b"400"),
    "another version": (b"GET /metrics HTTP/9.9\r\n\r\n", b"505"),
    "a version of other digits": ("GET /metrics HTTP/².²\r\n\r\n".encode("latin-1"), b"400"),
    "a long line": (b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n", b"414"),
    "a line without end": (b"GET /" + b"a" * 4 * 1024 * 1024, b""),
    "a long header": (b"GET /metrics HTTP/1.1\r\nX: " + b"a" * HEAD_BYTES + b"\r\n\r\n", b"431"),
    "long headers": (b"GET /metrics HTTP/1.1\r\n" + b"X: aaaaaaaa\r\n" * 10_000 + b"\r\n", b"431"),
    "many headers": (b"GET /metrics HTTP/1.1\r\n" + b"X: a\r\n" * 500 + b"\r\n", b"431"),
    "no header": (b"GET /metrics HTTP/1.1\r\n: : :\r\n\x00\xff\r\n\r\n", b"200"),
    "a path of bytes": (b"GET /%00%ff\xff?\x80 HTTP/1.1\r\n\r\n", b"404"),
    "a number of bytes that is none": (b"GET /metrics HTTP/1.1\r\nContent-Length: -x\r\n\r\n", b"200"),
    "a post": (b"POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", b"405"),
    "an unknown method": (b"BREW /metrics HTTP/1.1\r\n\r\n", b"405"),
    "half a line": (b"GET /met", b""),
    "half a head": (b"GET /metrics HTTP/1.1\r\nHost: a\r\n", b""),
}


@pytest.mark.heavy
@pytest.mark.parametrize(("request_", "status"), ODD.values(), ids=ODD)
def test_an_odd_request_is_answered_or_dropped_without_a_word(
    request_: bytes, status: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    """Whether its sender listens, ends its half of the connection, or breaks it off."""
    with telemetry() as port:
        with connected(port) as asking:
            with contextlib.suppress(OSError):  # It is too long to be read to its end.
                asking.sendall(request_)
                asking.shutdown(socket.SHUT_WR)
            answer = heard(asking)
        with connected(port) as gone:
            gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            with contextlib.suppress(OSError):
                gone.sendall(request_)
        assert "ragweir_events_in_total" in scraped(port)
    if status:
        assert answer.split(b"\r\n", 1)[0].split(b" ")[1] == status
    elif answer:  # What has no end is dropped, or taken for what came of it.
        assert b"Traceback" not in answer
    assert capfd.readouterr().err == ""


@pytest.mark.slow
def test_a_post_is_told_what_is_allowed() -> None:
    """Another method than GET and HEAD is rejected as RFC 9110 says."""
    with telemetry() as port:
        asked = urllib.request.Request(f"http://127.0.0.1:{port}/metrics", data=b"x")
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(asked, timeout=_PATIENCE_S)
        with refused.value as answer:
            assert (answer.code, answer.headers["Allow"]) == (405, "GET, HEAD")


@pytest.mark.slow
def test_head_is_answered_as_get_without_its_body() -> None:
    """The status and headers are those of GET, the length too."""
    with telemetry() as port, connected(port) as asking:
        asking.sendall(b"HEAD /readyz HTTP/1.1\r\n\r\n")
        head, _, body = heard(asking).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.0 200 OK")
    assert b"Content-Length: 3" in head
    assert body == b""


@pytest.mark.slow
def test_a_request_that_comes_byte_by_byte_is_cut(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """However often something comes, a connection ends at its age."""
    monkeypatch.setattr(server, "LIFE_SECONDS", 1.0)
    with telemetry() as port, connected(port) as slow:
        ended = False
        deadline = time.monotonic() + _PATIENCE_S
        while not ended and time.monotonic() < deadline:
            with contextlib.suppress(TimeoutError):
                try:
                    slow.sendall(b"x")
                    slow.settimeout(0.1)
                    ended = slow.recv(1) == b""
                except ConnectionError:
                    ended = True
        assert ended
        assert "ragweir_events_in_total" in scraped(port)
    assert capfd.readouterr().err == ""


@pytest.mark.slow
def test_readers_that_take_nothing_are_cut_for_others(capfd: pytest.CaptureFixture[str]) -> None:
    """As many as there may be ask for more than buffers hold and read none of it; the next one is answered."""
    before = threading.active_count()
    large = b"x" * _LARGE  # Once for all of them: what a test needs is not what expositions are like.

    def app(environ: dict[str, Any], start: Callable[..., Any]) -> list[bytes]:
        start("200 OK", [])
        return [large if environ["PATH_INFO"] == "/metrics" else b"ok"]

    with serve_app("127.0.0.1", 0, app) as port, contextlib.ExitStack() as held:
        for _ in range(MAX_CONNECTIONS):
            held.enter_context(connected(port)).sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=_PATIENCE_S) as answer:
            assert answer.read() == b"ok"
        assert threading.active_count() - before <= MAX_CONNECTIONS + 1
    assert threads_after(before) == 0
    assert capfd.readouterr().err == ""


@pytest.mark.slow
@pytest.mark.parametrize(("where", "bound"), [(server, "LIFE_SECONDS"), (server._Handler, "timeout")])
def test_a_slow_reader_is_cut_at_its_age(
    where: object, bound: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A reader that takes a little and no more does not hold its thread and the response for ever."""
    monkeypatch.setattr(where, bound, 1.0)
    before = threading.active_count()
    with telemetry(lambda: b"x" * _LARGE) as port, connected(port) as slow:
        slow.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        slow.recv(1000)
        assert threads_after(before + 1) == 0, "only the one that accepts is left"
    assert capfd.readouterr().err == ""


def test_an_error_of_the_application_is_an_answer_and_one_line_of_the_log() -> None:
    """It is neither silent nor the end of the server."""

    def app(environ: dict[str, Any], start: Callable[..., Any]) -> list[bytes]:
        if environ["PATH_INFO"] == "/broken":
            raise ZeroDivisionError
        start("200 OK", [])
        return [b"well"]

    with capture_logs() as logged, serve_app("127.0.0.1", 0, app) as port:
        with pytest.raises(urllib.error.HTTPError) as failed:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/broken", timeout=_PATIENCE_S)
        with failed.value as answer:
            assert answer.code == 500
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=_PATIENCE_S) as answer:
            assert answer.read() == b"well"
    assert [(line["event"], line["log_level"]) for line in logged] == [("a request could not be answered", "error")]


@pytest.mark.slow
def test_a_server_ends_while_connections_are_open() -> None:
    """Its thread and those of its connections end, and the port is free."""
    before = threading.active_count()
    with serve(CollectorRegistry(), Health(), "127.0.0.1", 0) as port:
        idle = connected(port)
        scraped(port)
    with idle:
        assert threads_after(before) == 0
        with serve(CollectorRegistry(), Health(), "127.0.0.1", port) as again:
            assert again == port
