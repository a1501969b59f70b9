"""The services whose agents run on Kafka: their inputs, agents, ports and telemetry, made from the settings.

The agent of a service is imported when it is made: a worker starts faster without the modules of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import get_args

import structlog

from ragweir.errors import ConfigurationError
from ragweir.schemas.topics import TOPICS, max_record_bytes
from ragweir.streams.runtime.agent import Agent
from ragweir.streams.runtime.kafka.client import Assignor
from ragweir.streams.runtime.kernel_choice import kernel_choice
from ragweir.streams.runtime.records import Count, ReplayBounds
from ragweir.streams.runtime.serving.instruments import KnownLabels
from ragweir.streams.services.shared.from_settings import aggregator, catalogue
from ragweir.streams.settings import BatchSettings, Settings
from ragweir.streams.traces.gaps import Gap

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Service:
    """One service."""

    name: str
    agent: Callable[[Settings, int], Agent]
    """Makes the agent from the settings and the partition count of the first input."""
    check: Callable[[Settings], object]
    """Raises ConfigurationError if the settings do not suit the service."""
    inputs: Callable[[Settings], list[str]]
    """Returns the full names of the topics to read."""
    port: int = 0
    """Added to `telemetry.port` and the slot; the ports of all services are at least 100 apart."""
    batch: Callable[[Settings], BatchSettings] = lambda settings: settings.batch
    copartitioned: tuple[str, ...] = ()
    """Topics of the topic table that need as many partitions as the first input, as records keep their partition."""
    assignor: Assignor = "roundrobin"
    bounds: ReplayBounds | None = None
    """The offsets to read; None reads the inputs without end."""
    tries_suspects: bool = False
    """True if records on which a process may have died are tried one by one in a canary process first."""
    needs_all_inputs: bool = True
    """False if it works while only some of its inputs exist."""
    enabled: Callable[[Settings], bool] = lambda _: True
    """Returns true if `ragweir up` runs it with these settings."""
    known: Callable[[Settings], KnownLabels] = lambda _: KnownLabels()
    """Returns the label values that its telemetry shows from the start, without its inputs."""

    def known_labels(self, settings: Settings) -> KnownLabels:
        """Return the label values that its telemetry shows from the start, with its inputs."""
        version = catalogue(settings).version
        return replace(self.known(settings), topics=self.inputs(settings), catalogue_version=version)


def _evaluate_agent(settings: Settings, _: int) -> Agent:
    from ragweir.streams.services.evaluate.agent import EvaluateAgent  # noqa: PLC0415 - as the module's docstring says
    from ragweir.streams.services.evaluate.control_log import ControlLog  # noqa: PLC0415
    from ragweir.streams.services.evaluate.from_settings import evaluate_config  # noqa: PLC0415

    config = evaluate_config(settings, settings.input_topic)
    if config.router and config.router.uses_rows:
        config = replace(config, rows=ControlLog(settings, settings.output_topic("control")))
    return EvaluateAgent(config)


def _evaluate_known(settings: Settings) -> KnownLabels:
    from ragweir.streams.services.evaluate.from_settings import evaluate_config  # noqa: PLC0415

    config = evaluate_config(settings, settings.input_topic)
    return KnownLabels(
        stages=("scored",),
        metrics=config.catalogue.free,
        suites=config.router.suites if config.router else (),
        kernel=kernel_choice(settings.kernel).label,
    )


def _aggregate_agent(settings: Settings, _: int) -> Agent:
    from ragweir.streams.services.aggregate.agent import AggregateAgent, AggregateConfig  # noqa: PLC0415

    enabled = catalogue(settings)
    metrics = enabled.metrics
    unknown = [
        slo.metric for slo in settings.slo if slo.metric not in metrics or metrics[slo.metric].unit == "category"
    ]
    if unknown:
        why = enabled.hint(unknown[0])
        raise ConfigurationError(f"an SLO is on {unknown[0]!r}, which is no numeric metric that is switched on{why}")
    max_bytes = max_record_bytes(settings.limits.max_event_bytes)
    return AggregateAgent(AggregateConfig(aggregator(settings), settings.windows, settings.slo, max_bytes))


def _aggregate_known(settings: Settings) -> KnownLabels:
    objectives: dict[Count, float] = {("ragweir_slo_objective", slo.name): slo.objective for slo in settings.slo}
    judged = aggregator(settings).suites
    return KnownLabels(
        slos=[slo.name for slo in settings.slo],
        judged_slos=[slo.name for slo in settings.slo if slo.metric in judged],
        levels=objectives,
    )


def _check_traces(settings: Settings) -> None:
    """Raise ConfigurationError if the settings do not suit the services of assemble."""
    if not settings.reads_traces:
        raise ConfigurationError(
            'only with input.format = "otlp" are there traces to assemble; input.topic and assemble.topics name the '
            "topics to read"
        )
    own = {settings.topics.prefix + name for name in TOPICS}
    if repeated := sorted(own.intersection(settings.trace_topics)):
        raise ConfigurationError(
            f"{repeated[0]} is ragweir's own topic and no source of traces: input.topic and assemble.topics name the "
            "topics that a Collector writes"
        )


def _key_agent(settings: Settings, _: int) -> Agent:
    from ragweir.streams.services.key.agent import KeyAgent  # noqa: PLC0415

    reads_feedback = settings.feedback.enabled
    return KeyAgent(settings.assemble, settings.limits.max_event_bytes, reads_feedback=reads_feedback)


def _join_agent(settings: Settings, _: int) -> Agent:
    from ragweir.streams.services.join.agent import JoinAgent  # noqa: PLC0415

    return JoinAgent(settings.assemble, settings.limits.max_event_bytes)


_JUDGED = ("judge.requests", "judge.retry", "judge.deferred")


def _judge_agent(settings: Settings, partitions: int) -> Agent:
    from ragweir.streams.services.judge.agent import JudgeAgent  # noqa: PLC0415
    from ragweir.streams.services.judge.anchor_file import anchor_set  # noqa: PLC0415
    from ragweir.streams.services.judge.day_shares import DayShares  # noqa: PLC0415
    from ragweir.streams.services.judge.from_settings import judge_config  # noqa: PLC0415
    from ragweir.streams.services.judge.pool import LiveJudgePool, rate_limits  # noqa: PLC0415
    from ragweir.streams.services.judge.rate_ledger import RateLedger, StoredUses  # noqa: PLC0415

    rates = RateLedger(rate_limits(settings.judge, granted=True), StoredUses(settings))
    config = judge_config(settings, partitions)
    config = replace(config, shares=DayShares(settings), rates=rates, anchors=anchor_set(settings))
    return JudgeAgent(config, LiveJudgePool(settings.judge, limits=rates.limits))


def _check_judge(settings: Settings) -> None:
    from ragweir.streams.services.judge.anchor_file import anchor_set  # noqa: PLC0415
    from ragweir.streams.services.judge.from_settings import judge_config  # noqa: PLC0415

    judge_config(settings, 1)
    anchor_set(settings)


def _judge_known(settings: Settings) -> KnownLabels:
    from ragweir.streams.services.judge.worker_ledgers import nothing_spent  # noqa: PLC0415

    return KnownLabels(stages=("judged",), levels=nothing_spent(settings.judge.budgets_by_application))


def _match_agent(settings: Settings, _: int) -> Agent:
    from ragweir.streams.services.match.agent import MatchAgent, MatchConfig  # noqa: PLC0415
    from ragweir.streams.services.match.target_reader import TargetReader  # noqa: PLC0415
    from ragweir.streams.services.match.target_store import TargetStore  # noqa: PLC0415

    dimensions, horizon_s = tuple(settings.windows.dimensions), settings.feedback.horizon_s
    config = MatchConfig(settings.labels.key, horizon_s, dimensions, settings.limits.max_event_bytes)
    store = TargetStore(horizon_s, dimensions)
    return MatchAgent(config, store, TargetReader(settings, store))


def _tally_agent(settings: Settings, _: int) -> Agent:
    from ragweir.streams.services.tally.agent import TallyAgent  # noqa: PLC0415

    return TallyAgent(settings.feedback.horizon_s)


SERVICES: Mapping[str, Service] = {
    service.name: service
    for service in (
        Service(
            "evaluate",
            agent=_evaluate_agent,
            check=lambda settings: _evaluate_agent(settings, 1),
            inputs=lambda settings: [settings.input_topic, f"{settings.topics.prefix}redrive"],
            tries_suspects=True,
            known=_evaluate_known,
        ),
        Service(
            "key",
            agent=_key_agent,
            check=_check_traces,
            inputs=lambda settings: list(settings.trace_topics),
            port=500,
            tries_suspects=True,
            needs_all_inputs=False,
            enabled=lambda settings: settings.reads_traces,
        ),
        Service(
            "join",
            agent=_join_agent,
            known=lambda _: KnownLabels(gaps=get_args(Gap)),
            check=_check_traces,
            inputs=lambda settings: [f"{settings.topics.prefix}spans"],
            port=600,
            enabled=lambda settings: settings.reads_traces,
            copartitioned=("assembly",),
        ),
        Service(
            "aggregate",
            agent=_aggregate_agent,
            check=lambda settings: _aggregate_agent(settings, 1),
            inputs=lambda settings: [f"{settings.topics.prefix}evaluations"],
            port=100,
            # A batch holds the evaluations of one commit interval.
            batch=lambda settings: BatchSettings(
                max_events=10_000, max_bytes=32 * 1024 * 1024, max_wait_ms=settings.windows.commit_ms
            ),
            copartitioned=("windows",),
            known=_aggregate_known,
        ),
        Service(
            "judge",
            agent=_judge_agent,
            check=_check_judge,
            inputs=lambda settings: [f"{settings.topics.prefix}{name}" for name in _JUDGED],
            port=300,
            enabled=lambda settings: settings.judge.base_url is not None,
            # Finished calls are collected once a batch, and each lets another begin.
            batch=lambda settings: settings.batch.model_copy(
                update={"max_wait_ms": min(25, settings.batch.max_wait_ms)}
            ),
            copartitioned=(*_JUDGED[1:], "judge.ledger"),
            # One worker reads a partition's requests, retries, deferred requests and ledger.
            assignor="range",
            known=_judge_known,
        ),
        Service(
            "match",
            agent=_match_agent,
            check=lambda settings: _match_agent(settings, 1),
            inputs=lambda settings: [f"{settings.topics.prefix}feedback"],
            port=900,
            enabled=lambda settings: settings.feedback.enabled,
            copartitioned=("feedback.waiting",),
        ),
        Service(
            "tally",
            agent=_tally_agent,
            check=lambda settings: _tally_agent(settings, 1),
            inputs=lambda settings: [f"{settings.topics.prefix}feedback.keyed"],
            port=1000,
            enabled=lambda settings: settings.feedback.enabled,
            copartitioned=("feedback.joined", "feedback.windows"),
        ),
    )
}
