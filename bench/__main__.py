"""Print one table per benchmark: `make bench`."""

from __future__ import annotations

import argparse

from bench import (
    aggregation,
    assemble,
    backfill,
    growth,
    judging,
    kafka_to_kafka,
    past_windows,
    publish,
    scoring,
    start,
)
from tools import tables


def main() -> None:
    """Print the machine, then the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=kafka_to_kafka.EVENTS, help="events per row of the Kafka table")
    parser.add_argument("--markdown", action="store_true", help="print as in bench/RESULTS.md")
    given = parser.parse_args()
    events = given.events
    texts = (scoring.table, scoring.costliest, growth.table, growth.attacks)
    windows = (aggregation.table, aggregation.exposition_table, past_windows.table)
    without_kafka = (*texts, *windows, assemble.cpu, assemble.memory)
    with_kafka = (
        aggregation.kafka_table,
        assemble.delay,
        start.table,
        publish.callers,
        publish.overload,
        publish.behind,
        lambda: kafka_to_kafka.table(events),
        backfill.table,
    )
    made = (make() for make in (*without_kafka, judging.table, *with_kafka))
    print("Shared machines are noisy: compare within one run.")
    tables.show(made, as_markdown=given.markdown)


if __name__ == "__main__":
    main()
