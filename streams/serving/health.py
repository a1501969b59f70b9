"""The HTTP server of a service: /metrics, /healthz (the loop is alive), /readyz (it can do its work)."""

from __future__ import annotations

import gzip
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from ragweir.streams.serving.server import App, serve_app

STALLED_S = 60.0
"""A loop that has not come round for this long is not alive. A batch is bounded in bytes and takes far less."""
_END_OF_OPENMETRICS = b"# EOF\n"


@dataclass(slots=True)
class Health:
    """What a service's loop says of itself. Written by the loop, read by the server's threads."""

    not_ready: str = "starting"
    """Why the service cannot work now; empty when it can."""
    last_alive_s: float = field(default_factory=time.monotonic)
    heartbeat: Callable[[], object] = lambda: None
    """Called by each call of `alive`."""

    def alive(self) -> None:
        """Record an iteration of the loop."""
        self.last_alive_s = time.monotonic()
        self.heartbeat()

    def beating(self, stopped: Callable[[], bool]) -> Callable[[], bool]:
        """Return a function that calls `alive` and returns `stopped()`, for loops that wait.

        >>> health = Health(last_alive_s=0.0)
        >>> health.beating(lambda: True)(), health.stalled
        (True, False)
        """

        def stopped_and_alive() -> bool:
            self.alive()
            return stopped()

        return stopped_and_alive

    @property
    def stalled(self) -> bool:
        """Return whether the loop has stopped coming round."""
        return time.monotonic() - self.last_alive_s > STALLED_S


def exposition(registry: CollectorRegistry, more: bytes, accept: str) -> tuple[bytes, str]:
    """What a scraper gets, in the format that it accepts, and that format's content type.

    Args:
        registry: the service's own instruments.
        more: further lines, which are the same in all formats.
        accept: the request's header.
    """
    encode, content_type = choose_encoder(accept)
    own = encode(registry)
    if own.endswith(_END_OF_OPENMETRICS):
        return own.removesuffix(_END_OF_OPENMETRICS) + more + _END_OF_OPENMETRICS, content_type
    return own + more, content_type


def telemetry_app(registry: CollectorRegistry, health: Health, more: Callable[[], bytes] = bytes) -> App:
    """Return the WSGI application of /metrics, /healthz and /readyz.

    Args:
        registry: the instruments of /metrics.
        health: the state that /healthz and /readyz show.
        more: further lines of /metrics.
    """

    def metrics(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        body, content_type = exposition(registry, more(), environ.get("HTTP_ACCEPT", ""))
        headers = [("Content-Type", content_type)]
        if "gzip" in environ.get("HTTP_ACCEPT_ENCODING", ""):
            # The fastest level: a scrape of many series is to cost little, and labels repeat so much that it suffices.
            body = gzip.compress(body, compresslevel=1)
            headers.append(("Content-Encoding", "gzip"))
        start("200 OK", headers)
        return [body]

    def say(start: Callable[..., Any], problem: str) -> Iterable[bytes]:
        start("503 Service Unavailable" if problem else "200 OK", [("Content-Type", "text/plain; charset=utf-8")])
        return [f"{problem or 'ok'}\n".encode()]

    def app(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        match environ["PATH_INFO"]:
            case "/metrics":
                return metrics(environ, start)
            case "/healthz":
                return say(start, "the loop has stalled" if health.stalled else "")
            case "/readyz":
                return say(start, health.not_ready)
        start("404 Not Found", [("Content-Type", "text/plain; charset=utf-8")])
        return [b"try /metrics, /healthz or /readyz\n"]

    return app


@contextmanager
def serve(
    registry: CollectorRegistry, health: Health, host: str, port: int, more: Callable[[], bytes] = bytes
) -> Iterator[int]:
    """Serve while the block runs; gives the port, which the system chooses when `port` is 0.

    Args:
        registry: what /metrics shows.
        health: what /healthz and /readyz show.
        host: the address to listen on.
        port: the port to listen on.
        more: lines that /metrics shows beside the registry's.

    Raises:
        OSError: if the port is taken, or is none.
    """
    with serve_app(host, port, telemetry_app(registry, health, more), "telemetry") as bound:
        yield bound
