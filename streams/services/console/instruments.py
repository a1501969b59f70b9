"""The instruments of the console."""

from __future__ import annotations

from ragweir.streams.runtime.serving.instruments import counter, gauge

TOPICS = ("evaluations", "labels", "labels.draws", "dead-letter")
"""The topics that the console follows, without the prefix."""

INSTRUMENTS = (
    counter(
        "ragweir_console_records_total",
        "Records of the console's topics; `unreadable`: not of the topic's kind; `rejected`: over a limit of the store",
        topic=TOPICS,
        result=("taken", "unreadable", "rejected"),
    ),
    counter(
        "ragweir_console_evaluations_replaced_total",
        "Evaluations of an event of which the store has another one; one of the two counts",
    ),
    counter(
        "ragweir_console_segments_dropped_total",
        "Parts of 4,096 evaluations that were removed from the store because of its age or its size",
    ),
    gauge("ragweir_console_store_bytes", "Size of the console's store on disk"),
    gauge("ragweir_console_read_ratio", "Part of the evaluations that the console has read, from 0 to 1"),
)
