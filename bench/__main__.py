"""All benchmarks, one table after the other: `make bench`."""

from __future__ import annotations

import argparse
import os
import platform

import confluent_kafka
from rich.console import Console

from bench import aggregation, growth, judging, kafka_to_kafka, routing, scoring

console = Console(width=120)


def main() -> None:
    """Print where this runs, then the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=60_000, help="events per row of the Kafka table")
    events = parser.parse_args().events
    console.print(
        f"{os.cpu_count()} cores, Python {platform.python_version()}, librdkafka {confluent_kafka.libversion()[0]}. "
        "Shared machines are noisy: compare within one run."
    )
    for table in (
        scoring.table,
        scoring.costliest,
        routing.table,
        growth.table,
        aggregation.cost_table,
        aggregation.restore_table,
        judging.throughput_table,
        judging.outage_table,
    ):
        console.print(table())
    console.print(kafka_to_kafka.table(events))


if __name__ == "__main__":
    main()
