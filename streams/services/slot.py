"""Runs one slot of a service or a projection: waits for its topics, then the runtime drives it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import structlog

from ragweir.errors import PermanentError
from ragweir.schemas.topics import FORMATTED
from ragweir.streams.runtime.agent import Agent
from ragweir.streams.runtime.kafka.client import Identity, wait_for_topics
from ragweir.streams.runtime.loop.kafka_runtime import KafkaRuntime
from ragweir.streams.runtime.protection import canary as canary_process
from ragweir.streams.runtime.serving.telemetry import Telemetry
from ragweir.streams.runtime.worker import bind_slot, started
from ragweir.streams.services.export.service import ProjectionService
from ragweir.streams.services.instruments import BY_SERVICE
from ragweir.streams.services.kafka_services import Service
from ragweir.streams.services.shared.from_settings import catalogue
from ragweir.streams.settings import Settings

if TYPE_CHECKING:
    from ragweir.streams.runtime.registry.output import OutputForms

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


def run_slot(
    service: Service, settings: Settings, slot: int, stopped: Callable[[], bool], canary: Sequence[str] = ()
) -> None:
    """Run one slot of a service until `stopped` returns true.

    Args:
        service: the service.
        settings: all settings.
        slot: the slot's number on this host.
        stopped: returns true once the slot is to stop.
        canary: the command line of a process that calls `run_canary` for the same service and settings.

    Raises:
        PermanentError, ConfigurationError: if a restart would not help.
        RestartRequired: if a new process has to go on.
    """
    bind_slot(service.name, slot)
    identity = Identity(service.name, slot, settings.topics.prefix)
    service.check(settings)
    known = service.known_labels(settings)
    shown = BY_SERVICE[service.name]
    with started(service.name, slot, settings, service.port, shown, known, stopped, member=identity.member) as own:
        inputs = service.inputs(settings)
        if (present := wait_for_topics(settings, inputs, own.stopped, needs_all=service.needs_all_inputs)) is None:
            return
        existing = [topic for topic in inputs if topic in present]
        agent = service.agent(settings, present[existing[0]])
        forms = _forms(settings, agent, own.telemetry)
        written = forms.topics.values() if forms else ()
        needed = [*existing, *map(settings.output_topic, agent.outputs), *written, *agent.preparation.reads]
        if not present.keys() >= {*needed} and (present := wait_for_topics(settings, needed, own.stopped)) is None:
            return
        _check_partitions(service, settings, present)
        agent.preparation.start(own.stopped)
        if forms:
            forms.start(own.stopped)
        KafkaRuntime(
            settings.model_copy(update={"batch": service.batch(settings)}),
            identity,
            agent,
            inputs,
            own.telemetry,
            own.health,
            stopped,
            service.assignor,
            service.bounds,
            canary if service.tries_suspects else (),
            forms,
        ).run()
        log.info("stopped")


def _forms(settings: Settings, agent: Agent, telemetry: Telemetry) -> OutputForms | None:
    """Return what adds further forms to the emissions of an agent; None if there are none."""
    if settings.output.registry_format is None or not set(FORMATTED).intersection(agent.outputs):
        return None
    from ragweir.streams.runtime.registry.output import OutputForms  # noqa: PLC0415 - with the packages of the format

    return OutputForms(settings, agent.outputs, lambda: telemetry.count("ragweir_output_failures_total", 1))


def run_projection(service: ProjectionService, settings: Settings, slot: int, stopped: Callable[[], bool]) -> None:
    """Run one slot of a projection until `stopped` returns true.

    Raises:
        PermanentError, ConfigurationError: if a restart would not help.
        RestartRequired: if a new process has to go on.
    """
    from ragweir.streams.runtime.loop.projection_runtime import ProjectionRuntime  # noqa: PLC0415 - not for other services

    bind_slot(service.name, slot)
    projection = service.projection(settings)
    known = replace(service.known(settings), catalogue_version=catalogue(settings).version)
    shown = BY_SERVICE[service.name]
    with started(service.name, slot, settings, service.port, shown, known, stopped, projection.exposition) as own:
        topics = [settings.topics.prefix + name for name in projection.topics]
        if (present := wait_for_topics(settings, topics, own.stopped)) is None:
            return
        partitions = {topic: present[topic] for topic in topics}
        ProjectionRuntime(settings, projection, partitions, own.telemetry, own.health, own.stopped).run()
        log.info("stopped")


def run_canary(service: Service, settings: Settings, slot: int) -> None:
    """Handle the suspected records that a worker sends until it sends no more, as a canary.

    Raises:
        ConfigurationError: if the settings cannot be used.
    """
    bind_slot(service.name, slot)
    canary_process.run(service.agent(settings, 1), settings.limits.max_event_bytes)


def _check_partitions(service: Service, settings: Settings, present: Mapping[str, int]) -> None:
    prefix, inputs = settings.topics.prefix, service.inputs(settings)
    for name in service.copartitioned:
        if present[prefix + name] < present[inputs[0]]:
            raise PermanentError(
                f"{prefix}{name} has fewer partitions than {inputs[0]}; it needs as many, and `ragweir topics grow` "
                "adds them"
            )
    if service.assignor == "range" and len({present[name] for name in inputs}) > 1:
        names = ", ".join(inputs)
        raise PermanentError(f"{names} must have the same number of partitions: `ragweir topics grow` adds them")
