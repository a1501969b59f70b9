"""Telemetry: every instrument declared once, and updated only after the commit that it describes."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from metrics.catalogue import CATALOGUE_VERSION
from streams.agents.agent import Count


@dataclass(frozen=True, slots=True)
class Instrument:
    """One line of the table."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


_CALL_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)

TABLE = (
    # What flowed. Counted after the commit: a crash may undercount, never overcount.
    Instrument("ragweir_events_in_total", "counter", "Records read and settled, whatever became of them"),
    Instrument("ragweir_evaluations_total", "counter", "Evaluations written", ("stage",)),
    Instrument("ragweir_duplicates_total", "counter", "Events not evaluated, as their id occurred shortly before"),
    Instrument("ragweir_filtered_total", "counter", "Events that a replay is not about"),
    Instrument("ragweir_dead_letters_total", "counter", "Records that could not be evaluated", ("error_class",)),
    Instrument("ragweir_repaired_total", "counter", "Evaluated events that were repaired as they were read", ("flag",)),
    Instrument("ragweir_metric_errors_total", "counter", "Metrics that raised and are null for it", ("metric",)),
    Instrument(
        "ragweir_event_time_distance_seconds",
        "gauge",
        "Seconds from an event's time to its record's timestamp, over the last batch; below 0 where it is after it",
        ("statistic",),
    ),
    Instrument("ragweir_events_missed_total", "counter", "Records deleted unread", ("topic", "partition")),
    # What is judged, and what it takes.
    Instrument("ragweir_routed_total", "counter", "Events by what was decided about a suite", ("suite", "status")),
    Instrument("ragweir_judge_requests_total", "counter", "Requests to judge by what became of them", ("outcome",)),
    Instrument("ragweir_judge_calls_total", "counter", "Questions to the judge by how they ended", ("outcome",)),
    Instrument("ragweir_judge_repairs_total", "counter", "Answers that had to be asked for again"),
    Instrument("ragweir_judge_tokens_total", "counter", "Tokens by direction", ("direction",)),
    Instrument("ragweir_judge_cost_microdollars_total", "counter", "What calls cost, in millionths of a dollar"),
    Instrument("ragweir_judge_call_seconds", "histogram", "Time that one call took", (), _CALL_SECONDS),
    Instrument("ragweir_judge_in_flight", "gauge", "Events being judged"),
    Instrument("ragweir_judge_waiting", "gauge", "Requests read and not yet begun"),
    Instrument("ragweir_judge_breaker", "gauge", "0 calls go out, 1 the judge is left alone, 0.5 one call tries it"),
    Instrument("ragweir_judge_breaker_opened_total", "counter", "How often the judge was left alone for a while"),
    Instrument("ragweir_judge_budget_left_dollars", "gauge", "Of today's budget, in the partitions of this slot"),
    Instrument(
        "ragweir_judge_affordable_floor_ratio", "gauge", "Share of the floor's events that the budget has room for"
    ),
    # What windows are made of.
    Instrument("ragweir_late_events_total", "counter", "Events whose window had been taken for closed"),
    Instrument("ragweir_window_overflow_total", "counter", "Events counted under __overflow__"),
    Instrument("ragweir_slo_events_total", "counter", "Events that an SLO is about", ("slo", "outcome")),
    Instrument("ragweir_slo_objective", "gauge", "The share of events that are to be good", ("slo",)),
    Instrument("ragweir_watermark_timestamp_seconds", "gauge", "Event time reached", ("partition",)),
    Instrument("ragweir_windows_held", "gauge", "Windows in memory", ("partition",)),
    # What the exporter reads and shows.
    Instrument("ragweir_window_records_total", "counter", "Records of windows by what became of them", ("outcome",)),
    Instrument(
        "ragweir_windows_shown_total", "counter", "Closed windows that took an earlier one's place", ("window",)
    ),
    Instrument("ragweir_label_sets_folded_total", "counter", "Label sets shown as __overflow__", ("window",)),
    Instrument("ragweir_open_window_bytes", "gauge", "Records held until their windows close"),
    # How the transactions go.
    Instrument("ragweir_transactions_total", "counter", "Transactions by outcome", ("outcome",)),
    Instrument("ragweir_batch_events", "histogram", "Records in one transaction", (), (1, 10, 100, 500, 1000, 5000)),
    Instrument("ragweir_handle_seconds", "histogram", "Time to compute one batch", (), _SECONDS),
    Instrument("ragweir_commit_seconds", "histogram", "Time to write and commit one batch", (), _SECONDS),
    # How far behind, and whether it can work.
    Instrument("ragweir_lag", "gauge", "Records not yet settled", ("topic", "partition")),
    Instrument("ragweir_assigned_partitions", "gauge", "Partitions that this slot reads"),
    Instrument("ragweir_broker_up", "gauge", "1 while the broker can be reached"),
    Instrument("ragweir_last_commit_timestamp_seconds", "gauge", "When the last batch was committed"),
    Instrument("ragweir_build_info", "gauge", "Always 1", ("version", "catalogue_version", "service", "slot")),
)


class Telemetry:
    """The instruments of one service, in a registry of their own."""

    def __init__(self, service: str, slot: int) -> None:
        self.registry = CollectorRegistry()
        self._counters = {
            line.name: Counter(line.name, line.help, line.labels, registry=self.registry)
            for line in TABLE
            if line.kind == "counter"
        }
        self._gauges = {
            line.name: Gauge(line.name, line.help, line.labels, registry=self.registry)
            for line in TABLE
            if line.kind == "gauge"
        }
        self._histograms = {
            line.name: Histogram(line.name, line.help, line.labels, buckets=line.buckets, registry=self.registry)
            for line in TABLE
            if line.kind == "histogram"
        }
        self.set("ragweir_build_info", 1, version("ragweir"), CATALOGUE_VERSION, service, str(slot))

    def add(self, counts: Mapping[Count, int]) -> None:
        """Add what a committed batch counted."""
        for (name, *labels), number in counts.items():
            self.count(name, number, *labels)

    def count(self, name: str, number: int, *labels: str) -> None:
        """Add to one counter."""
        counter = self._counters[name]
        (counter.labels(*labels) if labels else counter).inc(number)

    def set(self, name: str, value: float, *labels: str) -> None:
        """Set one gauge."""
        gauge = self._gauges[name]
        (gauge.labels(*labels) if labels else gauge).set(value)

    def show(self, levels: Mapping[Count, float]) -> None:
        """Set the gauges that a committed batch speaks of."""
        for (name, *labels), value in levels.items():
            self.set(name, value, *labels)

    def observe(self, name: str, value: float) -> None:
        """Observe one value of a histogram."""
        self._histograms[name].observe(value)

    def forget(self, name: str, *labels: str) -> None:
        """Take one series out of the exposition, such as the lag of a partition that went elsewhere."""
        with suppress(KeyError):
            self._gauges[name].remove(*labels)
