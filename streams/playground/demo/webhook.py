"""A webhook on loopback that keeps the alerts which Alertmanager posts to it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from typing_extensions import override

from ragweir.streams.playground.local.node import LOOPBACK
from ragweir.streams.runtime.machine import machine


@dataclass(frozen=True, slots=True)
class ReceivedAlert:
    """One alert of one post."""

    at: float
    """The time of the post, on the monotonic clock."""
    alert: str
    severity: str
    status: str
    """`firing` or `resolved`."""
    description: str


@contextmanager
def webhook() -> Iterator[tuple[str, list[ReceivedAlert]]]:
    """Listen for the length of a `with` block, which gets the URL to post to, and a list that grows with each alert."""
    received: list[ReceivedAlert] = []

    class WebhookHandler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            now = machine.monotonic()
            for alert in body["alerts"]:
                labels, annotations = alert["labels"], alert["annotations"]
                received.append(
                    ReceivedAlert(
                        now, labels["alertname"], labels["severity"], alert["status"], annotations["description"]
                    )
                )
            self.send_response(HTTPStatus.NO_CONTENT)
            self.end_headers()

        @override
        def log_message(self, format: str, *args: Any) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer((LOOPBACK, 0), WebhookHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://{LOOPBACK}:{server.server_port}/", received
    finally:
        server.shutdown()
        server.server_close()
