"""The brokers, one or three, each with a second listener that tells clients the proxy's address instead of its own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from chaos.proxy import LOOPBACK, Proxy
from ragweir.streams.playground.local.jars import JarRunner
from ragweir.streams.playground.local.kafka import LocalKafka
from ragweir.streams.playground.local.node import Node, free_port

QUICK: Mapping[str, str] = {
    "group.min.session.timeout.ms": "1000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "500",
}
"""Lets sessions and transactions end sooner than Kafka's own limits would."""
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
"""The properties of each broker where there are three."""
_HEAPS = {1: "512m", 3: "320m"}
_DISK_BYTES = 4 * 1024**3
"""The size of the mount that can be made small: more than a run of a million events writes."""
_WHOLE_S = 90.0
_TURN_S = 0.1
KAFKAS_OWN = ("__consumer_offsets", "__transaction_state")


class Disk:
    """A mount of its own for the data of one broker, in memory, which can be made as small as what is on it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @staticmethod
    def mount(folder: Path) -> Disk | None:
        """Mount one; None where that is not allowed."""
        folder.mkdir(parents=True, exist_ok=True)
        disk = Disk(folder)
        return disk if disk._run("mount", "-t", "tmpfs", "-o", f"size={_DISK_BYTES}", "none") else None

    def fill(self) -> None:
        """Leave no room for anything more."""
        self._resize(shutil.disk_usage(self._folder).used)

    def empty(self) -> None:
        """Give the room back."""
        self._resize(_DISK_BYTES)

    def unmount(self) -> None:
        """Take it away with all that is on it."""
        self._run("umount", "-l")

    def _resize(self, size: int) -> None:
        self._run("mount", "-o", f"remount,size={size}")

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
    """Where it listens for what the proxy passes on."""
    disk: Disk | None

    def freeze(self) -> None:
        """Stop the process as a machine that stands still does: connections stay open and nothing answers."""
        self._send(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let the process go on."""
        self._send(signal.SIGCONT)

    @property
    def runs(self) -> bool:
        """True while its process lives."""
        return self.runner.failure() is None

    def _send(self, what: signal.Signals) -> None:
        if (pid := self.runner.pid) is not None:
            os.kill(pid, what)


@dataclass(frozen=True, slots=True)
class Cluster:
    """The brokers, and the network that the services reach them through."""

    brokers: tuple[Broker, ...]
    proxy: Proxy
    direct: str
    """The addresses past the proxy, for those who watch."""
    proxied: str
    """The addresses through the proxy, for those who are hurt."""

    def leader(self, topic: str, partition: int) -> Broker:
        """Return the broker that leads a partition now; any broker while nobody leads it.

        Raises:
            KafkaException: if no broker answers.
        """
        metadata = self._admin().list_topics(timeout=30).topics.get(topic)
        number = metadata.partitions[partition].leader if metadata is not None and metadata.partitions else -1
        return next((broker for broker in self.brokers if broker.number == number), self.brokers[0])

    def coordinator(self, group: str) -> Broker:
        """Return the broker that coordinates a group now.

        Raises:
            KafkaException: if no broker answers.
        """
        admin = self._admin()
        number = admin.describe_consumer_groups([group], request_timeout=30)[group].result(30).coordinator.id
        return next((broker for broker in self.brokers if broker.number == number), self.brokers[0])

    def transaction_coordinator(self, member: str) -> Broker:
        """Return the broker that coordinates the transactions of a transactional id now.

        Kafka's clients cannot ask for it; it leads the partition of Kafka's own topic to which the id's hash belongs.

        Raises:
            KafkaException: if no broker answers.
        """
        topic = self._admin().list_topics(timeout=30).topics.get("__transaction_state")
        partitions = len(topic.partitions) if topic is not None else 0
        return self.leader("__transaction_state", java_hash(member) % partitions) if partitions else self.brokers[0]

    def wait_until_whole(self, topics: Collection[str], within_s: float = _WHOLE_S) -> bool:
        """Wait until every replica of these topics, and of Kafka's own, is in sync; return whether it came to that."""
        until = time.monotonic() + within_s
        while time.monotonic() < until:
            try:
                if self._is_whole({*topics, *KAFKAS_OWN}):
                    return True
            except KafkaException:
                pass  # Not yet.
            time.sleep(_TURN_S)
        return False

    def _is_whole(self, topics: Collection[str]) -> bool:
        metadata = self._admin().list_topics(timeout=5)
        partitions = [
            each for name, topic in metadata.topics.items() if name in topics for each in topic.partitions.values()
        ]
        return len(metadata.brokers) == len(self.brokers) and all(
            each.leader >= 0 and len(each.isrs) == len(each.replicas) for each in partitions
        )

    def _admin(self) -> AdminClient:
        # A new one each time: one that saw a broker go is slow to come back.
        return AdminClient({"bootstrap.servers": self.direct, "reconnect.backoff.max.ms": 200, "log_level": 0})


def java_hash(text: str) -> int:
    """Return Java's hash of a text of ASCII, without its sign: partitions are chosen by it.

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
    say: Callable[[str], None] = lambda _: None,
) -> Iterator[Cluster]:
    """Run brokers and their proxy for the length of a `with` block.

    Three brokers keep three copies of every topic, Kafka's own among them, and take no record that fewer than two have.

    Args:
        folder: where their data go.
        properties: of the brokers, beside those of their listeners.
        brokers: how many: one or three.
        full_disks: whether the last broker gets a mount of its own, where that is allowed.
        say: called with a sentence about what takes long.

    Raises:
        LocalServerError: if Kafka cannot be fetched or started here.
    """
    ports: list[int] = []
    for _ in range(4 * brokers):
        ports.append(free_port(*ports))
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
            runner = JarRunner(node, home, say, heap=_HEAPS[brokers])
            stack.callback(runner.discard)
            made.append(Broker(index + 1, LocalKafka(node, runner), runner, inner[index], disk))
        with ThreadPoolExecutor(brokers) as pool:  # A quorum is needed before any of them answers.
            list(pool.map(lambda broker: broker.kafka.start(), made))
        if brokers > 1:  # The last ones could not shut down in order: there is no quorum left.
            for broker in made:
                stack.callback(broker.kafka.kill)
        proxy = stack.enter_context(Proxy(dict(zip(outer, inner, strict=True))).running())
        yield Cluster(tuple(made), proxy, _addresses(own), _addresses(outer))


def _addresses(ports: Collection[int]) -> str:
    return ",".join(f"{LOOPBACK}:{port}" for port in ports)
