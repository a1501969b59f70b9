"""The instruments of the planner."""

from __future__ import annotations

from ragweir.streams.runtime.serving.instruments import counter, gauge

INSTRUMENTS = (
    counter(
        "ragweir_routing_plans_total",
        "Attempts to plan routing rows, by outcome; after a failure evaluate goes on with the rows that there are",
        outcome=("planned", "failed"),
    ),
    counter("ragweir_routing_rows_total", "Routing rows that were appended to the topic `control`"),
    gauge("ragweir_routing_planned_timestamp_seconds", "Time of the last plan of routing rows"),
)
