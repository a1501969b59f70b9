"""Print the tables of the benchmarks: all that take minutes together, or those that are named, with their options.

`make bench BENCH="routing start kills=5"` prints two of them; `make bench BENCH=--help` names all.
"""

from __future__ import annotations

from collections.abc import Mapping

from bench import (
    aggregation,
    anchors,
    assemble,
    backfill,
    blame,
    compare,
    console,
    coverage,
    documents,
    feedback_cost,
    growth,
    judging,
    kafka_to_kafka,
    past_windows,
    people,
    people_cost,
    publish,
    registry,
    restart,
    routing,
    scoring,
    shift,
    start,
)
from tools import tables
from tools.tables import Make

USUAL: Mapping[str, Make] = {
    "scoring": scoring.table,
    "formulas": scoring.costliest,
    "sizes": lambda: growth.sizes().table(),
    "attacks": growth.attacks,
    "windows": aggregation.table,
    "exposition": aggregation.exposition_table,
    "past-windows": past_windows.table,
    "traces": assemble.cpu,
    "traces-memory": assemble.memory,
    "registry-reading": registry.reading,
    "registry-writing": registry.writing,
    "compare": compare.table,
    "judging": judging.table,
    "windows-kafka": aggregation.kafka_table,
    "traces-delay": assemble.delay,
    "traces-restart": restart.table,
    "start": start.table,
    "publish": publish.callers,
    "publish-overload": publish.overload,
    "publish-behind": publish.behind,
    "loops": kafka_to_kafka.table,
    "backfill": backfill.table,
}
"""The tables of `make bench`, in their order."""
TABLES: Mapping[str, Make] = {
    **USUAL,
    "routing": routing.table,
    "routing-applications": routing.three_applications,
    "coverage": coverage.tables,
    "growth": growth.tables,
    "people-coverage": people.coverage,
    "people-width": people.width,
    "people-planned": people.planned,
    "people-cost": people_cost.labels,
    "feedback-cost": feedback_cost.table,
    "dataset-cost": people_cost.dataset,
    "console": console.tables,
    "blame-null": blame.null_runs,
    "blame-planted": blame.planted,
    "blame-plants": blame.plants,
    "shift": shift.tables,
    "documents-cost": documents.cost,
    "documents-day": documents.day,
    "anchors": anchors.false_alarms,
    "anchors-power": anchors.power,
}
"""All tables. Those that take long, or need people's labels, are printed only if they are named."""


if __name__ == "__main__":
    tables.main(__doc__ or "", TABLES, USUAL)
