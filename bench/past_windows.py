"""Cost of the windows at the end of a replay: reading the parts, merging them into all sizes, and encoding."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta

import orjson
from rich.table import Table

from bench.timing import microseconds
from ragweir.metrics.aggregation.aggregator import Aggregator
from ragweir.metrics.aggregation.window_aggregate import WindowAggregate
from ragweir.metrics.catalogue import Catalogue, everything
from ragweir.schemas.codec.json import encode
from ragweir.schemas.evaluation import Evaluation
from ragweir.schemas.packed_scores import row_of
from ragweir.schemas.window import Window
from ragweir.streams.analysis.backfill.windows import of_records
from ragweir.streams.runtime.records import Record
from ragweir.streams.settings import Settings

_BEGIN = datetime(2026, 11, 21, 12, tzinfo=UTC)
_MINUTE = timedelta(minutes=1)
_EVENTS = 10
"""Events of each part."""
METRICS = 40


def score_values(rng: random.Random) -> dict[str, float | None]:
    """Draw a value of each metric."""
    metrics = [metric for metric in everything() if metric.unit != "category"][:METRICS]
    return {metric.name: _value(rng, metric.unit) for metric in metrics}


def _value(rng: random.Random, unit: str) -> float:
    """Draw a plausible value of a metric."""
    if unit in ("ratio", "score"):
        return round(rng.betavariate(5, 2), 6)
    if unit == "boolean":
        return float(rng.random() < 0.9)
    return float(rng.randrange(40)) if unit == "count" else round(rng.lognormvariate(6, 1), 3)


def part(start: datetime, labels: Mapping[str, str], place: tuple[int, int], contents: WindowAggregate) -> Record:
    """Return a part of a base window of a minute, as the aggregate agent writes it."""
    partition, number = place
    window = Window(
        window="1m",
        start=start,
        end=start + _MINUTE,
        dimensions=dict(labels),
        partition=partition,
        part=number,
        revision=1,
        **contents.fields(),
    )
    key = orjson.dumps([start, labels, partition, number], option=orjson.OPT_UTC_Z)
    return Record("windows", partition, 0, key, encode(window), 0)


def records(minutes: int, sets: int, partitions: int) -> Iterator[Record]:
    """Yield the parts of base windows, one of each minute, label set and partition."""
    rng, aggregator = random.Random(7), Aggregator(Catalogue(everything()))
    for minute in range(minutes):
        start = _BEGIN + minute * _MINUTE
        for number in range(sets):
            labels = {"application": f"app-{number % 4}", "model": f"model-{number // 4}", "pipeline_version": "v1"}
            for partition in range(partitions):
                events = [
                    Evaluation(event_id="", event_time=start, scores=score_values(rng), catalogue_version="1")
                    for _ in range(_EVENTS)
                ]
                contents = aggregator.aggregate([row_of(each) for each in events], [""] * len(events))[""]
                yield part(start, labels, (partition, minute), contents)


def by_records(own: Iterable[Record], settings: Settings) -> Iterator[bytes]:
    """Yield the records of the merged windows, as the end of a replay does."""
    return (window.encode() for window in of_records("windows", own, settings, lambda _, __: lambda _: None))


def table(minutes: int = 30) -> Table:
    """Return one row per number of partitions."""
    settings = Settings()
    title = f"End of a replay: {METRICS} metrics, windows of {', '.join(settings.windows.sizes)}, CPU time"
    columns = ("label sets", "partitions", "parts", "windows", "parts/s", "windows/s")
    result = Table(*columns, title=title)
    for sets, partitions in ((20, 1), (10, 8)):
        own = list(records(minutes, sets, partitions))
        count = len(list(by_records(own, settings)))
        own_s = microseconds(lambda own=own: list(by_records(own, settings)), 1) / 1e6  # type: ignore[misc]
        rates = f"{len(own) / own_s:,.0f}", f"{count / own_s:,.0f}"
        result.add_row(str(sets), str(partitions), f"{len(own):,}", f"{count:,}", *rates)
    return result
