"""Kafka in a container of the official image, for machines with a Docker engine and testcontainers."""

import subprocess
from importlib.util import find_spec
from shutil import which
from typing import Final

from typing_extensions import override

from ragweir.errors import LocalServerError
from ragweir.streams.playground.local.node import CLUSTER_ID, KAFKA_VERSION, LOOPBACK, Node, NodeRunner

_DATA: Final = "/var/lib/kafka/data"
_STOP_SECONDS: Final = 20
_ASK_SECONDS: Final = 5


def available() -> bool:
    """Return true if testcontainers is installed and a Docker engine answers."""
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


class ContainerRunner(NodeRunner):
    """Runs a node in a container, which testcontainers removes with its data even if this process is killed."""

    def __init__(self, node: Node) -> None:
        from testcontainers.core.container import DockerContainer  # noqa: PLC0415 - of the extra [docker]

        self._container = DockerContainer(f"apache/kafka:{KAFKA_VERSION}").with_envs(**environment(node))
        # with_bind_ports takes no address, and would open the port to the network
        self._container.ports[f"{node.port}/tcp"] = (LOOPBACK, node.port)  # type: ignore[assignment]
        self._created = False

    @override
    def start(self) -> None:
        from docker.errors import DockerException  # noqa: PLC0415 - of the extra [docker]

        try:
            if self._created:
                self._container.get_wrapped_container().start()
            else:
                self._container.start()
        except DockerException as error:
            raise LocalServerError(f"Docker could not run apache/kafka:{KAFKA_VERSION}: {error}") from error
        self._created = True

    @override
    def stop(self) -> None:
        self._container.get_wrapped_container().stop(timeout=_STOP_SECONDS)

    @override
    def kill(self) -> None:
        self._container.get_wrapped_container().kill()

    @override
    def failure(self) -> str | None:
        container = self._container.get_wrapped_container()
        container.reload()
        return None if container.status == "running" else f"It logged last:\n{container.logs(tail=15).decode()}"

    @override
    def discard(self) -> None:
        self._container.stop()
