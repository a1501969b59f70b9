"""Kafka in a container of the official image, for machines with a Docker engine and testcontainers."""

import subprocess
from importlib.util import find_spec
from shutil import which
from typing import Final

from ragweir.errors import LocalServerError
from ragweir.streams.playground.local.node import CLUSTER_ID, KAFKA_VERSION, LOOPBACK, Node

_DATA: Final = "/var/lib/kafka/data"
_STOP_SECONDS: Final = 20
_ASK_SECONDS: Final = 5


def available() -> bool:
    """Tell whether testcontainers is installed and a Docker engine answers."""
    docker = which("docker") if find_spec("testcontainers") else None
    if docker is None:
        return False
    try:
        return subprocess.run([docker, "info"], capture_output=True, check=False, timeout=_ASK_SECONDS).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def environment(node: Node) -> dict[str, str]:
    """Return the environment that the official image turns into the node's properties.

    >>> environment(Node(9092, 9093))["KAFKA_LOG_DIRS"]
    '/var/lib/kafka/data'
    """
    configuration = node.configuration(data=_DATA, bind="0.0.0.0")  # noqa: S104 - inside: outside it is loopback's
    named = {f"KAFKA_{key.replace('.', '_').upper()}": value for key, value in configuration.items()}
    return {"CLUSTER_ID": CLUSTER_ID, "KAFKA_HEAP_OPTS": "-Xmx512m", **named}


class ContainerRunner:
    """Runs a node in a container, which testcontainers removes even if we are killed. Its data go with it."""

    def __init__(self, node: Node) -> None:
        from testcontainers.core.container import DockerContainer  # noqa: PLC0415 - of the extra [docker]

        self._container = DockerContainer(f"apache/kafka:{KAFKA_VERSION}").with_envs(**environment(node))
        # with_bind_ports knows no address, and would open the port to the network
        self._container.ports[f"{node.port}/tcp"] = (LOOPBACK, node.port)  # type: ignore[assignment]
        self._made = False

    def start(self) -> None:
        """Begin to run, in a new container the first time."""
        from docker.errors import DockerException  # noqa: PLC0415 - of the extra [docker]

        try:
            if self._made:
                self._container.get_wrapped_container().start()
            else:
                self._container.start()
        except DockerException as error:
            raise LocalServerError(f"Docker could not run apache/kafka:{KAFKA_VERSION}: {error}") from error
        self._made = True

    def stop(self) -> None:
        """Ask the broker to shut down, and end it when it takes too long."""
        self._container.get_wrapped_container().stop(timeout=_STOP_SECONDS)

    def kill(self) -> None:
        """End the broker at once."""
        self._container.get_wrapped_container().kill()

    def last_words(self) -> str | None:
        """Tell the end of the log of a broker that no longer runs; None while it runs."""
        container = self._container.get_wrapped_container()
        container.reload()
        return None if container.status == "running" else container.logs(tail=15).decode()

    def discard(self) -> None:
        """Remove the container with its data."""
        self._container.stop()
