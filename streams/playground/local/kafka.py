"""Starts a Kafka broker on loopback and stops it again: for `ragweir demo`, the tests and a first try."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from ragweir.errors import LocalServerError
from ragweir.streams.playground.local import container
from ragweir.streams.playground.local.jars import JarRunner
from ragweir.streams.playground.local.node import KAFKA_VERSION, Node, NodeRunner, free_port, require_free

__all__ = ["KAFKA_VERSION", "LocalKafka", "LocalServerError", "local_kafka"]

_START_SECONDS: Final = 120
_NO_PROPERTIES: Final[Mapping[str, str]] = MappingProxyType({})


def _silently(_: str) -> None:
    pass


@dataclass(frozen=True)
class LocalKafka:
    """A single-node Kafka on this machine. It keeps port and data when it is stopped, or killed, and started again."""

    node: Node
    _runner: NodeRunner = field(repr=False)

    @property
    def bootstrap(self) -> str:
        """The address for clients, for example 127.0.0.1:9092."""
        return self.node.bootstrap

    def start(self) -> None:
        """Start the broker and return when it answers.

        Raises:
            LocalServerError: it died or did not answer in two minutes; the message ends with its last log lines.
        """
        require_free(self.node.port)
        self._runner.start()
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "reconnect.backoff.max.ms": 200, "log_level": 0})
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            if (last_words := self._runner.last_words()) is not None:
                raise LocalServerError(f"Kafka died on its way up. It logged last:\n{last_words}")
            try:
                if admin.list_topics(timeout=1).brokers:
                    return
            except KafkaException:
                continue  # not yet
        raise LocalServerError(f"Kafka runs but has not answered on {self.bootstrap} for {_START_SECONDS} s.")

    def stop(self) -> None:
        """Shut the broker down in order."""
        self._runner.stop()

    def kill(self) -> None:
        """End the broker as SIGKILL does, with no chance to write anything more."""
        self._runner.kill()


@contextmanager
def local_kafka(
    *,
    port: int | None = None,
    folder: Path | None = None,
    properties: Mapping[str, str] = _NO_PROPERTIES,
    say: Callable[[str], None] = _silently,
) -> Iterator[LocalKafka]:
    """Run a Kafka broker for the length of a `with` block: in a container if Docker can, from Maven's jars if not.

    Args:
        port: where it listens on loopback; a free port by default.
        folder: where its data stay; by default they are gone at the end. A container keeps its data to itself, so a
            folder of your own means jars.
        properties: broker properties that override the node's own.
        say: is told in a sentence what takes long.

    Raises:
        LocalServerError: Kafka cannot be fetched or started here; the message says what to do.
    """
    port = port or free_port()
    node = Node(port, free_port(port), properties)
    in_container = folder is None and container.available()
    runner: NodeRunner = container.ContainerRunner(node) if in_container else JarRunner(node, folder, say)
    try:
        say(f"Starting Kafka {KAFKA_VERSION} on {node.bootstrap}" + (" in a container" if in_container else ""))
        kafka = LocalKafka(node, runner)
        kafka.start()
        yield kafka
    finally:
        runner.discard()
