"""Cost of windows without Kafka: CPU time of the aggregate agent per event, by the size of a commit."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import orjson
from rich.table import Table

from bench.timing import microseconds
from ragweir.metrics.aggregation.aggregator import Aggregator, WindowEntry
from ragweir.metrics.aggregation.window_aggregate import merged
from ragweir.metrics.catalogue import Catalogue, everything
from ragweir.schemas.codec.json import parse
from ragweir.schemas.evaluation import Evaluation
from ragweir.streams.agent import Assignment
from ragweir.streams.aggregate.agent import AggregateAgent, AggregateConfig
from ragweir.streams.records import Record

METRICS, LABEL_SETS = 40, 60
_START = datetime(2026, 11, 21, 12, tzinfo=UTC)


def _value(rng: random.Random, unit: str) -> float:
    """Draw a plausible value of a metric."""
    if unit in ("ratio", "score"):
        return round(rng.betavariate(5, 2), 6)
    if unit == "boolean":
        return float(rng.random() < 0.9)
    return float(rng.randrange(40)) if unit == "count" else round(rng.lognormvariate(6, 1), 3)


def score_values(rng: random.Random) -> dict[str, float | None]:
    """Draw a value of each metric."""
    metrics = [metric for metric in everything() if metric.unit != "category"][:METRICS]
    return {metric.name: _value(rng, metric.unit) for metric in metrics}


def evaluations(count: int, seed: int = 7) -> Iterator[bytes]:
    """Yield encoded evaluations of one minute, each with all metrics, spread over the label sets."""
    rng = random.Random(seed)
    metrics = [metric for metric in everything() if metric.unit != "category"][:METRICS]
    for number in range(count):
        labels = number % LABEL_SETS
        yield orjson.dumps(
            {
                "event_id": f"bench-{number}",
                "event_time": _START + timedelta(seconds=60 * number / count),
                "application": f"app-{labels % 4}",
                "model": f"model-{labels // 4}",
                "pipeline_version": "v1",
                "scores": {metric.name: _value(rng, metric.unit) for metric in metrics},
                "catalogue_version": "1",
            }
        )


def new_agent() -> AggregateAgent:
    """Return an agent of all metrics with one partition and no windows."""
    agent = AggregateAgent(AggregateConfig(Aggregator(Catalogue(everything()))))
    agent.on_assigned(Assignment(("rag.evaluations", 0), None, 0))
    return agent


def commit(agent: AggregateAgent, records: list[Record]) -> int:
    """Handle records, commit them, and return the number of records that were written."""
    emitted = len(agent.handle(records).emissions)
    agent.on_commit()
    return emitted


def _costs(batch: int) -> list[float]:
    """Measure each stage of a commit of one partition and window, in CPU microseconds per event."""
    aggregator, agent = Aggregator(Catalogue(everything())), new_agent()
    values = list(evaluations(batch))
    timestamp = int(_START.timestamp() * 1000) + 60_000
    records = [Record("evaluations", 0, number, None, value, timestamp) for number, value in enumerate(values)]

    def decoded() -> list[Evaluation]:
        return [Evaluation.model_validate(parse(value)) for value in values]

    entries: list[WindowEntry[int]] = [
        aggregator.entry(each, number % LABEL_SETS) for number, each in enumerate(decoded())
    ]
    new = list(aggregator.aggregate(entries).values())
    held = [merged((each, each)) for each in new]
    stages: tuple[Callable[[], object], ...] = (
        decoded,
        lambda: aggregator.aggregate(entries),
        lambda: [merged(pair) for pair in zip(held, new, strict=True)],
        lambda: [orjson.dumps(each.fields(), option=orjson.OPT_NON_STR_KEYS) for each in held],
        lambda: commit(agent, records),
    )
    decode, *parts, whole = (microseconds(stage, batch) for stage in stages)
    return [decode, *parts, whole - decode]


def table() -> Table:
    """Return one row per number of events in a commit."""
    title = f"Windows: CPU µs per event, {METRICS} metrics, {LABEL_SETS} label sets, one partition"
    columns = ("events per commit", "decode", "aggregate", "merge", "encode", "all except decoding")
    result = Table(*columns, title=title, title_justify="left")
    for batch in (1_000, 5_000):
        result.add_row(f"{batch:,}", *(f"{cost:.1f}" for cost in _costs(batch)))
    return result
