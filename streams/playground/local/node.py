"""A local Kafka node: its version, ports and properties."""

import contextlib
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Final
from xml.etree import ElementTree as ET

from ragweir.errors import LocalServerError
from ragweir.streams.runtime.machine import machine

POM: Final = files("ragweir.streams.playground.local").joinpath("pom.xml").read_text(encoding="utf-8")
KAFKA_VERSION: Final = ET.fromstring(POM).findtext("{*}properties/{*}kafka.version", "")  # noqa: S314 - our own file
CLUSTER_ID: Final = "cmFnd2Vpci1sb2NhbC1rYQ"  # constant, so that the next run can use the same data folder

LOOPBACK: Final = "127.0.0.1"
# Below the ports of outgoing connections: a client that tries to reach a stopped broker on one of those could get that
# port for its own end, be connected to itself, and so keep the broker from starting again.
_PORTS: Final = range(20_000, 32_000)


@dataclass(frozen=True)
class Node:
    """One combined broker and controller on loopback, without authentication.

    `properties` override the node's own, which are those of a small node that does not create topics by itself.
    """

    port: int
    controller_port: int
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def bootstrap(self) -> str:
        """The address for clients."""
        return f"{LOOPBACK}:{self.port}"

    def configuration(self, *, data: str) -> dict[str, str]:
        """Return the node's properties, with its data in the folder `data`.

        >>> Node(9092, 9093, {"num.partitions": "3"}).configuration(data="data")["advertised.listeners"]
        'PLAINTEXT://127.0.0.1:9092'
        """
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{LOOPBACK}:{self.controller_port}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://{LOOPBACK}:{self.controller_port}",
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
        # As Kafka does, so that connections in TIME_WAIT do not matter.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError as error:
            raise LocalServerError(f"Kafka cannot listen on {LOOPBACK}:{port}: {error.strerror}.") from error


def free_ports(number: int) -> list[int]:
    """Choose different free loopback ports, none that outgoing connections use."""
    ports: list[int] = []
    for port in machine.randomness.sample(_PORTS, 100 + number):
        if len(ports) == number:
            break
        with contextlib.suppress(LocalServerError):
            require_free(port)
            ports.append(port)
    if len(ports) < number:
        raise LocalServerError(f"Kafka cannot listen: no port is free from {_PORTS.start} to {_PORTS.stop - 1}.")
    return ports


def free_port() -> int:
    """Choose a free loopback port. Who needs several calls free_ports, as this may choose one twice."""
    return free_ports(1)[0]
