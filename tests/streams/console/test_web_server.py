"""The console's HTTP server under clients that say nothing, speak slowly, or never listen: it answers the others."""

import contextlib
import logging
import socket
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from ragweir.errors import PermanentError
from ragweir.streams.console import web_server
from ragweir.streams.console.web_server import MAX_CONNECTIONS, SECONDS, BoundedConnection, listen, served
from ragweir.streams.settings.console import ConsoleSettings

_PATIENCE_S = 30
_LARGE = 8 * 1024 * 1024
"""More than the buffers of both ends of a connection hold."""
_GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
_LAST = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"


async def page(request: Request) -> Response:
    address = request.client.host if request.client else "nobody"
    return PlainTextResponse(f"{address} {request.url.scheme} {len(await request.body())}")


def large(_: Request) -> Response:
    return Response(b"x" * _LARGE)


APP = Starlette(routes=[Route("/", page, methods=["GET", "POST"]), Route("/large", large)])


@contextlib.contextmanager
def running(**settings: object) -> Iterator[int]:
    own = ConsoleSettings.model_validate({"port": 0, **settings})
    with listen(own) as (listening, _), served(APP, listening):
        yield 0 if own.socket else listening.getsockname()[1]


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=_PATIENCE_S)


def heard(connection: socket.socket) -> bytes:
    """All that comes until the other side ends; what a reset cut off is not missed."""
    found = bytearray()
    with contextlib.suppress(ConnectionError):
        while part := connection.recv(65_536):
            found += part
    return bytes(found)


def asked(port: int, request: bytes = _LAST) -> bytes:
    with connected(port) as connection:
        connection.sendall(request)
        return heard(connection)


@pytest.mark.slow
def test_a_thousand_idle_and_slow_connections_keep_nobody_waiting(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Each says nothing, half a head or half a body. As many as may be open are, and the page answers beside them."""
    for phase in SECONDS:  # The cap alone, without the time limits.
        monkeypatch.setitem(SECONDS, phase, 600)
    parts = (b"", b"GET / HTTP/1.1\r\nHo", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc")
    with running() as port, contextlib.ExitStack() as held:
        those = []
        for number in range(1_000):
            those.append(held.enter_context(connected(port)))
            with contextlib.suppress(ConnectionError):
                those[-1].sendall(parts[number % 3])
            if number % 200 == 0:
                assert asked(port).endswith(b"127.0.0.1 http 0")
        assert asked(port).endswith(b"127.0.0.1 http 0")
        # The oldest were closed: each but the last ones, and one for each that was answered.
        assert all(heard(each) == b"" for each in those[: 1_000 - MAX_CONNECTIONS])
    assert capfd.readouterr().err == ""


@pytest.mark.slow
def test_those_whose_request_is_being_answered_are_closed_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_server, "MAX_CONNECTIONS", 4)
    with running() as port, contextlib.ExitStack() as held:
        slow = held.enter_context(connected(port))
        slow.sendall(b"GET /large HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        begin = slow.recv(1)
        for _ in range(20):
            held.enter_context(connected(port))
        assert asked(port).endswith(b"127.0.0.1 http 0")
        assert len(begin + heard(slow)) > _LARGE


@pytest.mark.slow
@pytest.mark.parametrize(
    ("phase", "sent"),
    [
        ("silent", b""),
        ("head", b"GET / HTTP/1.1\r\nHo"),
        ("head", _GET + b"GET / HTTP/1.1\r\nHo"),
        ("body", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc"),
        ("answer", b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n"),
        ("silent", _GET),
    ],
)
def test_a_connection_is_closed_when_a_part_of_a_request_takes_too_long(
    phase: str, sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the time limit of that part alone."""
    for each in SECONDS:
        monkeypatch.setitem(SECONDS, each, 0.3 if each == phase else 600)
    closed = threading.Event()
    abort = BoundedConnection.abort
    monkeypatch.setattr(BoundedConnection, "abort", lambda connection: (abort(connection), closed.set()))
    with running() as port, connected(port) as slow:
        slow.sendall(sent)
        assert closed.wait(_PATIENCE_S)  # Before it reads.
        assert len(heard(slow)) < _LARGE
        monkeypatch.setitem(SECONDS, phase, 600)
        assert asked(port).endswith(b"127.0.0.1 http 0")


@pytest.mark.slow
def test_a_connection_serves_several_requests() -> None:
    with running() as port, connected(port) as client:
        client.sendall(_GET + _GET + _LAST)
        assert heard(client).count(b"127.0.0.1 http 0") == 3


@pytest.mark.slow
def test_no_header_of_a_proxy_is_believed() -> None:
    with running() as port:
        answer = asked(
            port,
            b"GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 10.1.2.3\r\nX-Forwarded-Proto: https\r\n"
            b"Forwarded: for=10.1.2.3\r\nConnection: close\r\n\r\n",
        )
    assert answer.endswith(b"127.0.0.1 http 0")


@pytest.mark.slow
def test_no_request_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Also by a logger that somebody has made louder: an address may repeat what an event said."""
    with running() as port, caplog.at_level(logging.DEBUG, "uvicorn.access"), caplog.at_level(logging.DEBUG):
        assert asked(port, b"GET /?q=secret HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").endswith(b"http 0")
    assert "secret" not in caplog.text


ODD: dict[str, tuple[bytes, bytes]] = {
    "nothing": (b"", b""),
    "an empty line": (b"\r\n\r\n", b""),
    "bytes": (bytes(range(256)) * 4 + b"\r\n\r\n", b"400"),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\xa5" * 500 + b"\r\n\r\n", b"400"),
    "one word": (b"GET\r\n\r\n", b"400"),
    "no host": (b"GET / HTTP/1.1\r\n\r\n", b"400"),
    "two hosts": (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", b"400"),
    "a long line": (b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n", b"400"),
    "a long header": (b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 1_000_000 + b"\r\n\r\n", b"400"),
    "many headers": (b"GET / HTTP/1.1\r\nHost: a\r\n" + b"X: a\r\n" * 200_000 + b"\r\n", b"400"),
    "a length that is none": (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -x\r\n\r\n", b"400"),
    "two lengths": (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", b"400"),
    "a length and chunks": (
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"",
    ),
    "a WebSocket": (b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, close\r\nUpgrade: websocket\r\n\r\n", b"200"),
    "half a head": (b"GET / HTTP/1.1\r\nHost: a\r\n", b""),
}


@pytest.mark.slow
@pytest.mark.parametrize(("request_", "status"), ODD.values(), ids=ODD)
def test_an_odd_request_is_answered_or_dropped_without_a_word(
    request_: bytes, status: bytes, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for each in SECONDS:
        monkeypatch.setitem(SECONDS, each, 600 if status else 0.3)
    with running() as port:
        with connected(port) as asking:
            with contextlib.suppress(OSError):  # It is too long to be read to its end.
                asking.sendall(request_)
            answer = heard(asking)
        for each in SECONDS:
            monkeypatch.setitem(SECONDS, each, 600)
        assert asked(port).endswith(b"127.0.0.1 http 0")
    if status:
        assert answer.split(b"\r\n", 1)[0].split(b" ")[1] == status
    assert b"Traceback" not in answer
    assert capfd.readouterr().err == ""
    assert logging.getLogger("uvicorn.error").level >= logging.CRITICAL


@pytest.mark.slow
def test_only_the_user_of_the_console_may_connect_to_its_socket(tmp_path: Path) -> None:
    """Also where the mask of the process permits everything."""
    path = tmp_path / "console.sock"
    for _ in range(2):
        with running(socket=path):
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            with socket.socket(socket.AF_UNIX) as client:
                client.settimeout(_PATIENCE_S)
                client.connect(str(path))
                client.sendall(_LAST)
                assert heard(client).endswith(b"http 0")
        assert not path.exists()


@pytest.mark.slow
def test_a_socket_that_a_killed_process_left_is_replaced_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "console.sock"
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(str(path))
    with running(socket=path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        with pytest.raises(PermanentError, match="cannot listen on"), running(socket=path):
            pass
        assert path.exists()
    path.write_text("no socket")
    with pytest.raises(PermanentError, match="cannot listen on"), running(socket=path):
        pass
    assert path.read_text() == "no socket"


@pytest.mark.slow
def test_a_port_that_is_taken_is_named() -> None:
    with running() as port, pytest.raises(PermanentError, match=f"127.0.0.1:{port}"), running(port=port):
        pass
