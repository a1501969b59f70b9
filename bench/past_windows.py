"""Cost of the windows at the end of a replay: reading the parts, merging them into all sizes, and encoding.

The same windows are made by the models of the records, which validate each record when it is read and each window
before it is written: the way before `ragweir.schemas.window_record`, and the bytes to compare with.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from time import process_time

import orjson
from rich.table import Table

from ragweir.metrics.aggregation.aggregator import Aggregator
from ragweir.metrics.aggregation.cardinality import Admission, Labels, admit_sets, merge_sets
from ragweir.metrics.aggregation.window_aggregate import WindowAggregate
from ragweir.metrics.catalogue import Catalogue, everything
from ragweir.schemas.codec.json import encode
from ragweir.schemas.evaluation import Evaluation
from ragweir.schemas.packed_scores import row_of
from ragweir.schemas.window import Window, duration_s
from ragweir.streams.analysis.backfill.windows import of_records
from ragweir.streams.runtime.records import Record
from ragweir.streams.services.aggregate.window_times import start_of
from ragweir.streams.services.shared.dimensions import admission_limits
from ragweir.streams.services.shared.from_settings import aggregator
from ragweir.streams.settings import Settings, WindowSettings

_BEGIN = datetime(2026, 11, 21, 12, tzinfo=UTC)
_MINUTE = timedelta(minutes=1)
_EVENTS = 10
"""Events of each part."""
_ROUNDS = 3
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


def by_models(own: Iterable[Record], settings: Settings) -> Iterator[bytes]:
    """Yield the same, with models for what is read and what is written, and each size merged from the base windows."""
    decoder = aggregator(settings).decoder()
    latest = {record.key: record.value for record in own}
    bases: defaultdict[datetime, dict[Labels, WindowAggregate]] = defaultdict(dict)
    for value in latest.values():
        if value is not None:
            window = Window.model_validate_json(value)
            labels = tuple(window.dimensions.get(name, "") for name in settings.windows.dimensions)
            bases[window.start].setdefault(labels, WindowAggregate()).merge(decoder.decode(window))
    return map(encode, models_of_all_sizes(bases, settings.windows))


def models_of_all_sizes(
    bases: Mapping[datetime, dict[Labels, WindowAggregate]], settings: WindowSettings
) -> Iterator[Window]:
    """Yield the windows of every size as `of_all_sizes` does, each size merged from the base windows by itself."""
    admission = Admission(admission_limits(settings))
    found: dict[tuple[datetime, timedelta, str], dict[Labels, WindowAggregate]] = {}
    for start, sets in sorted(bases.items()):
        kept, _ = admit_sets(sets, admission, int(start.timestamp()))
        for size in settings.sizes:
            length = timedelta(seconds=duration_s(size))
            end = start_of(start, length) + length
            merge_sets(found.setdefault((end, length, size), {}), kept, settings.max_series)
    for (end, length, size), sets in sorted(found.items(), key=lambda each: each[0]):
        for labels, contents in sorted(sets.items()):
            for summary in contents.metrics.values():
                summary.bins = dict(sorted(summary.bins.items()))
            yield Window(
                window=size,
                start=end - length,
                end=end,
                dimensions=dict(zip(settings.dimensions, labels, strict=True)),
                partition=None,
                part=None,
                closed=True,
                **contents.fields(whole=True),
            )


def table(minutes: int = 30) -> Table:
    """Return one row per number of partitions and way."""
    settings = Settings()
    title = f"End of a replay: {METRICS} metrics, windows of {', '.join(settings.windows.sizes)}, CPU time"
    columns = ("label sets", "partitions", "by", "parts", "windows", "parts/s", "windows/s", "ratio")
    result = Table(*columns, title=title, title_justify="left")
    ways: dict[str, Callable[[Iterable[Record], Settings], Iterator[bytes]]] = {
        "models": by_models,
        "records": by_records,
    }
    for sets, partitions in ((20, 1), (10, 8)):
        own = list(records(minutes, sets, partitions))
        seconds, made = dict.fromkeys(ways, float("inf")), dict.fromkeys(ways, b"")
        count = 0
        for _ in range(_ROUNDS):
            for name, way in ways.items():
                began = process_time()
                windows = list(way(own, settings))
                seconds[name] = min(seconds[name], process_time() - began)
                made[name], count = b"\n".join(windows), len(windows)
        if made["models"] != made["records"]:
            raise RuntimeError("both ways must give the same bytes")
        for name, own_s in seconds.items():
            rates = f"{len(own) / own_s:,.0f}", f"{count / own_s:,.0f}", f"{seconds['models'] / own_s:.1f}"
            result.add_row(str(sets), str(partitions), name, f"{len(own):,}", f"{count:,}", *rates)
    return result
