"""The broker: with a second listener, which tells clients the proxy's address instead of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from chaos.proxy import LOOPBACK, Proxy
from ragweir.streams.local.kafka import LocalKafka, local_kafka
from ragweir.streams.local.node import free_port

QUICK: Mapping[str, str] = {
    "group.min.session.timeout.ms": "1000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "500",
}
"""Lets sessions and transactions end sooner than Kafka's own limits would."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A broker, and the network that the services reach it through."""

    kafka: LocalKafka
    proxy: Proxy

    @property
    def direct(self) -> str:
        """The address past the proxy, for those who watch."""
        return self.kafka.bootstrap

    @property
    def proxied(self) -> str:
        """The address through the proxy, for those who are hurt."""
        return f"{LOOPBACK}:{self.proxy.port}"


@contextmanager
def cluster(folder: Path, properties: Mapping[str, str]) -> Iterator[Cluster]:
    """Run a broker and its proxy for the length of a `with` block.

    Args:
        folder: where its data go.
        properties: of the broker, beside those of its listeners.

    Raises:
        LocalServerError: if Kafka cannot be fetched or started here.
    """
    ports: list[int] = []
    for _ in range(4):
        ports.append(free_port(*ports))
    own, inner, outer, controller = ports
    listeners = {
        "controller.quorum.voters": f"1@{LOOPBACK}:{controller}",
        "inter.broker.listener.name": "PLAINTEXT",
        "listeners": f"PLAINTEXT://{LOOPBACK}:{own},PROXIED://{LOOPBACK}:{inner},CONTROLLER://{LOOPBACK}:{controller}",
        "advertised.listeners": f"PLAINTEXT://{LOOPBACK}:{own},PROXIED://{LOOPBACK}:{outer}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,PROXIED:PLAINTEXT,CONTROLLER:PLAINTEXT",
    }
    folder.mkdir(parents=True, exist_ok=True)
    with (
        local_kafka(port=own, folder=folder, properties={**properties, **listeners}) as kafka,
        Proxy(outer, inner).running() as proxy,
    ):
        yield Cluster(kafka, proxy)
