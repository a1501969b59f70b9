"""The instruments of join."""

from __future__ import annotations

from operator import attrgetter

from ragweir.streams.runtime.serving.instruments import counter, gauge

INSTRUMENTS = (
    counter(
        "ragweir_assemble_traces_total",
        "Traces closed, by cause: `complete`; `patience`, no spans came for a while; `deadline`; `limit`",
        cause=("complete", "patience", "deadline", "limit"),
    ),
    counter(
        "ragweir_assemble_interactions_total",
        "Interactions written: `full` with question, answer and the texts of all contexts, or `partial`",
        content=("full", "partial"),
    ),
    counter("ragweir_assemble_gaps_total", "Partial interactions, by what they lack", gap=attrgetter("gaps")),
    counter(
        "ragweir_assemble_empty_total",
        "Closed traces without a new interaction: `no_genai`, no span of a model, tool or retrieval; `no_root`, a dead "
        "letter; `logs_only`; `late`, all spans belong to interactions that were written before",
        reason=("no_genai", "no_root", "logs_only", "late"),
    ),
    counter(
        "ragweir_assemble_late_spans_total", "Spans that came after their interaction was written, and change nothing"
    ),
    counter(
        "ragweir_assemble_forgotten_total",
        "Written traces that were forgotten early because of assemble.max_remembered or a deleted part of the ledger",
    ),
    gauge("ragweir_assemble_open_traces", "Traces that are not closed", labels=("partition",)),
    gauge("ragweir_assemble_held_bytes", "Size of the spans of open traces", labels=("partition",)),
    gauge(
        "ragweir_assemble_behind_bytes",
        "Size of the records from the first one of the oldest open trace on, which a restart reads again",
        labels=("partition",),
    ),
    gauge(
        "ragweir_assemble_remembered_traces",
        "Written traces that are remembered, so that late spans do not begin them again",
        labels=("partition",),
    ),
    gauge(
        "ragweir_assemble_clock_timestamp_seconds",
        "Clock of `join`: the time up to which all source partitions have been read",
        labels=("partition",),
    ),
    gauge(
        "ragweir_assemble_clock_delay_seconds",
        "Seconds by which the clock of `join` is behind the brokers' time; negative if marks of `key` are ahead of it",
        labels=("partition",),
    ),
)
