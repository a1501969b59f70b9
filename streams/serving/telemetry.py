"""Telemetry: every instrument declared once, and updated only after the commit that it describes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from itertools import product
from operator import attrgetter
from typing import Literal, get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from ragweir.errors import ErrorClass
from ragweir.metrics.aggregation.merger import Fate
from ragweir.metrics.catalogue import CATALOGUE_VERSION
from ragweir.schemas.codec.intake import REPAIRS
from ragweir.streams.records import Count, Measurements


@dataclass(frozen=True, slots=True)
class Known:
    """The facts about a service's instruments that follow from its settings, above all label values."""

    topics: Collection[str] = ()
    """Full names of the topics that it reads."""
    stages: Collection[str] = ()
    """Stages of the evaluations that it writes."""
    metrics: Collection[str] = ()
    """Metrics that it computes."""
    suites: Collection[str] = ()
    """Suites that it selects events for."""
    slos: Collection[str] = ()
    """Names of the SLOs that it counts."""
    windows: Collection[str] = ()
    """Sizes of the windows that it shows."""
    levels: Mapping[Count, float] = field(default_factory=dict)
    """Gauges that follow from the settings alone."""


SUPERVISOR = "supervisor"
"""The name under which the supervisor shows its instruments."""

Values = Callable[[Known], Iterable[str]] | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Instrument:
    """One line of the table.

    Args:
        name: the name of the series.
        kind: its type.
        help: its meaning, for people.
        labels: the names of its labels.
        buckets: upper bounds of a histogram's buckets.
        by: the services that have it; all of them where none is named.
        supervisor: true where the supervisor has it; the supervisor is no service.
        values: for each label of a counter the values that it can have. A counter exists at 0 for each combination
            from the start of the service: Prometheus sees no increase in a series that appears with its first events.
            Without values a series appears when it is counted first.
    """

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    by: tuple[str, ...] = ()
    values: tuple[Values, ...] = ()
    supervisor: bool = False

    def shown_by(self, service: str) -> bool:
        """Return whether the process that runs a service has the instrument."""
        return self.supervisor if service == SUPERVISOR else not self.by or service in self.by

    def born(self, known: Known) -> Iterable[tuple[str, ...]]:
        """The label values that it exists for from the start.

        >>> list(Instrument("x_total", "counter", "", ("slo", "outcome"), values=(attrgetter("slos"), ("good", "bad")))
        ...      .born(Known(slos=["quick"])))
        [('quick', 'good'), ('quick', 'bad')]
        """
        return product(*(each(known) if callable(each) else each for each in self.values)) if self.values else ()


_CALL_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_BATCHES = (1, 10, 100, 500, 1000, 5000)
_EVALUATE, _AGGREGATE, _JUDGE, _EXPORT = ("evaluate",), ("aggregate",), ("judge",), ("export",)
_AGENTS = (*_EVALUATE, *_AGGREGATE, *_JUDGE)

_REQUESTS = ("judged", "failed", "expired", "retried", "moved", "deferred")
_CALLS = (
    *("ok", "cached", "broken_off", "cut", "rate_limited", "refused", "rejected", "server_error", "timeout"),
    *("unreachable", "unusable"),
)

TABLE = (
    # What flowed. Counted after the commit: a crash may undercount, never overcount.
    Instrument("ragweir_events_in_total", "counter", "Records read and settled, whatever became of them", by=_AGENTS),
    Instrument(
        "ragweir_evaluations_total",
        "counter",
        "Evaluations written",
        ("stage",),
        by=(*_EVALUATE, *_JUDGE),
        values=(attrgetter("stages"),),
    ),
    Instrument(
        "ragweir_duplicates_total",
        "counter",
        "Events not evaluated, as their id occurred shortly before",
        by=_EVALUATE,
    ),
    Instrument("ragweir_filtered_total", "counter", "Events that a replay is not about", by=_EVALUATE),
    Instrument(
        "ragweir_dead_letters_total",
        "counter",
        "Records that could not be evaluated",
        ("error_class",),
        by=_AGENTS,
        values=(get_args(ErrorClass),),
    ),
    Instrument(
        "ragweir_repaired_total",
        "counter",
        "Evaluated events that were repaired as they were read",
        ("flag",),
        by=_EVALUATE,
        values=(tuple(sorted(REPAIRS)),),
    ),
    Instrument(
        "ragweir_metric_errors_total",
        "counter",
        "Metrics that raised and are null for it",
        ("metric",),
        by=_EVALUATE,
        values=(attrgetter("metrics"),),
    ),
    Instrument(
        "ragweir_event_time_distance_seconds",
        "gauge",
        "Seconds from an event's time to its record's timestamp, over the last batch; below 0 where it is after it",
        ("statistic",),
        by=_EVALUATE,
    ),
    Instrument("ragweir_events_missed_total", "counter", "Records deleted unread", ("topic", "partition"), by=_AGENTS),
    # What is judged, and what it takes.
    Instrument(
        "ragweir_routed_total",
        "counter",
        "Events by what was decided about a suite",
        ("suite", "status"),
        by=_EVALUATE,
        values=(attrgetter("suites"), ("selected", "not_selected", "failed")),
    ),
    Instrument(
        "ragweir_judge_requests_total",
        "counter",
        "Requests to judge by what became of them",
        ("outcome",),
        by=_JUDGE,
        values=(_REQUESTS,),
    ),
    Instrument(
        "ragweir_judge_calls_total",
        "counter",
        "Questions to the judge by how they ended",
        ("outcome",),
        by=_JUDGE,
        values=(_CALLS,),
    ),
    Instrument("ragweir_judge_repairs_total", "counter", "Answers that had to be asked for again", by=_JUDGE),
    Instrument(
        "ragweir_judge_tokens_total",
        "counter",
        "Tokens by direction",
        ("direction",),
        by=_JUDGE,
        values=(("input", "output"),),
    ),
    Instrument(
        "ragweir_judge_cost_microdollars_total", "counter", "What calls cost, in millionths of a dollar", by=_JUDGE
    ),
    Instrument("ragweir_judge_call_seconds", "histogram", "Time that one call took", buckets=_CALL_SECONDS, by=_JUDGE),
    Instrument("ragweir_judge_in_flight", "gauge", "Events being judged", by=_JUDGE),
    Instrument("ragweir_judge_waiting", "gauge", "Requests read and not yet begun", by=_JUDGE),
    Instrument(
        "ragweir_judge_breaker", "gauge", "0 calls go out, 1 the judge is left alone, 0.5 one call tries it", by=_JUDGE
    ),
    Instrument(
        "ragweir_judge_breaker_opened_total", "counter", "How often the judge was left alone for a while", by=_JUDGE
    ),
    Instrument(
        "ragweir_judge_budget_left_dollars", "gauge", "Of today's budget, in the partitions of this slot", by=_JUDGE
    ),
    Instrument(
        "ragweir_judge_spent_dollars",
        "gauge",
        "Dollars that calls have cost today (UTC), in the partitions of this slot, by application; empty for all "
        "applications without a budget of their own",
        ("application",),
        by=_JUDGE,
    ),
    Instrument(
        "ragweir_judge_affordable_floor_ratio",
        "gauge",
        "Share of the floor's events that the budget has room for",
        by=_JUDGE,
    ),
    # What windows are made of.
    Instrument("ragweir_late_events_total", "counter", "Events whose window had been taken for closed", by=_AGGREGATE),
    Instrument(
        "ragweir_window_overflow_total",
        "counter",
        "Events counted under __overflow__ for want of room for label sets",
        by=_AGGREGATE,
    ),
    Instrument(
        "ragweir_slo_events_total",
        "counter",
        "Events that an SLO is about",
        ("slo", "outcome"),
        by=_AGGREGATE,
        values=(attrgetter("slos"), ("good", "bad")),
    ),
    Instrument("ragweir_slo_objective", "gauge", "The share of events that are to be good", ("slo",), by=_AGGREGATE),
    Instrument("ragweir_watermark_timestamp_seconds", "gauge", "Event time reached", ("partition",), by=_AGGREGATE),
    Instrument("ragweir_windows_held", "gauge", "Windows in memory", ("partition",), by=_AGGREGATE),
    # What the exporter reads and shows.
    Instrument(
        "ragweir_window_records_total",
        "counter",
        "Records of windows by what became of them",
        ("outcome",),
        by=_EXPORT,
        values=(get_args(Fate),),
    ),
    Instrument(
        "ragweir_windows_shown_total",
        "counter",
        "Closed windows that took an earlier one's place",
        ("window",),
        by=_EXPORT,
        values=(attrgetter("windows"),),
    ),
    Instrument(
        "ragweir_windows_revised_total",
        "counter",
        "Closed windows shown again, with what came late",
        ("window",),
        by=_EXPORT,
        values=(attrgetter("windows"),),
    ),
    Instrument(
        "ragweir_label_sets_folded_total",
        "counter",
        "Label sets shown as __overflow__",
        ("window",),
        by=_EXPORT,
        values=(attrgetter("windows"),),
    ),
    Instrument(
        "ragweir_open_window_bytes",
        "gauge",
        "Records of windows that are open, or shown and may be revised",
        by=_EXPORT,
    ),
    # How the transactions go.
    Instrument(
        "ragweir_transactions_total",
        "counter",
        "Transactions by outcome",
        ("outcome",),
        by=_AGENTS,
        values=(("committed", "aborted"),),
    ),
    Instrument("ragweir_batch_events", "histogram", "Records in one transaction", buckets=_BATCHES, by=_AGENTS),
    Instrument("ragweir_handle_seconds", "histogram", "Time to compute one batch", buckets=_SECONDS, by=_AGENTS),
    Instrument(
        "ragweir_commit_seconds", "histogram", "Time to write and commit one batch", buckets=_SECONDS, by=_AGENTS
    ),
    Instrument(
        "ragweir_topics_recreated_total",
        "counter",
        "Input topics that were found deleted and made again; they were read from their starts",
        ("topic",),
        by=_AGENTS,
        values=(attrgetter("topics"),),
    ),
    # How far behind, and whether it can work.
    Instrument("ragweir_lag", "gauge", "Records not yet settled", ("topic", "partition")),
    Instrument("ragweir_assigned_partitions", "gauge", "Partitions that this slot reads", by=_AGENTS),
    Instrument("ragweir_broker_up", "gauge", "1 while the broker can be reached"),
    Instrument("ragweir_last_commit_timestamp_seconds", "gauge", "When the last batch was committed", by=_AGENTS),
    Instrument(
        "ragweir_service_up",
        "gauge",
        "1 while the worker's process runs, 0 while it does not; shown by the supervisor",
        ("service", "slot"),
        by=(SUPERVISOR,),
        supervisor=True,
    ),
    Instrument(
        "ragweir_build_info",
        "gauge",
        "Always 1",
        ("version", "catalogue_version", "service", "slot"),
        supervisor=True,
    ),
)


class Telemetry:
    """The instruments of one service, in a registry of their own.

    Args:
        service: its name.
        slot: the number of this process among those of the service.
        known: what its instruments show from the start.
    """

    def __init__(self, service: str, slot: int, known: Known | None = None) -> None:
        self.registry = CollectorRegistry()
        known = known or Known()
        own = [line for line in TABLE if line.shown_by(service)]
        self._counters = {
            line.name: Counter(line.name, line.help, line.labels, registry=self.registry)
            for line in own
            if line.kind == "counter"
        }
        self._gauges = {
            line.name: Gauge(line.name, line.help, line.labels, registry=self.registry)
            for line in own
            if line.kind == "gauge"
        }
        self._histograms = {
            line.name: Histogram(line.name, line.help, line.labels, buckets=line.buckets, registry=self.registry)
            for line in own
            if line.kind == "histogram"
        }
        for line in own:
            for labels in line.born(known):
                self.count(line.name, 0, *labels)
        self.show(known.levels)
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

    def observe(self, name: str, value: float, *labels: str) -> None:
        """Observe one value of a histogram."""
        histogram = self._histograms[name]
        (histogram.labels(*labels) if labels else histogram).observe(value)

    def measure(self, measurements: Measurements) -> None:
        """Add, set, remove and observe what was measured outside of transactions."""
        self.add(measurements.counts)
        for (name, *labels), value in measurements.levels.items():
            if value is None:
                self.forget(name, *labels)
            else:
                self.set(name, value, *labels)
        for (name, *labels), value in measurements.observations:
            self.observe(name, value, *labels)

    def forget(self, name: str, *labels: str) -> None:
        """Take one series out of the exposition, such as the lag of a partition that went elsewhere."""
        with suppress(KeyError):
            self._gauges[name].remove(*labels)
