"""The instruments of key."""

from __future__ import annotations

from ragweir.streams.runtime.serving.instruments import counter, gauge

INSTRUMENTS = (
    counter("ragweir_assemble_slices_total", "Records written to spans, one per source record and trace"),
    counter(
        "ragweir_assemble_items_total",
        "Spans (`traces`) and log records (`logs`) copied to spans",
        signal=("traces", "logs"),
    ),
    counter(
        "ragweir_assemble_unjoinable_spans_total", "Spans not copied because their trace id or span id is not valid"
    ),
    counter(
        "ragweir_assemble_feedback_total",
        "Annotations of people in traces and logs, by whether they are `given` to the topic feedback or `rejected`",
        result=("given", "rejected"),
    ),
    counter("ragweir_assemble_marks_total", "Clock marks written, each to all partitions of spans"),
    gauge(
        "ragweir_assemble_mark_timestamp_seconds",
        "Time up to which a partition of a source was read, from the newest clock mark; assembling waits for the "
        "earliest",
        labels=("topic", "partition"),
    ),
)
