"""One slot of a service or of a projection: from its settings to the loop that drives it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import structlog

from ragweir.errors import PermanentError
from ragweir.streams.agent import Agent
from ragweir.streams.export.service import ProjectionService
from ragweir.streams.heartbeat import Heartbeat
from ragweir.streams.kafka.client import Identity, missing_topics, wait_for_broker
from ragweir.streams.runtimes import canary as trials
from ragweir.streams.runtimes.kafka import KafkaRuntime
from ragweir.streams.runtimes.projection import ProjectionRuntime
from ragweir.streams.service import Service
from ragweir.streams.serving.health import Health, serve
from ragweir.streams.serving.telemetry import Known, Telemetry
from ragweir.streams.settings import Settings

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

_NEW_TOPIC_S = 3.0
"""A topic that was just created is not at once known to every broker."""


@dataclass(frozen=True, slots=True)
class _Served:
    """The telemetry and the health of a slot while it runs."""

    telemetry: Telemetry
    health: Health
    waiting: Callable[[], bool]
    """Returns true once the slot is to stop; each call is a sign of life."""


@contextmanager
def _served(
    name: str,
    slot: int,
    settings: Settings,
    port: int,
    known: Known,
    stopped: Callable[[], bool],
    more: Callable[[], bytes] = bytes,
    **about: str,
) -> Iterator[_Served]:
    """Serve the telemetry and the health of a slot while the block runs."""
    heartbeat = Heartbeat.inherited()
    telemetry, health = Telemetry(name, slot, known), Health(pulse=heartbeat)
    host, number = settings.telemetry.host, settings.telemetry.port and settings.telemetry.port + port + slot
    with ExitStack() as stack:
        try:
            bound = stack.enter_context(serve(telemetry.registry, health, host, number, more=more))
        except OSError as error:
            why = f"the telemetry port {number} cannot be opened ({error.strerror}); set telemetry.port"
            raise PermanentError(why) from None
        log.info("started", **about, telemetry=f"http://{host}:{bound}")
        heartbeat.announce(name, slot, bound)
        health.not_ready = "waiting for a broker"
        yield _Served(telemetry, health, health.beating(stopped))


def run_slot(
    service: Service, settings: Settings, slot: int, stopped: Callable[[], bool], canary: Sequence[str] = ()
) -> None:
    """Run one slot of a service until told to stop.

    Args:
        service: its line of the table.
        settings: all of them.
        slot: its number on this host.
        stopped: returns true once it is to stop.
        canary: the command line of a process that does `run_canary` for the same service and settings.

    Raises:
        PermanentError, ConfigurationError: if somebody has to mend something first.
        RestartRequired: if a new process has to go on.
    """
    identity = Identity(service.name, slot, settings.topics.prefix)
    structlog.contextvars.bind_contextvars(service=service.name, slot=slot, pid=os.getpid())
    service.check(settings)
    known = service.known_labels(settings)
    with _served(service.name, slot, settings, service.port, known, stopped, member=identity.member) as served:
        inputs = service.inputs(settings)
        agent = _agent(service, settings, inputs, served.waiting)
        if agent is None:
            return
        own = settings.model_copy(update={"batch": service.batch(settings)})
        KafkaRuntime(
            own,
            identity,
            agent,
            inputs,
            served.telemetry,
            served.health,
            stopped,
            service.assignor,
            service.bounds,
            canary if service.guarded else (),
        ).run()
        log.info("stopped")


def run_projection(service: ProjectionService, settings: Settings, slot: int, stopped: Callable[[], bool]) -> None:
    """Run one slot of a projection until told to stop.

    Args:
        service: its line of the table.
        settings: all of them.
        slot: its number on this host.
        stopped: returns true once it is to stop.

    Raises:
        PermanentError, ConfigurationError: if somebody has to mend something first.
        RestartRequired: if a new process has to go on.
    """
    structlog.contextvars.bind_contextvars(service=service.name, slot=slot, pid=os.getpid())
    projection, known = service.projection(settings), service.known(settings)
    with _served(service.name, slot, settings, service.port, known, stopped, projection.exposition) as served:
        present = wait_for_broker(settings, served.waiting)
        if present is None:
            return
        partitions = _partitions((settings.topics.prefix + name for name in projection.topics), present)
        ProjectionRuntime(settings, projection, partitions, served.telemetry, served.health, served.waiting).run()
        log.info("stopped")


def run_canary(service: Service, settings: Settings, slot: int) -> None:
    """Handle on trial what a worker sends, until it sends no more; see `ragweir.streams.runtimes.canary`.

    Raises:
        ConfigurationError: if the settings cannot be used.
    """
    structlog.contextvars.bind_contextvars(service=service.name, slot=slot, pid=os.getpid())
    trials.run(service.agent(settings, 1), settings.limits.max_event_bytes)


def _agent(service: Service, settings: Settings, inputs: list[str], waiting: Callable[[], bool]) -> Agent | None:
    """Wait for the broker and the topics, and make the agent; None when told to stop meanwhile."""
    agent: Agent | None = None
    needed, look_until = inputs, time.monotonic() + _NEW_TOPIC_S
    while (present := wait_for_broker(settings, waiting)) is not None:
        if agent is None and inputs[0] in present:
            agent = service.agent(settings, present[inputs[0]])
            needed = [*inputs, *(settings.topics.prefix + name for name in agent.outputs)]
        if not missing_topics(needed, present) or time.monotonic() > look_until:
            _check_topics(service, settings, present, needed)
            return agent
        time.sleep(0.2)
    return None


def _check_topics(service: Service, settings: Settings, present: Mapping[str, int], needed: list[str]) -> None:
    prefix = settings.topics.prefix
    missing = missing_topics(needed, present)
    if missing:
        names = ", ".join(missing)
        raise PermanentError(f"there is no topic {names}, or it may not be seen; `ragweir topics create` makes ours")
    for name in service.beside:
        if present[prefix + name] < present[needed[0]]:
            raise PermanentError(
                f"{prefix}{name} has fewer partitions than {needed[0]}; it needs as many, and `ragweir topics grow` "
                "adds them"
            )
    if service.assignor == "range" and len({present[name] for name in service.inputs(settings)}) > 1:
        names = ", ".join(service.inputs(settings))
        raise PermanentError(f"{names} must have the same number of partitions: `ragweir topics grow` adds them")


def _partitions(topics: Iterable[str], present: Mapping[str, int]) -> dict[str, int]:
    wanted = list(topics)
    if missing := missing_topics(wanted, present):
        raise PermanentError(f"there is no topic {', '.join(missing)}; `ragweir topics create` makes ours")
    return {topic: present[topic] for topic in wanted}
