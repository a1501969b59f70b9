"""Starts one slot of a service: telemetry, heartbeat and topics first, then the runtime that drives it.

Services and projections of the command line, replays and the Faust runtime start through `started`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import structlog

from ragweir.errors import PermanentError
from ragweir.schemas.topics import FORMATTED
from ragweir.streams.agent import Agent
from ragweir.streams.export.service import ProjectionService
from ragweir.streams.from_settings import catalogue
from ragweir.streams.heartbeat import Heartbeat
from ragweir.streams.kafka.client import Identity, wait_for_topics
from ragweir.streams.kernel_choice import kernel_choice
from ragweir.streams.runtimes import canary as canary_process
from ragweir.streams.runtimes.kafka import KafkaRuntime
from ragweir.streams.service import Service
from ragweir.streams.serving.health import Health, serve
from ragweir.streams.serving.port_holder import PortHolder, cannot_open
from ragweir.streams.serving.telemetry import KnownLabels, Telemetry
from ragweir.streams.settings import Settings

if TYPE_CHECKING:
    from ragweir.streams.registry.output import OutputForms

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Slot:
    """A started slot."""

    telemetry: Telemetry
    health: Health
    stopped: Callable[[], bool]
    """Returns true once the slot is to stop. Each call is a heartbeat, so that loops that wait call it."""


def bind_slot(service: str, slot: int) -> None:
    """Add the slot to all log lines of this process."""
    structlog.contextvars.bind_contextvars(service=service, slot=slot, pid=os.getpid())


@contextmanager
def started(
    service: str,
    slot: int,
    settings: Settings,
    port: int,
    known: KnownLabels,
    stopped: Callable[[], bool],
    more: Callable[[], bytes] = bytes,
    **fields: str,
) -> Iterator[Slot]:
    """Serve the telemetry and the health of a slot, and announce them to the supervisor, while the block runs.

    Args:
        service: the service's name in logs, telemetry and announcements.
        slot: the slot's number on this host.
        settings: all settings.
        port: the service's offset from `telemetry.port`.
        known: the label values that the telemetry shows from the start.
        stopped: returns true once the slot is to stop.
        more: returns further lines of /metrics.
        fields: further fields of the log line.

    Raises:
        PermanentError: if the telemetry port cannot be opened.
    """
    heartbeat = Heartbeat.inherited()
    known = replace(known, catalogue_version=catalogue(settings).version)
    telemetry, health = Telemetry(service, slot, known), Health(heartbeat=heartbeat)
    host, number = settings.telemetry.host, settings.telemetry.port and settings.telemetry.port + port + slot
    prefix = settings.topics.prefix
    own = PortHolder(service=service, slot=slot, prefix=prefix, pid=os.getpid())
    with ExitStack() as stack:
        try:
            bound = stack.enter_context(serve(telemetry.registry, health, host, number, more, own))
        except OSError as error:
            raise PermanentError(cannot_open("the telemetry port", host, number, prefix, error)) from None
        if known.kernel:
            fields["kernel"] = str(kernel_choice(settings.kernel))
        log.info("started", **fields, telemetry=f"http://{host}:{bound}")
        heartbeat.announce(service, slot, bound)
        health.not_ready = "waiting for a broker"
        yield Slot(telemetry, health, health.with_heartbeat(stopped))


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
    with started(service.name, slot, settings, service.port, known, stopped, member=identity.member) as own:
        inputs = service.inputs(settings)
        if (present := wait_for_topics(settings, inputs, own.stopped, needs_all=service.needs_all_inputs)) is None:
            return
        existing = [topic for topic in inputs if topic in present]
        agent = service.agent(settings, present[existing[0]])
        forms = _forms(settings, agent, own.telemetry)
        written = forms.topics.values() if forms else ()
        needed = [*existing, *map(settings.output_topic, agent.outputs), *written, *agent.reads]
        if not present.keys() >= {*needed} and (present := wait_for_topics(settings, needed, own.stopped)) is None:
            return
        _check_partitions(service, settings, present)
        agent.start(own.stopped)
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
    from ragweir.streams.registry.output import OutputForms  # noqa: PLC0415 - with the packages of the format

    return OutputForms(settings, agent.outputs, lambda: telemetry.count("ragweir_output_failures_total", 1))


def run_projection(service: ProjectionService, settings: Settings, slot: int, stopped: Callable[[], bool]) -> None:
    """Run one slot of a projection until `stopped` returns true.

    Raises:
        PermanentError, ConfigurationError: if a restart would not help.
        RestartRequired: if a new process has to go on.
    """
    from ragweir.streams.runtimes.projection import ProjectionRuntime  # noqa: PLC0415 - not for other services

    bind_slot(service.name, slot)
    projection, known = service.projection(settings), service.known(settings)
    with started(service.name, slot, settings, service.port, known, stopped, projection.exposition) as own:
        topics = [settings.topics.prefix + name for name in projection.topics]
        if (present := wait_for_topics(settings, topics, own.stopped)) is None:
            return
        partitions = {topic: present[topic] for topic in topics}
        ProjectionRuntime(settings, projection, partitions, own.telemetry, own.health, own.stopped).run()
        log.info("stopped")


def run_canary(service: Service, settings: Settings, slot: int) -> None:
    """Handle the suspected records that a worker sends until it sends no more; see `ragweir.streams.runtimes.canary`.

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
