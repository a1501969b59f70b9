"""What every local Kafka node has, however it is run: version, ports, properties and the one error."""

import contextlib
import random
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Final, Protocol
from xml.etree import ElementTree as ET

from ragweir.errors import LocalServerError

POM: Final = files("ragweir.streams.playground.local").joinpath("pom.xml").read_text(encoding="utf-8")
KAFKA_VERSION: Final = ET.fromstring(POM).findtext("{*}properties/{*}kafka.version", "")  # noqa: S314 - our own file
CLUSTER_ID: Final = "cmFnd2Vpci1sb2NhbC1rYQ"  # always the same: a data folder may be used again by the next run

LOOPBACK: Final = "127.0.0.1"
# Below the ports that systems give to outgoing connections. A client that keeps trying to reach a stopped broker on one
# of those can be given that very port to call from, be connected to itself, and so keep the broker from coming back.
_PORTS: Final = range(20_000, 32_000)


class NodeRunner(Protocol):
    """A way to run a node: from jars or in a container. `start` after `stop` or `kill` finds the data as it was."""

    def start(self) -> None:
        """Begin to run, without waiting for the node to answer."""

    def stop(self) -> None:
        """Shut down in order; nothing to do when it does not run."""

    def kill(self) -> None:
        """End at once, as SIGKILL does."""

    def last_words(self) -> str | None:
        """Tell what a node that no longer runs logged last; None while it runs."""

    def discard(self) -> None:
        """Stop and leave nothing behind."""


@dataclass(frozen=True)
class Node:
    """One combined broker and controller on loopback, without authentication.

    Properties override the node's own: small where Kafka's defaults are meant for a cluster, strict where ragweir is
    (topics are created on purpose, never by a typing error).
    """

    port: int
    controller_port: int
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def bootstrap(self) -> str:
        """The address for clients."""
        return f"{LOOPBACK}:{self.port}"

    def configuration(self, *, data: str, bind: str = LOOPBACK) -> dict[str, str]:
        """Return the node's properties, with its data in the folder `data` and its port bound to the address `bind`.

        >>> Node(9092, 9093, {"num.partitions": "3"}).configuration(data="data")["advertised.listeners"]
        'PLAINTEXT://127.0.0.1:9092'
        """
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{LOOPBACK}:{self.controller_port}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://{bind}:{self.port},CONTROLLER://{LOOPBACK}:{self.controller_port}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": data,
            "auto.create.topics.enable": "false",
            "group.initial.rebalance.delay.ms": "0",
            "log.cleaner.dedupe.buffer.size": str(16 * 2**20),  # the default, 128 MB, is a quarter of our heap
            "offsets.topic.num.partitions": "4",
            "offsets.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "share.coordinator.state.topic.num.partitions": "4",
            "share.coordinator.state.topic.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "4",
            "transaction.state.log.replication.factor": "1",
            **self.properties,
        }


def require_free(port: int) -> None:
    """Raise LocalServerError when another program listens on this loopback port."""
    with socket.socket() as probe:
        # As Kafka itself does: closed connections that linger are no hindrance.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError as error:
            raise LocalServerError(f"Kafka cannot listen on {LOOPBACK}:{port}: {error.strerror}.") from error


def free_port(*taken: int) -> int:
    """Choose a loopback port, none of `taken`, that nobody listens on and that no outgoing connection will be given."""
    for port in random.SystemRandom().sample([port for port in _PORTS if port not in taken], 100):
        with contextlib.suppress(LocalServerError):
            require_free(port)
            return port
    raise LocalServerError(f"Kafka cannot listen: no port is free from {_PORTS.start} to {_PORTS.stop - 1}.")
