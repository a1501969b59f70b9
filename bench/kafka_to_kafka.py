"""Cost of an event from Kafka to Kafka, exactly once, by the size of a commit; a bare loop for comparison."""

from __future__ import annotations

import argparse

from rich.console import Console
from rich.progress import track
from rich.table import Table

from bench.interactions import interactions
from bench.kafka_loops import BARE, PARTITIONS, RAGWEIR, REPLAY, Task, measure, publish, topics
from ragweir.streams.playground.local.kafka import local_kafka

EVENTS = 60_000
_SOURCE = "bench.input"
_BATCHES = (100, 500, 1_000, 5_000)
_ROWS = (
    *((BARE, "null", batch) for batch in (100, 1_000)),
    *((RAGWEIR, work, batch) for work in ("null", "evaluate") for batch in _BATCHES),
    (REPLAY, "evaluate", 1_000),
)


def table(events: int = EVENTS) -> Table:
    """Return one row per loop, work and batch size, one worker each."""
    title = f"Kafka to Kafka, {events:,} events of 4.5 KB, {PARTITIONS} partitions, the broker on the same cores"
    columns = ("loop", "work", "events per commit", "events/s", "CPU µs per event in the worker")
    result = Table(*columns, title=title, title_justify="left")
    with local_kafka() as broker, topics(broker.bootstrap, _SOURCE):
        publish(broker.bootstrap, _SOURCE, interactions(events))
        for number, (loop, work, batch) in enumerate(track(_ROWS, "Kafka to Kafka", transient=True)):
            task = Task(broker.bootstrap, f"bench{number}.", _SOURCE, work, events, batch)
            with topics(broker.bootstrap, *task.topics):
                measured = measure(loop, task)
            if measured.error:
                raise RuntimeError(f"{loop.name}, {work}: {measured.error}")
            result.add_row(loop.name, work, f"{batch:,}", f"{measured.rate:,.0f}", f"{measured.cpu_us:.1f}")
    return result


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=EVENTS, help="events per row")
    Console(width=120).print(table(parser.parse_args().events))
