"""Starts a Kafka broker on loopback and stops it again: for `ragweir demo`, `ragweir kafka` and the tests."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from ragweir.errors import LocalServerError
from ragweir.streams.playground.local.jars import JarRunner
from ragweir.streams.playground.local.node import KAFKA_VERSION, Node, free_ports, require_free
from ragweir.streams.playground.process import wait_until

_START_SECONDS: Final = 120
_NO_PROPERTIES: Final[Mapping[str, str]] = MappingProxyType({})


def _silently(_: str) -> None:
    pass


@dataclass(frozen=True)
class LocalKafka:
    """A single-node Kafka on this machine. Port and data stay when it is stopped or killed and started again."""

    node: Node
    _runner: JarRunner = field(repr=False)

    @property
    def bootstrap(self) -> str:
        """The address for clients, such as 127.0.0.1:9092."""
        return self.node.bootstrap

    def start(self) -> None:
        """Start the broker and return when it answers.

        Raises:
            LocalServerError: it ended, or did not answer in two minutes; the message ends with its last log lines.
        """
        require_free(self.node.port)
        self._runner.start()
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "reconnect.backoff.max.ms": 200, "log_level": 0})

        def answers() -> bool:
            try:
                return bool(admin.list_topics(timeout=1).brokers)
            except KafkaException:
                return False

        late = LocalServerError(f"Kafka runs but has not answered on {self.bootstrap} for {_START_SECONDS} s.")
        wait_until(answers, self.require_running, _START_SECONDS, late)

    def require_running(self) -> None:
        """Raise LocalServerError if the broker has ended by itself; the message ends with its last log lines."""
        if (failure := self._runner.failure()) is not None:
            raise LocalServerError(f"Kafka ended. {failure}")

    def stop(self) -> None:
        """Shut the broker down in order."""
        self._runner.stop()

    def kill(self) -> None:
        """End the broker as SIGKILL does."""
        self._runner.kill()


@contextmanager
def local_kafka(
    *,
    port: int | None = None,
    folder: Path | None = None,
    properties: Mapping[str, str] = _NO_PROPERTIES,
    say: Callable[[str], None] = _silently,
) -> Iterator[LocalKafka]:
    """Run a Kafka broker, from Maven's jars, for the length of a `with` block.

    Args:
        port: its port on loopback; a free one by default.
        folder: the folder for its data; a temporary one by default.
        properties: broker properties that override the node's own.
        say: is called with a sentence about what takes long.

    Raises:
        LocalServerError: Kafka cannot be fetched or started here; the message says what to do.
    """
    free = free_ports(2)
    port = port or free[0]
    node = Node(port, next(other for other in free if other != port), properties)
    runner = JarRunner(node, folder, say)
    try:
        say(f"Starting Kafka {KAFKA_VERSION} on {node.bootstrap}")
        kafka = LocalKafka(node, runner)
        kafka.start()
        yield kafka
    finally:
        runner.discard()
