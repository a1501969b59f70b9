"""One slot of a projection, from its settings to its loop, and the table of projections."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass

import structlog

from ragweir.errors import PermanentError
from ragweir.streams.heartbeat import Heartbeat
from ragweir.streams.kafka_client import missing_topics, wait_for_broker
from ragweir.streams.projections.projection import Projection
from ragweir.streams.projections.prometheus import PrometheusExporter
from ragweir.streams.runtimes.projection import ProjectionRuntime
from ragweir.streams.service import catalogue, totals
from ragweir.streams.serving.health import Health, serve
from ragweir.streams.serving.telemetry import Known, Telemetry
from ragweir.streams.settings import Settings

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ProjectionService:
    """One line of the table: a projection as a service, with a command of its own name."""

    name: str
    """The name of the command and of the service in logs and telemetry."""
    help: str
    """The help of the command."""
    projection: Callable[[Settings], Projection]
    """Makes the projection. Raises ConfigurationError if the settings cannot be used; acquires no resource."""
    port: int
    """Added to `telemetry.port` and the slot; the ports of all services are at least 100 apart."""
    known: Callable[[Settings], Known] = lambda _: Known()
    """Returns the label values that its telemetry shows from the start."""
    enabled: Callable[[Settings], bool] = lambda _: True
    """Returns true if `ragweir up` runs it with these settings."""


def _prometheus(settings: Settings) -> PrometheusExporter:
    booleans = [name for name, metric in catalogue(settings).metrics.items() if metric.unit == "boolean"]
    return PrometheusExporter(settings.windows, totals(settings).reading(), booleans)


PROJECTIONS: Mapping[str, ProjectionService] = {
    service.name: service
    for service in (
        ProjectionService(
            "export",
            help="Show the last closed window of each size to Prometheus.\n\n"
            "Reads the windows without a consumer group, so that any number of exporters may run, each with a slot of "
            "its own. /metrics, in the text format or OpenMetrics, is rendered again when a window closes. Stopping as "
            "`evaluate`.",
            projection=_prometheus,
            port=200,
            known=lambda settings: Known(windows=settings.windows.sizes),
        ),
    )
}
"""All projections. Each has a command, a place in `ragweir up` and a port that `ragweir doctor` checks."""


def enabled_projections(settings: Settings) -> list[ProjectionService]:
    """Return the projections that `ragweir up` runs with these settings.

    >>> [service.name for service in enabled_projections(Settings())]
    ['export']
    """
    return [service for service in PROJECTIONS.values() if service.enabled(settings)]


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
