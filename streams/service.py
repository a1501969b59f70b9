"""The services that run on Kafka: what each reads, and its agent, made from the settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import structlog

from ragweir.errors import ConfigurationError, MapError
from ragweir.metrics.aggregation.aggregator import Aggregator
from ragweir.metrics.catalogue import Catalogue, everything
from ragweir.metrics.judged.suites import suites
from ragweir.schemas.codec.decoder import Decoder, JsonDecoder, MappedDecoder
from ragweir.schemas.codec.mapping import FieldMap
from ragweir.schemas.topics import max_record_bytes
from ragweir.streams.agent import Agent
from ragweir.streams.aggregate.agent import AggregateAgent, AggregateConfig
from ragweir.streams.evaluate.agent import EvaluateAgent, EvaluateConfig
from ragweir.streams.evaluate.routing import Router
from ragweir.streams.judge.agent import JudgeAgent
from ragweir.streams.judge.config import JudgeConfig
from ragweir.streams.judge.day_shares import DayShares
from ragweir.streams.judge.ledgers import nothing_spent
from ragweir.streams.judge.pool import LiveJudgePool
from ragweir.streams.judge.pricing import FREE
from ragweir.streams.judge.redaction import Redactor
from ragweir.streams.kafka.client import Assignor
from ragweir.streams.records import Count, ReplayBounds
from ragweir.streams.serving.telemetry import Known
from ragweir.streams.settings import BatchSettings, Settings, must_be_closed

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


def read_map(file: Path) -> FieldMap:
    """Read and compile a map.

    Raises:
        ConfigurationError: if it cannot be read, is wrong, or every user of the machine may change it.
    """
    must_be_closed(file)
    try:
        return FieldMap.parse(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"the map {file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"the map {file} is not UTF-8") from None
    except MapError as error:
        raise ConfigurationError(f"the map {file} is wrong: {error}") from None


def catalogue(settings: Settings) -> Catalogue:
    """The metrics that are switched on.

    Raises:
        ConfigurationError: if a metric or a pack is not what it should be.
    """
    try:
        return Catalogue(everything(settings.metrics.packs), settings.metrics.off)
    except ValueError as error:
        raise ConfigurationError(str(error)) from None


def totals(settings: Settings) -> Aggregator:
    """How windows sum metrics up, those too that are switched off: windows from before may hold them.

    Raises:
        ConfigurationError: if a metric or a pack is not what it should be.
    """
    every = settings.metrics.model_copy(update={"off": ()})
    return Aggregator(catalogue(settings.model_copy(update={"metrics": every})))


def decoder(settings: Settings) -> Decoder:
    """Return the decoder of the input topic.

    Raises:
        ConfigurationError: if the map is not what it should be.
    """
    limits = settings.limits
    if settings.input.map is None:
        return JsonDecoder(limits.max_event_bytes, limits.max_items)
    return MappedDecoder(read_map(settings.input.map), limits.max_event_bytes, limits.max_items)


def evaluate_config(settings: Settings, topic: str, *, explain: bool = False) -> EvaluateConfig:
    """All that evaluations depend on, for interactions that are read from `topic`.

    Raises:
        ConfigurationError: if a metric, a pack, the map or a rule of the routing is not what it should be.
    """
    metrics = catalogue(settings)
    return EvaluateConfig(
        catalogue=metrics,
        limits=settings.limits.view,
        max_event_bytes=settings.limits.max_event_bytes,
        max_items=settings.limits.max_items,
        decoders={topic: decoder(settings)} if settings.input.map else {},
        include_text=settings.output.include_text,
        explain=explain,
        router=Router(settings.routing, metrics, tuple(suites())) if settings.judge.base_url else None,
        duplicate_horizon=settings.input.duplicate_horizon,
    )


def judge_config(settings: Settings, partitions: int) -> JudgeConfig:
    """All that judging depends on, for requests in so many partitions.

    Raises:
        ConfigurationError: if there is no judge, a price is unknown while there is a budget, or settings are wrong.
    """
    judge = settings.judge
    if judge.base_url is None:
        raise ConfigurationError("there is no judge: set judge.base_url, such as https://api.openai.com/v1")
    for model in (judge.model, judge.embedding_model):
        if model is not None and model not in judge.prices and judge.daily_budget_usd is not None:
            raise ConfigurationError(
                f"the price of {model} is not known, so the budget cannot be kept: set "
                f'judge.prices."{model}" = {{ input_usd = ..., output_usd = ... }} (dollars per million tokens), or '
                'judge.daily_budget_usd = "none"'
            )
    published = catalogue(settings).metrics
    every = suites(judge.ragas_weights)
    return JudgeConfig(
        suites=every,
        judge=judge,
        price=judge.prices.get(judge.model, FREE),
        embedding_price=judge.prices.get(judge.embedding_model or "", FREE),
        partitions=partitions,
        redact=Redactor(judge).applied,
        off=frozenset(m.name for suite in every.values() for m in suite.metrics if m.name not in published),
        max_bytes=max_record_bytes(settings.limits.max_event_bytes),
    )


@dataclass(frozen=True, slots=True)
class Service:
    """What differs between the services that run on Kafka."""

    name: str
    agent: Callable[[Settings, int], Agent]
    """Made from the settings and the number of partitions of its first input."""
    check: Callable[[Settings], object]
    """Raises ConfigurationError where `agent` would."""
    inputs: Callable[[Settings], list[str]]
    port: int = 0
    """Added to the base of the telemetry ports."""
    batch: Callable[[Settings], BatchSettings] = lambda settings: settings.batch
    beside: tuple[str, ...] = ()
    """Those of our topics that need as many partitions as its first input: what it writes stands in the same one."""
    assignor: Assignor = "roundrobin"
    bounds: ReplayBounds | None = None
    """What of its inputs is read; all of it without."""
    guarded: bool = False
    """True where records on which a process may have died are tried one by one in a process of their own."""
    known: Callable[[Settings], Known] = lambda _: Known()
    """Gives the label values that its telemetry shows from the start, beside its inputs."""

    def known_labels(self, settings: Settings) -> Known:
        """Return all label values that its telemetry shows from the start."""
        return replace(self.known(settings), topics=self.inputs(settings))


def _evaluate_agent(settings: Settings, _: int) -> Agent:
    return EvaluateAgent(evaluate_config(settings, settings.input_topic))


def _evaluate_known(settings: Settings) -> Known:
    config = evaluate_config(settings, settings.input_topic)
    return Known(
        stages=("scored",),
        metrics=config.catalogue.free,
        suites=config.router.suites if config.router else (),
    )


def _aggregate_agent(settings: Settings, _: int) -> Agent:
    metrics = catalogue(settings).metrics
    unknown = [
        slo.metric for slo in settings.slo if slo.metric not in metrics or metrics[slo.metric].unit == "category"
    ]
    if unknown:
        raise ConfigurationError(f"an SLO is on {unknown[0]!r}, which is no metric of numbers that is switched on")
    most = max_record_bytes(settings.limits.max_event_bytes)
    return AggregateAgent(AggregateConfig(totals(settings), settings.windows, settings.slo, most))


def _aggregate_known(settings: Settings) -> Known:
    objectives: dict[Count, float] = {("ragweir_slo_objective", slo.name): slo.objective for slo in settings.slo}
    return Known(slos=[slo.name for slo in settings.slo], levels=objectives)


_JUDGED = ("judge.requests", "judge.retry", "judge.deferred")


def _judge_agent(settings: Settings, partitions: int) -> Agent:
    config = replace(judge_config(settings, partitions), shares=DayShares(settings))
    return JudgeAgent(config, LiveJudgePool(settings.judge))


SERVICES: Mapping[str, Service] = {
    service.name: service
    for service in (
        Service(
            "evaluate",
            agent=_evaluate_agent,
            check=lambda settings: _evaluate_agent(settings, 1),
            inputs=lambda settings: [settings.input_topic, f"{settings.topics.prefix}redrive"],
            guarded=True,
            known=_evaluate_known,
        ),
        Service(
            "aggregate",
            agent=_aggregate_agent,
            check=lambda settings: _aggregate_agent(settings, 1),
            inputs=lambda settings: [f"{settings.topics.prefix}evaluations"],
            port=100,
            # Windows are written about once a second, so a batch is what has come by then.
            batch=lambda settings: BatchSettings(
                max_events=5_000, max_bytes=16 * 1024 * 1024, max_wait_ms=settings.windows.commit_ms
            ),
            beside=("windows",),
            known=_aggregate_known,
        ),
        Service(
            "judge",
            agent=_judge_agent,
            check=lambda settings: judge_config(settings, 1),
            inputs=lambda settings: [f"{settings.topics.prefix}{name}" for name in _JUDGED],
            port=300,
            # What has come of its calls is looked for once a batch, and each call that ends lets another begin.
            batch=lambda settings: settings.batch.model_copy(
                update={"max_wait_ms": min(25, settings.batch.max_wait_ms)}
            ),
            beside=(*_JUDGED[1:], "judge.ledger"),
            # A partition's requests, those of them that wait, and its ledger belong to one worker.
            assignor="range",
            known=lambda settings: Known(
                stages=("judged",), levels=nothing_spent(settings.judge.budgets_by_application)
            ),
        ),
    )
}
