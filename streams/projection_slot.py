"""One slot of a projection: from its settings to the loop that drives it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack

import structlog

from ragweir.errors import PermanentError
from ragweir.streams.heartbeat import Heartbeat
from ragweir.streams.kafka_client import missing_topics, wait_for_broker
from ragweir.streams.projection_service import ProjectionService
from ragweir.streams.runtimes.projection import ProjectionRuntime
from ragweir.streams.serving.health import Health, serve
from ragweir.streams.serving.telemetry import Telemetry
from ragweir.streams.settings import Settings

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


def run_projection(service: ProjectionService, settings: Settings, slot: int, stopped: Callable[[], bool]) -> None:
    """Run one slot of a projection until told to stop.

    Args:
        service: its line of the table.
        settings: all of them.
        slot: its number on this host.
        stopped: returns true once it is to stop.

    Raises:
        PermanentError: if a topic is missing or the telemetry port cannot be opened.
        ConfigurationError: if the settings cannot be used.
        RestartRequired: if a new process has to go on.
    """
    structlog.contextvars.bind_contextvars(service=service.name, slot=slot, pid=os.getpid())
    projection = service.projection(settings)
    heartbeat = Heartbeat.inherited()
    telemetry, health = Telemetry(service.name, slot, service.known(settings)), Health(pulse=heartbeat)
    waiting = health.beating(stopped)
    port = settings.telemetry.port and settings.telemetry.port + service.port + slot
    with ExitStack() as stack:
        try:
            server = serve(telemetry.registry, health, settings.telemetry.host, port, more=projection.exposition)
            bound = stack.enter_context(server)
        except OSError as error:
            raise PermanentError(
                f"the telemetry port {port} cannot be opened ({error.strerror}); set telemetry.port"
            ) from None
        log.info("started", telemetry=f"http://{settings.telemetry.host}:{bound}")
        heartbeat.announce(service.name, slot, bound)
        health.not_ready = "waiting for a broker"
        present = wait_for_broker(settings, waiting)
        if present is None:
            return
        partitions = _partitions((settings.topics.prefix + name for name in projection.topics), present)
        ProjectionRuntime(settings, projection, partitions, telemetry, health, waiting).run()
        log.info("stopped")


def _partitions(topics: Iterable[str], present: Mapping[str, int]) -> dict[str, int]:
    wanted = list(topics)
    if missing := missing_topics(wanted, present):
        raise PermanentError(f"there is no topic {', '.join(missing)}; `ragweir topics create` makes ours")
    return {topic: present[topic] for topic in wanted}
