"""Cost of an event from Kafka to Kafka, exactly once, by the time between two commits; a bare loop for comparison."""

from __future__ import annotations

from dataclasses import replace

from rich.progress import track
from rich.table import Table

from bench.interactions import interactions
from bench.kafka_loops import (
    BARE,
    BATCH,
    INTERVAL_MS,
    PARTITIONS,
    RAGWEIR,
    REPLAY,
    LoopTask,
    measure,
    pinned_kafka,
    publish,
    topics,
)

EVENTS = 60_000
_SOURCES = "bench.input", "bench.input.half", "bench.input.other-half"
_INTERVALS_MS = (0, 100, INTERVAL_MS)
_ROWS = (
    *((loop, work, ms, 1) for work in ("null", "evaluate") for loop in (BARE, RAGWEIR) for ms in _INTERVALS_MS),
    *((RAGWEIR, work, INTERVAL_MS, 2) for work in ("null", "evaluate")),
    (REPLAY, "evaluate", INTERVAL_MS, 1),
)


def table(events: int = EVENTS) -> Table:
    """Return one row per loop, work, commit interval and number of workers on the one core."""
    result = Table(
        *("loop", "work", "workers", "ms between commits", "events/s", "wall µs per event", "CPU µs per event"),
        title=f"Kafka to Kafka, {events:,} events of 4.5 KB, {PARTITIONS} partitions, batches of {BATCH:,}, workers on "
        f"one core and the broker on another; 0 ms: each batch commits",
    )
    whole, *halves = _SOURCES
    with pinned_kafka() as (broker, core), topics(broker.bootstrap, *_SOURCES):
        publish(broker.bootstrap, whole, interactions(events))
        for half in halves:
            publish(broker.bootstrap, half, interactions(events // 2))
        for number, (loop, work, interval_ms, workers) in enumerate(track(_ROWS, "Kafka to Kafka", transient=True)):
            task = LoopTask(broker.bootstrap, f"bench{number}.", whole, work, events, interval_ms, core)
            tasks = [
                replace(task, prefix=f"{task.prefix}{half}.", source=half, events=events // 2)
                for half in halves[: workers if workers > 1 else 0]
            ] or [task]
            with topics(broker.bootstrap, *(name for each in tasks for name in each.topics)):
                measured = measure(loop, *tasks)
            wall_us = measured.seconds / measured.events * 1e6
            figures = f"{measured.rate:,.0f}", f"{wall_us:.1f}", f"{measured.cpu_us:.1f}"
            result.add_row(loop.name, work, f"{workers}", f"{interval_ms:,}", *figures)
    return result
