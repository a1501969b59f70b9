"""One slot of a service, from its settings to its loop."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import structlog

from metrics.catalogue import Catalogue, everything
from metrics.totals import Totals
from schemas.mapping import FieldMap, MapError
from schemas.topics import max_record_bytes
from streams.agents.agent import Agent
from streams.agents.aggregate import AggregateAgent, AggregateConfig
from streams.agents.evaluate import EvaluateAgent, EvaluateConfig
from streams.kafka_client import Identity, Refusal, missing_topics, wait_for_broker
from streams.runtimes.kafka import KafkaRuntime
from streams.serving.health import Health, serve
from streams.serving.telemetry import Telemetry
from streams.settings import BatchSettings, Settings, WrongSettings

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

_NEW_TOPIC_S = 3.0
"""A topic that was just created is not at once known to every broker."""


def read_map(file: Path) -> FieldMap:
    """Read and compile a map.

    Raises:
        WrongSettings: if it cannot be read or is wrong.
    """
    try:
        return FieldMap.parse(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise WrongSettings(f"the map {file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise WrongSettings(f"the map {file} is not UTF-8") from None
    except MapError as error:
        raise WrongSettings(f"the map {file} is wrong: {error}") from None


def catalogue(settings: Settings) -> Catalogue:
    """The metrics that are switched on.

    Raises:
        WrongSettings: if a metric or a pack is not what it should be.
    """
    try:
        return Catalogue(everything(settings.metrics.packs), settings.metrics.off)
    except ValueError as error:
        raise WrongSettings(str(error)) from None


def totals(settings: Settings) -> Totals:
    """How windows sum metrics up, those too that are switched off: windows from before may hold them.

    Raises:
        WrongSettings: if a metric or a pack is not what it should be.
    """
    every = settings.metrics.model_copy(update={"off": ()})
    return Totals(catalogue(settings.model_copy(update={"metrics": every})))


def evaluate_config(settings: Settings, topic: str, *, explain: bool = False) -> EvaluateConfig:
    """All that evaluations depend on, for interactions that are read from `topic`.

    Raises:
        WrongSettings: if a metric, a pack or the map is not what it should be.
    """
    return EvaluateConfig(
        catalogue=catalogue(settings),
        limits=settings.limits.view,
        max_event_bytes=settings.limits.max_event_bytes,
        mappings={topic: read_map(settings.input.map)} if settings.input.map else {},
        include_text=settings.output.include_text,
        explain=explain,
    )


@dataclass(frozen=True, slots=True)
class Service:
    """What differs between the services that run on Kafka."""

    name: str
    agent: Callable[[Settings], Agent]
    inputs: Callable[[Settings], list[str]]
    port: int = 0
    """Added to the base of the telemetry ports."""
    batch: Callable[[Settings], BatchSettings] = lambda settings: settings.batch
    same_partitions: bool = False
    """Whether its outputs stand in the partition of its input."""


def _evaluate_agent(settings: Settings) -> Agent:
    return EvaluateAgent(evaluate_config(settings, settings.input_topic))


def _aggregate_agent(settings: Settings) -> Agent:
    metrics = catalogue(settings).metrics
    unknown = [
        slo.metric for slo in settings.slo if slo.metric not in metrics or metrics[slo.metric].unit == "category"
    ]
    if unknown:
        raise WrongSettings(f"an SLO is on {unknown[0]!r}, which is no metric of numbers that is switched on")
    most = max_record_bytes(settings.limits.max_event_bytes)
    return AggregateAgent(AggregateConfig(totals(settings), settings.windows, settings.slo, most))


SERVICES: Mapping[str, Service] = {
    service.name: service
    for service in (
        Service(
            "evaluate",
            agent=_evaluate_agent,
            inputs=lambda settings: [settings.input_topic, f"{settings.topics.prefix}redrive"],
        ),
        Service(
            "aggregate",
            agent=_aggregate_agent,
            inputs=lambda settings: [f"{settings.topics.prefix}evaluations"],
            port=100,
            # Windows are written about once a second, so a batch is what has come by then.
            batch=lambda settings: BatchSettings(
                max_events=5_000, max_bytes=16 * 1024 * 1024, max_wait_ms=settings.windows.commit_ms
            ),
            same_partitions=True,
        ),
    )
}


def run_slot(service: Service, settings: Settings, slot: int, stopped: Callable[[], bool]) -> None:
    """Run one slot of a service until told to stop.

    Raises:
        Refusal, WrongSettings: if people have to mend something first.
        Fatal: if a new process has to go on.
    """
    identity = Identity(service.name, slot, settings.topics.prefix)
    structlog.contextvars.bind_contextvars(service=identity.service, slot=slot, pid=os.getpid())
    agent = service.agent(settings)
    telemetry, health = Telemetry(identity.service, slot), Health()
    for slo in settings.slo:
        telemetry.set("ragweir_slo_objective", slo.objective, slo.name)
        for outcome in ("good", "bad"):  # A counter has to start at 0 for its first events to be seen.
            telemetry.count("ragweir_slo_events_total", 0, slo.name, outcome)
    port = settings.telemetry.port and settings.telemetry.port + service.port + slot
    try:
        with serve(telemetry.registry, health, settings.telemetry.host, port) as bound:
            log.info("started", member=identity.member, telemetry=f"http://{settings.telemetry.host}:{bound}")
            health.not_ready = "waiting for a broker"
            inputs = service.inputs(settings)
            outputs = [settings.topics.prefix + name for name in agent.outputs]
            look_until = time.monotonic() + _NEW_TOPIC_S
            while (topics := wait_for_broker(settings, stopped)) is not None:
                if not missing_topics([*inputs, *outputs], topics) or time.monotonic() > look_until:
                    break
                time.sleep(0.2)
            if topics is None:
                return
            _check_topics(service, topics, inputs, outputs)
            own = settings.model_copy(update={"batch": service.batch(settings)})
            KafkaRuntime(own, identity, agent, inputs, telemetry, health, stopped).run()
            log.info("stopped")
    except OSError as error:
        raise Refusal(f"the telemetry port {port} cannot be opened ({error.strerror}); set telemetry.port") from None


def _check_topics(service: Service, present: Mapping[str, int], inputs: list[str], outputs: list[str]) -> None:
    missing = missing_topics([*inputs, *outputs], present)
    if missing:
        names = ", ".join(missing)
        raise Refusal(f"there is no topic {names}, or it may not be seen; `ragweir topics create` makes ours")
    if service.same_partitions and present[outputs[0]] < present[inputs[0]]:
        raise Refusal(f"{outputs[0]} has fewer partitions than {inputs[0]}; it needs as many")
