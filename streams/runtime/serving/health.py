"""The HTTP server of a service: /metrics, /healthz (its loop runs) and /readyz (it can work)."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from ragweir.streams.runtime.awake import done_in_time
from ragweir.streams.runtime.machine import machine
from ragweir.streams.runtime.serving.port_holder import PortHolder
from ragweir.streams.runtime.serving.server import App, serve_app

STALLED_SECONDS = 60.0
"""Time without an iteration after which a loop is stalled. A batch is limited in bytes and takes far less."""
_GRACE_SECONDS = 0.3
_END_OF_OPENMETRICS = b"# EOF\n"


@dataclass(slots=True)
class Health:
    """The state of a service's loop. Written by the loop, read by the server's threads."""

    not_ready: str = "starting"
    """The reason why the service is not ready; empty if it is."""
    last_alive_s: float = field(default_factory=machine.monotonic)
    heartbeat: Callable[[], object] = lambda: None
    """Called by each call of `alive`."""

    def alive(self) -> None:
        """Record an iteration of the loop."""
        self.last_alive_s = machine.monotonic()
        self.heartbeat()

    def with_heartbeat(self, stopped: Callable[[], bool]) -> Callable[[], bool]:
        """Return a function that calls `alive` and returns `stopped()`, for loops that wait.

        >>> health = Health(last_alive_s=0.0)
        >>> health.with_heartbeat(lambda: True)(), health.stalled
        (True, False)
        """

        def stopped_and_alive() -> bool:
            self.alive()
            return stopped()

        return stopped_and_alive

    @property
    def stalled(self) -> bool:
        """True if the last iteration of the loop is too long ago, and none follows while this is asked."""
        last = self.last_alive_s

        def iterates(within_s: float) -> bool:
            machine.sleep(within_s)
            return self.last_alive_s != last

        # After the process was suspended, the loop may not have run yet.
        return machine.monotonic() - last > STALLED_SECONDS and not done_in_time(iterates, _GRACE_SECONDS)


def exposition(registry: CollectorRegistry, more: bytes, accept: str) -> tuple[bytes, str]:
    """Return the body of /metrics with further lines, in the format of the Accept header, and its content type."""
    encode, content_type = choose_encoder(accept)
    own = encode(registry)
    if own.endswith(_END_OF_OPENMETRICS):
        return own.removesuffix(_END_OF_OPENMETRICS) + more + _END_OF_OPENMETRICS, content_type
    return own + more, content_type


def telemetry_app(
    registry: CollectorRegistry, health: Health, identity: PortHolder | None, more: Callable[[], bytes] = bytes
) -> App:
    """Return the WSGI application of /metrics, to which `more` adds lines, /healthz, /readyz and /identity."""

    def metrics(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        body, content_type = exposition(registry, more(), environ.get("HTTP_ACCEPT", ""))
        headers = [("Content-Type", content_type)]
        if "gzip" in environ.get("HTTP_ACCEPT_ENCODING", ""):
            # Labels repeat so much that the fastest level is sufficient.
            body = gzip.compress(body, compresslevel=1)
            headers.append(("Content-Encoding", "gzip"))
        start("200 OK", headers)
        return [body]

    def respond(start: Callable[..., Any], problem: str) -> Iterable[bytes]:
        start("503 Service Unavailable" if problem else "200 OK", [("Content-Type", "text/plain; charset=utf-8")])
        return [f"{problem or 'ok'}\n".encode()]

    def app(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        match environ["PATH_INFO"]:
            case "/metrics":
                return metrics(environ, start)
            case "/healthz":
                return respond(start, "the loop has stalled" if health.stalled else "")
            case "/readyz":
                return respond(start, health.not_ready)
            case "/identity" if identity is not None:
                start("200 OK", [("Content-Type", "application/json")])
                return [identity.model_dump_json().encode()]
        start("404 Not Found", [("Content-Type", "text/plain; charset=utf-8")])
        return [b"try /metrics, /healthz or /readyz\n"]

    return app


@contextmanager
def serve(
    registry: CollectorRegistry,
    health: Health,
    host: str,
    port: int,
    more: Callable[[], bytes] = bytes,
    identity: PortHolder | None = None,
) -> Iterator[int]:
    """Serve `telemetry_app` while the block runs; yield the port, which the system chooses if `port` is 0.

    Raises:
        OSError: if the port is taken or out of range.
    """
    with serve_app(host, port, telemetry_app(registry, health, identity, more), "telemetry") as bound:
        yield bound
