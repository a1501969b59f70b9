"""The supervisor's HTTP server: /targets for Prometheus' service discovery (http_sd), and its own telemetry."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any

import orjson
from prometheus_client import CollectorRegistry

from ragweir.streams.runtime.serving.health import Health, telemetry_app
from ragweir.streams.runtime.serving.heartbeat import Announcement
from ragweir.streams.runtime.serving.port_holder import PortHolder
from ragweir.streams.runtime.serving.server import serve_app

_ANYWHERE = ("", "0.0.0.0", "::")  # noqa: S104 - the addresses that mean every interface
_HOST = re.compile(r"([\w.-]+|\[[0-9a-fA-F:.]+\])(:\d+)?", re.ASCII)


def targets(workers: Iterable[Announcement], host: str) -> bytes:
    """Return the workers in the format of http_sd.

    Service and slot are meta labels for relabelling, as `ragweir_build_info` has labels of these names already.

    >>> targets([Announcement(service="evaluate", slot=1, port=9465)], "127.0.0.1").decode()
    '[{"targets":["127.0.0.1:9465"],"labels":{"__meta_ragweir_service":"evaluate","__meta_ragweir_slot":"1"}}]'
    """
    return orjson.dumps(
        [
            {
                "targets": [f"{host}:{each.port}"],
                "labels": {"__meta_ragweir_service": each.service, "__meta_ragweir_slot": str(each.slot)},
            }
            for each in workers
        ]
    )


def reachable(host: str, asked: str) -> str:
    """Return the host by which the client of a request reaches the workers.

    Args:
        host: the address that they listen on.
        asked: the request's Host header, which is used if `host` means every interface.

    >>> reachable("127.0.0.1", "x:9864"), reachable("0.0.0.0", "ragweir-host:9864"), reachable("::1", "")
    ('127.0.0.1', 'ragweir-host', '[::1]')
    """
    if host in _ANYWHERE:
        found = _HOST.fullmatch(asked)
        return found[1] if found else "localhost"
    return f"[{host}]" if ":" in host else host


def discovery(
    host: str,
    port: int,
    workers: Callable[[], Iterable[Announcement]],
    registry: CollectorRegistry,
    health: Health,
    identity: PortHolder | None = None,
) -> AbstractContextManager[int]:
    """Serve while a `with` block runs; yield the port, which the system chooses if `port` is 0.

    `workers` returns the announcements of the supervisor and its workers, which all listen on `host`.

    Raises:
        OSError: if the port is taken.
    """
    others = telemetry_app(registry, health, identity)

    def app(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        if environ["PATH_INFO"] != "/targets":
            return others(environ, start)
        start("200 OK", [("Content-Type", "application/json")])
        return [targets(workers(), reachable(host, environ.get("HTTP_HOST", "")))]

    return serve_app(host, port, app, "targets")
