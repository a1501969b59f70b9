"""One slot of a service: from its settings to the loop that drives its agent."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence

import structlog

from ragweir.errors import PermanentError
from ragweir.streams.agents.agent import Agent
from ragweir.streams.heartbeat import Heartbeat
from ragweir.streams.kafka_client import Identity, missing_topics, wait_for_broker
from ragweir.streams.runtimes import canary as trials
from ragweir.streams.runtimes.kafka import KafkaRuntime
from ragweir.streams.service import Service
from ragweir.streams.serving.health import Health, serve
from ragweir.streams.serving.telemetry import Telemetry
from ragweir.streams.settings import Settings

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

_NEW_TOPIC_S = 3.0
"""A topic that was just created is not at once known to every broker."""


def run_slot(
    service: Service, settings: Settings, slot: int, stopped: Callable[[], bool], canary: Sequence[str] = ()
) -> None:
    """Run one slot of a service until told to stop.

    Args:
        service: which one.
        settings: all of them.
        slot: its number on this host.
        stopped: says whether to stop.
        canary: the command line of a process that does `run_canary` for the same service and settings.

    Raises:
        PermanentError, ConfigurationError: if people have to mend something first.
        RestartRequired: if a new process has to go on.
    """
    identity = Identity(service.name, slot, settings.topics.prefix)
    structlog.contextvars.bind_contextvars(service=identity.service, slot=slot, pid=os.getpid())
    service.check(settings)
    agent: Agent | None = None
    heartbeat = Heartbeat.inherited()
    telemetry, health = Telemetry(identity.service, slot, service.known(settings)), Health(pulse=heartbeat)
    waiting = health.beating(stopped)
    port = settings.telemetry.port and settings.telemetry.port + service.port + slot
    try:
        with serve(telemetry.registry, health, settings.telemetry.host, port) as bound:
            log.info("started", member=identity.member, telemetry=f"http://{settings.telemetry.host}:{bound}")
            heartbeat.announce(identity.service, slot, bound)
            health.not_ready = "waiting for a broker"
            inputs = service.inputs(settings)
            look_until = time.monotonic() + _NEW_TOPIC_S
            needed = inputs
            while (topics := wait_for_broker(settings, waiting)) is not None:
                if agent is None and inputs[0] in topics:
                    agent = service.agent(settings, topics[inputs[0]])
                    needed = [*inputs, *(settings.topics.prefix + name for name in agent.outputs)]
                if not missing_topics(needed, topics) or time.monotonic() > look_until:
                    break
                time.sleep(0.2)
            if topics is None:
                return
            _check_topics(service, settings.topics.prefix, topics, needed)
            if agent is None:
                return
            own = settings.model_copy(update={"batch": service.batch(settings)})
            KafkaRuntime(
                own,
                identity,
                agent,
                inputs,
                telemetry,
                health,
                stopped,
                service.assignor,
                service.bounds,
                canary if service.guarded else (),
            ).run()
            log.info("stopped")
    except OSError as error:
        raise PermanentError(
            f"the telemetry port {port} cannot be opened ({error.strerror}); set telemetry.port"
        ) from None


def run_canary(service: Service, settings: Settings, slot: int) -> None:
    """Handle on trial what a worker sends, until it sends no more; see `ragweir.streams.runtimes.canary`.

    Raises:
        ConfigurationError: if the settings cannot be used.
    """
    structlog.contextvars.bind_contextvars(service=service.name, slot=slot, pid=os.getpid())
    trials.run(service.agent(settings, 1), settings.limits.max_event_bytes)


def _check_topics(service: Service, prefix: str, present: Mapping[str, int], needed: list[str]) -> None:
    missing = missing_topics(needed, present)
    if missing:
        names = ", ".join(missing)
        raise PermanentError(f"there is no topic {names}, or it may not be seen; `ragweir topics create` makes ours")
    for name in service.beside:
        if present[prefix + name] < present[needed[0]]:
            raise PermanentError(f"{prefix}{name} has fewer partitions than {needed[0]}; it needs as many")
