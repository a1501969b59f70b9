"""A webhook on loopback that keeps the alerts which Alertmanager posts to it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ragweir.streams.playground.serving import Reply, Request, serving
from ragweir.streams.runtime.machine import machine


@dataclass(frozen=True, slots=True)
class ReceivedAlert:
    """One alert of one post."""

    at: float
    """The time of the post, on the monotonic clock."""
    alert: str
    slo: str
    severity: str
    status: str
    """`firing` or `resolved`."""
    description: str
    console_url: str | None = None
    """The link to its bad answers; None without a console."""


@contextmanager
def webhook() -> Iterator[tuple[str, list[ReceivedAlert]]]:
    """Listen for the length of a `with` block, which gets the URL to post to, and a list that grows with each alert."""
    received: list[ReceivedAlert] = []

    def receive(request: Request) -> Reply:
        now = machine.monotonic()
        for alert in json.loads(request.body)["alerts"]:
            labels = alert["labels"]
            named = labels["alertname"], labels["slo"], labels["severity"]
            texts = alert["annotations"]
            received.append(ReceivedAlert(now, *named, alert["status"], texts["description"], texts.get("console_url")))
        return Reply(200, b"{}")

    with serving(receive) as server:
        yield f"{server.url}/", received
