"""Windows without Kafka: what an event costs the aggregate agent beyond decoding, and what a restore costs."""

from __future__ import annotations

import gc
import random
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
from rich.table import Table

from ragweir.metrics.aggregation.aggregator import Aggregator, WindowEntry
from ragweir.metrics.aggregation.window_aggregate import merged
from ragweir.metrics.catalogue import Catalogue, everything
from ragweir.schemas.codec.json import encode, parse
from ragweir.schemas.evaluation import Evaluation
from ragweir.schemas.window import Progress
from ragweir.streams.agent import Assignment, StoredChangelog
from ragweir.streams.aggregate.agent import AggregateAgent, AggregateConfig
from ragweir.streams.records import Record

METRICS, LABEL_SETS = 40, 60
_START = datetime(2026, 11, 21, 12, tzinfo=UTC)
_ROUNDS = 9


def _value(chance: random.Random, unit: str) -> float:
    """A plausible value of a metric."""
    if unit in ("ratio", "score"):
        return round(chance.betavariate(5, 2), 6)
    if unit == "boolean":
        return float(chance.random() < 0.9)
    return float(chance.randrange(40)) if unit == "count" else round(chance.lognormvariate(6, 1), 3)


def evaluations(count: int, seed: int = 7) -> Iterator[bytes]:
    """Encoded evaluations of one minute, each with all metrics, spread over the label sets."""
    chance = random.Random(seed)
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
                "scores": {metric.name: _value(chance, metric.unit) for metric in metrics},
                "catalogue_version": "1",
            }
        )


def _records(values: Sequence[bytes], first: int) -> list[Record]:
    stamp = int(_START.timestamp() * 1000) + 60_000
    return [Record("evaluations", 0, first + number, None, value, stamp) for number, value in enumerate(values)]


def _cpu_s(work: Callable[[], Any]) -> float:
    """CPU time of the best of some rounds: the least disturbed one, which says least of the neighbours."""
    best = float("inf")
    for _ in range(_ROUNDS):
        gc.collect()
        began = time.process_time()
        kept = work()
        best = min(best, time.process_time() - began)
        del kept
    return best


def costs(batch: int) -> dict[str, float]:
    """CPU microseconds per event of each stage, for commits of this many events of one partition and window."""
    totals = Aggregator(Catalogue(everything()))
    agent = AggregateAgent(AggregateConfig(totals))
    agent.on_assigned(Assignment(("rag.evaluations", 0), None, 0))
    values = list(evaluations(batch))
    records = _records(values, 0)

    def decode() -> list[Evaluation]:
        return [Evaluation.model_validate(parse(value)) for value in values]

    def handle() -> object:
        outcome = agent.handle(records)
        agent.on_commit()
        return outcome

    read: list[WindowEntry[int]] = [totals.entry(each, number % LABEL_SETS) for number, each in enumerate(decode())]
    new = list(totals.aggregate(read).values())
    held = [merged((each, each)) for each in new]
    stages = {
        "decode": _cpu_s(decode),
        "tally": _cpu_s(lambda: totals.aggregate(read)),
        "merge": _cpu_s(lambda: [merged(pair) for pair in zip(held, new, strict=True)]),
        "encode": _cpu_s(lambda: [orjson.dumps(each.fields(), option=orjson.OPT_NON_STR_KEYS) for each in held]),
        "all": _cpu_s(handle),
    }
    return {stage: seconds / batch * 1e6 for stage, seconds in stages.items()}


def changelog(windows: int, events: int = 40) -> Iterator[Record]:
    """A partition of the windows topic, compacted: so many windows of all label sets, then the progress."""
    totals = Aggregator(Catalogue(everything()))
    agent = AggregateAgent(AggregateConfig(totals))
    agent.on_assigned(Assignment(("rag.evaluations", 0), None, 0))
    emissions = agent.handle(_records(list(evaluations(LABEL_SETS * events)), 0)).emissions
    offset = 0
    for minute in range(windows):
        start = (_START + timedelta(minutes=minute)).strftime("%Y-%m-%dT%H:%M:%SZ").encode()
        for emission in emissions[:-1]:
            key, value = emission.key or b"", emission.value or b""
            old = key[2:22]
            yield Record("windows", 0, offset, key.replace(old, start), value.replace(old, start, 1), None)
            offset += 1
    newest = _START + timedelta(minutes=windows)
    progress = Progress(partition=0, next_offset=7, watermark=newest, idle=False)
    yield Record("windows", 0, offset, b'["progress",0]', encode(progress), None)


def restored(windows: int) -> tuple[float, float, float, int]:
    """Restoring from so many windows: CPU seconds, peak and kept MiB, mean bytes of a record."""
    config = AggregateConfig(Aggregator(Catalogue(everything())))
    records = list(changelog(windows))
    assignment = Assignment(("rag.evaluations", 0), 7, 7, StoredChangelog(records))
    began = time.process_time()
    AggregateAgent(config).on_assigned(assignment)
    took = time.process_time() - began
    tracemalloc.start()
    agent = AggregateAgent(config)
    agent.on_assigned(assignment)
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return took, peak / 2**20, kept / 2**20, sum(len(record.value or b"") for record in records) // len(records)


def cost_table() -> Table:
    """One row per number of events in a commit."""
    title = f"Windows: CPU µs per event, {METRICS} metrics, {LABEL_SETS} label sets, one partition"
    columns = ("events per commit", "decode", "tally", "merge", "encode", "beyond decoding, all")
    table = Table(*columns, title=title, title_justify="left")
    for batch in (1_000, 5_000):
        cost = costs(batch)
        stages = [f"{cost[stage]:.1f}" for stage in ("decode", "tally", "merge", "encode")]
        table.add_row(f"{batch:,}", *stages, f"{cost['all'] - cost['decode']:.1f}")
    return table


def restore_table() -> Table:
    """One row per length of the windows topic."""
    title = "Restoring one partition that holds two hours of windows, without the time to read it from Kafka"
    columns = ("windows in the topic", "records", "bytes each", "CPU s", "peak MiB", "kept MiB")
    table = Table(*columns, title=title, title_justify="left")
    for windows in (120, 1_440):
        took, peak, kept, size = restored(windows)
        counts = (f"{windows:,}", f"{windows * LABEL_SETS:,}", f"{size:,}")
        table.add_row(*counts, f"{took:.1f}", f"{peak:.0f}", f"{kept:.0f}")
    return table
