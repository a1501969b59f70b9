"""Cost of windows: of the aggregate agent alone and from Kafka to Kafka, from JSON and from packed rows; exposition."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from typing import Any

from confluent_kafka import Producer
from rich.table import Table
from typing_extensions import override

from bench.interactions import interactions
from bench.kafka_loops import Measurement, in_process, topics
from bench.timing import microseconds
from ragweir.metrics.aggregation.aggregator import Aggregator
from ragweir.metrics.aggregation.merger import ClosedWindow
from ragweir.metrics.catalogue import Catalogue, everything
from ragweir.schemas.codec.json import encode, parse
from ragweir.schemas.evaluation import Evaluation
from ragweir.schemas.packed_scores import RowReader, row_of, score_headers
from ragweir.streams.playground.local.kafka import local_kafka
from ragweir.streams.runtime.agent import Assignment
from ragweir.streams.runtime.emissions import cloud_event
from ragweir.streams.runtime.kafka.client import Connection, Identity, producer_properties
from ragweir.streams.runtime.loop.kafka_runtime import KafkaRuntime
from ragweir.streams.runtime.records import Headers, Outcome, Record
from ragweir.streams.runtime.serving.health import Health
from ragweir.streams.services.aggregate.agent import AggregateAgent, AggregateConfig
from ragweir.streams.services.evaluate.agent import EvaluateAgent, EvaluateConfig
from ragweir.streams.services.export.exposition import Exposition
from ragweir.streams.services.instruments import telemetry_of
from ragweir.streams.services.kafka_services import SERVICES
from ragweir.streams.settings import Settings, load

LABEL_SETS = 200
EVENTS = 60_000
_START = datetime(2026, 11, 21, 12, tzinfo=UTC)
_PER_SECOND = 2_000
"""Events per second of event time."""
_DISTINCT = 400
_RUNS = ((False, 8, 1_000), (True, 1, 0), (True, 1, 1_000), (True, 8, 0), (True, 8, 1_000))
"""Runs from Kafka to Kafka: with packed rows, partitions, and milliseconds from commit to commit."""


@cache
def _scored() -> tuple[Evaluation, ...]:
    """Return evaluations with the whole catalogue."""
    agent = EvaluateAgent(EvaluateConfig(Catalogue(everything())))
    records = [Record("interactions", 0, number, None, each, 0) for number, each in enumerate(interactions(_DISTINCT))]
    return tuple(Evaluation.model_validate_json(each.value or b"") for each in agent.handle(records).emissions)


def packed_evaluations(
    count: int, label_sets: int = LABEL_SETS, *, packed: bool = True
) -> Iterator[tuple[bytes, bytes, Headers]]:
    """Yield key, value and headers of evaluations as evaluate writes them, spread over the label sets."""
    scored = _scored()
    for number in range(count):
        labels = number * 7919 % label_sets
        evaluation = scored[number % len(scored)].model_copy(
            update={
                "event_id": f"bench-{number}",
                "event_time": _START + timedelta(seconds=number / _PER_SECOND),
                "application": f"app-{labels % 4}",
                "pipeline_version": "v1",
                "model": f"model-{labels // 4}",
            }
        )
        value = encode(evaluation)
        headers = cloud_event(
            "evaluate", "evaluation.scored", evaluation.event_id, evaluation.event_time, "application/json"
        )
        row = score_headers(evaluation, value) if packed else ()
        yield evaluation.event_id.encode(), value, (*row, *headers)


def evaluations(count: int, label_sets: int = LABEL_SETS) -> Iterator[bytes]:
    """Yield encoded evaluations, spread over the label sets."""
    return (value for _, value, _ in packed_evaluations(count, label_sets))


def new_agent() -> AggregateAgent:
    """Return an agent of all metrics with one partition and no windows."""
    agent = AggregateAgent(AggregateConfig(Aggregator(Catalogue(everything()))))
    agent.on_assigned(Assignment(("rag.evaluations", 0), None, 0))
    return agent


def commit(agent: AggregateAgent, records: list[Record]) -> int:
    """Handle records, commit them, and return the number of records that were written."""
    agent.handle(records)
    emitted = len(agent.tick(0.0, (), 1).emissions)
    agent.on_commit()
    return emitted


# Without Kafka.


def _costs(batch: int) -> list[float]:
    """Measure each part of a commit of one partition, in CPU microseconds per event."""
    stamp = int(_START.timestamp() * 1000) + 3_600_000
    forms = [list(packed_evaluations(batch, packed=packed)) for packed in (False, True)]
    from_json, from_rows = (
        [Record("evaluations", 0, place, None, value, stamp, headers) for place, (_, value, headers) in enumerate(form)]
        for form in forms
    )
    parsed = [Evaluation.model_validate(parse(value)) for _, value, _ in forms[0]]
    reader = RowReader()
    reader.of(parsed[0])
    agents = new_agent(), new_agent()
    stages: tuple[Callable[[], object], ...] = (
        lambda: [score_headers(each, b"") for each in parsed],
        lambda: [row_of(Evaluation.model_validate(parse(record.value))) for record in from_json],
        lambda: [reader.read(record.headers, len(record.value or b"")) for record in from_rows],
        lambda: commit(agents[0], from_json),
        lambda: commit(agents[1], from_rows),
    )
    return [microseconds(stage, batch) for stage in stages]


def table() -> Table:
    """Return one row per number of events in a commit."""
    title = f"Windows without Kafka: CPU µs per evaluation, the catalogue, {LABEL_SETS} label sets, one partition"
    columns = ("events per commit", "packing (evaluate)", "reading JSON", "reading a row", "all, JSON", "all, rows")
    result = Table(*columns, title=title)
    for batch in (1_000, 5_000, 20_000):
        result.add_row(f"{batch:,}", *(f"{cost:.1f}" for cost in _costs(batch)))
    return result


# From Kafka to Kafka.


class _Metered(AggregateAgent):
    """Reports the time from its first event to the commit of its last."""

    def __init__(self, settings: Settings, events: int, report: Callable[[Measurement], None]) -> None:
        super().__init__(AggregateConfig(Aggregator(Catalogue(everything())), settings.windows))
        self._events, self._report = events, report
        self._began: tuple[float, float] | None = None
        self._met = 0
        self.done = False

    @override
    def handle(self, records: Sequence[Record]) -> Outcome:
        self._began = self._began or (time.monotonic(), time.process_time())
        self._met += len(records)
        return super().handle(records)

    @override
    def on_commit(self) -> None:
        super().on_commit()
        if self._began is not None and self._met >= self._events and not self.done:
            self.done = True
            wall, cpu = self._began
            self._report(Measurement(wall, time.monotonic() - wall, time.process_time() - cpu, self._met))


def _settings(bootstrap: str, prefix: str, interval_ms: int = 0) -> Settings:
    kafka, own, commit = {"bootstrap_servers": bootstrap}, {"prefix": prefix}, {"interval_ms": interval_ms}
    return load(None, {"kafka": kafka, "topics": own, "telemetry": {"port": 0}, "commit": commit})


def _work(bootstrap: str, prefix: str, interval_ms: int, events: int, pipe: Any) -> None:
    settings = _settings(bootstrap, prefix, interval_ms)
    service = SERVICES["aggregate"]
    batch = service.batch(settings)
    agent = _Metered(settings, events, pipe.send)
    KafkaRuntime(
        settings.model_copy(update={"batch": batch}),
        Identity("aggregate", 0, prefix),
        agent,
        service.inputs(settings),
        telemetry_of("aggregate", 0),
        Health(),
        lambda: agent.done,
    ).run()


def kafka_table(events: int = EVENTS) -> Table:
    """Return one row per form of the evaluations, number of partitions and interval of commits."""
    title = f"Windows from Kafka to Kafka: {events:,} evaluations of 3.2 KB, {LABEL_SETS} label sets, one worker"
    columns = (
        "evaluations",
        "partitions",
        "commit.interval_ms",
        "evaluations/s",
        "CPU µs per evaluation in the worker",
    )
    result = Table(*columns, title=title)
    with local_kafka() as broker:
        for number, (packed, partitions, interval_ms) in enumerate(_RUNS):
            prefix = f"bench{number}."
            names = [f"{prefix}{name}" for name in ("evaluations", "windows", "dead-letter")]
            settings = _settings(broker.bootstrap, prefix)
            with topics(broker.bootstrap, *names, partitions=partitions):
                identity, connection = Identity("fill", number, prefix), Connection()
                properties = dict(producer_properties(settings, identity, connection))
                properties.pop("transactional.id")
                producer = Producer(properties)
                for key, value, headers in packed_evaluations(events, packed=packed):
                    producer.produce(names[0], value, key, headers=list(headers))
                    producer.poll(0)
                producer.flush(60)
                measured: Measurement = in_process(_work, broker.bootstrap, prefix, interval_ms, events)
            form = "packed rows" if packed else "JSON"
            result.add_row(form, str(partitions), f"{interval_ms:,}", f"{measured.rate:,.0f}", f"{measured.cpu_us:.1f}")
    return result


# Exposition.


def exposition_table() -> Table:
    """Return the time of rendering closed windows, by the number of their series."""
    aggregator, metrics = Aggregator(Catalogue(everything())), everything()
    booleans = [metric.name for metric in metrics if metric.unit == "boolean"]
    title = "Exposition of a closed window: CPU ms"
    result = Table("label sets", "series", "bytes", "rendering", title=title)
    for label_sets in (10, 47, 200):
        events = [Evaluation.model_validate(parse(each)) for each in evaluations(20 * label_sets, label_sets)]
        keys = [(each.application or "", each.model or "") for each in events]
        window = ClosedWindow("1m", 0, 60, aggregator.aggregate([row_of(each) for each in events], keys))
        exposition = Exposition(("application", "model"), booleans)
        cost_ms = microseconds(partial(exposition.show, [window]), 1_000)
        content = exposition.content
        series = content.count(b"\n") - content.count(b"\n#") - 1
        result.add_row(str(label_sets), f"{series:,}", f"{len(content):,}", f"{cost_ms:.1f}")
    return result
