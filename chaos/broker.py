"""The brokers, one or three, each with a second listener that advertises the proxy's address."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import AdminClient

from chaos.proxy import LOOPBACK, Proxy
from ragweir.streams.playground.local.jars import JarRunner
from ragweir.streams.playground.local.kafka import LocalKafka
from ragweir.streams.playground.local.node import Node, free_ports

QUICK: Mapping[str, str] = {
    "group.min.session.timeout.ms": "1000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "500",
}
"""Properties that let sessions and transactions end sooner than by Kafka's own limits."""
QUICK_CLIENT: Mapping[str, int] = {
    "session.timeout.ms": 3_000,
    "heartbeat.interval.ms": 500,
    "transaction.timeout.ms": 3_000,
}
"""Timeouts of the services on a quick broker. On others they are the product's own."""
_REPLICATED: Mapping[str, str] = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
    "share.coordinator.state.topic.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "transaction.state.log.replication.factor": "3",
    "num.network.threads": "2",
    "num.io.threads": "4",
}
"""Properties of each of three brokers."""
_DISK_BYTES = 4 * 1024**3
"""Size of the mount that can be made small, in bytes: more than a run of a million events writes."""
_KAFKAS_OWN = ("__consumer_offsets", "__transaction_state")


class Disk:
    """A mount in memory for the data of one broker, whose free space can be removed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @staticmethod
    def mount(folder: Path) -> Disk | None:
        """Mount a disk; return None if that is not allowed."""
        folder.mkdir(parents=True, exist_ok=True)
        disk = Disk(folder)
        return disk if disk._run("mount", "-t", "tmpfs", "-o", f"size={_DISK_BYTES}", "none") else None

    def fill(self) -> None:
        """Leave no free space."""
        self._run("mount", "-o", f"remount,size={shutil.disk_usage(self._folder).used}")

    def empty(self) -> None:
        """Restore the original size."""
        self._run("mount", "-o", f"remount,size={_DISK_BYTES}")

    def unmount(self) -> None:
        """Unmount the disk, which deletes what is on it."""
        self._run("umount", "-l")

    def _run(self, program: str, *options: str) -> bool:
        found = shutil.which(program)
        command = [found or program, *options, str(self._folder)]
        return found is not None and subprocess.run(command, capture_output=True, check=False).returncode == 0


@dataclass(frozen=True, slots=True)
class Broker:
    """One broker, which is also a controller."""

    number: int
    kafka: LocalKafka
    runner: JarRunner
    port: int
    """Port that the proxy connects to."""
    disk: Disk | None

    def send(self, what: signal.Signals) -> None:
        """Send a signal to its process. SIGSTOP keeps connections open, and nothing answers until SIGCONT."""
        if (pid := self.runner.pid) is not None:
            os.kill(pid, what)


@dataclass(frozen=True, slots=True)
class Cluster:
    """The brokers, and the network that the services reach them through.

    Methods raise KafkaException if no broker answers.
    """

    brokers: tuple[Broker, ...]
    proxy: Proxy
    direct: str
    """Addresses of the brokers themselves."""
    proxied: str
    """Addresses of the proxy."""

    def leader(self, topic: str, partition: int) -> Broker:
        """Return the broker that leads a partition now; any broker if none does."""
        metadata = self.admin().list_topics(timeout=30).topics.get(topic)
        return self._numbered(metadata.partitions[partition].leader if metadata and metadata.partitions else -1)

    def coordinator(self, group: str) -> Broker:
        """Return the broker that coordinates a group now."""
        admin = self.admin()
        described = admin.describe_consumer_groups([group], request_timeout=30)[group].result(30)
        return self._numbered(described.coordinator.id)

    def transaction_coordinator(self, member: str) -> Broker:
        """Return the broker that coordinates the transactions of a transactional id now.

        Kafka's clients have no request for it; it leads the partition of Kafka's own topic that the id's hash selects.
        """
        topic = self.admin().list_topics(timeout=30).topics.get("__transaction_state")
        partitions = len(topic.partitions) if topic is not None else 0
        return self.leader("__transaction_state", java_hash(member) % partitions) if partitions else self.brokers[0]

    def _numbered(self, number: int) -> Broker:
        return next((broker for broker in self.brokers if broker.number == number), self.brokers[0])

    def is_in_sync(self, topics: Collection[str]) -> bool:
        """Return True if all replicas of these topics, and of Kafka's own, are in sync."""
        metadata = self.admin().list_topics(timeout=5)
        partitions = [
            each
            for name, topic in metadata.topics.items()
            if name in {*topics, *_KAFKAS_OWN}
            for each in topic.partitions.values()
        ]
        return len(metadata.brokers) == len(self.brokers) and all(
            each.leader >= 0 and len(each.isrs) == len(each.replicas) for each in partitions
        )

    def admin(self) -> AdminClient:
        """Return a new admin client, to be kept until it has answered: an old one may take long to reconnect."""
        return AdminClient({"bootstrap.servers": self.direct, "reconnect.backoff.max.ms": 200, "log_level": 0})


def java_hash(text: str) -> int:
    """Return Java's hash of an ASCII text, without its sign. Kafka selects partitions by it.

    >>> java_hash("a"), java_hash("chaos.evaluate-host-0")
    (97, 1611855505)
    """
    number = 0
    for each in text.encode("ascii", "replace"):
        number = (31 * number + each) & 0xFFFFFFFF
    return number & 0x7FFFFFFF


@contextmanager
def cluster(
    folder: Path,
    properties: Mapping[str, str],
    brokers: int = 1,
    *,
    full_disks: bool = False,
) -> Iterator[Cluster]:
    """Run brokers and their proxy for the length of a `with` block.

    Three brokers keep three replicas of every topic, Kafka's own included, and accept a record only if two have it.
    With full disks the last broker has a mount of its own, if that is allowed.

    Raises:
        LocalServerError: if Kafka cannot be downloaded or started.
    """
    ports = free_ports(4 * brokers)
    own, inner, outer, controllers = (ports[first::4] for first in range(4))
    voters = ",".join(f"{number}@{LOOPBACK}:{port}" for number, port in enumerate(controllers, 1))
    with ExitStack() as stack:
        made = []
        for index in range(brokers):
            home = folder / str(index + 1)
            disk = Disk.mount(home) if full_disks and index == brokers - 1 else None
            if disk is not None:
                stack.callback(disk.unmount)
            listeners = {
                "node.id": str(index + 1),
                "controller.quorum.voters": voters,
                "inter.broker.listener.name": "PLAINTEXT",
                "listeners": f"PLAINTEXT://{LOOPBACK}:{own[index]},PROXIED://{LOOPBACK}:{inner[index]},"
                f"CONTROLLER://{LOOPBACK}:{controllers[index]}",
                "advertised.listeners": f"PLAINTEXT://{LOOPBACK}:{own[index]},PROXIED://{LOOPBACK}:{outer[index]}",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,PROXIED:PLAINTEXT,CONTROLLER:PLAINTEXT",
            }
            replicated = _REPLICATED if brokers > 1 else {}
            node = Node(own[index], controllers[index], {**replicated, **properties, **listeners})
            runner = JarRunner(node, home, lambda _: None, heap="512m" if brokers == 1 else "320m")
            stack.callback(runner.discard)
            made.append(Broker(index + 1, LocalKafka(node, runner), runner, inner[index], disk))
        with ThreadPoolExecutor(brokers) as pool:  # None answers before there is a quorum.
            list(pool.map(lambda broker: broker.kafka.start(), made))
        if brokers > 1:  # Without a quorum the last ones could not shut down in order.
            for broker in made:
                stack.callback(broker.kafka.kill)
        proxy = stack.enter_context(Proxy(dict(zip(outer, inner, strict=True))).running())
        yield Cluster(tuple(made), proxy, _addresses(own), _addresses(outer))


def _addresses(ports: Collection[int]) -> str:
    return ",".join(f"{LOOPBACK}:{port}" for port in ports)
