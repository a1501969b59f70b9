"""Telemetry: the table of all instruments, and those of one service in a registry."""

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
from ragweir.metrics.catalogue import CATALOGUE_VERSION
from ragweir.schemas.codec.intake import REPAIRS
from ragweir.schemas.window import Fate
from ragweir.streams.runtime.records import Count, Measurements


@dataclass(frozen=True, slots=True)
class KnownLabels:
    """The label values of a service's instruments that follow from its settings."""

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
    judged_slos: Collection[str] = ()
    """Names of those that are on judged metrics."""
    windows: Collection[str] = ()
    """Sizes of the windows that it shows."""
    gaps: Collection[str] = ()
    """What a partial interaction that it assembles may lack."""
    catalogue_version: str = CATALOGUE_VERSION
    """Version of the metrics that it loads."""
    kernel: str = ""
    """The version of the kernel that counts the texts of events, or `python`; empty for a service that counts none."""
    levels: Mapping[Count, float] = field(default_factory=dict)
    """Gauges that follow from the settings alone."""


SUPERVISOR = "supervisor"
"""The name of the supervisor as a service."""

Values = Callable[[KnownLabels], Iterable[str]] | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Instrument:
    """One line of the table.

    Args:
        name: the name of the series.
        kind: its type.
        help: its HELP text.
        labels: the names of its labels.
        buckets: upper bounds of a histogram's buckets.
        by: the services that have it; all of them if empty.
        supervisor: true if the supervisor has it.
        values: the possible values of each label of a counter. The counter exists at 0 for each combination from the
            start: Prometheus sees no increase in a series that appears with its first events. Without values a series
            appears with its first count.
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
        """Return whether a service, or the supervisor, has the instrument."""
        return self.supervisor if service == SUPERVISOR else not self.by or service in self.by

    def initial_labels(self, known: KnownLabels) -> Iterable[tuple[str, ...]]:
        """Return the combinations of label values that it has from the start.

        >>> instrument = _counter("x_total", "", slo=attrgetter("slos"), outcome=("good", "bad"))
        >>> list(instrument.initial_labels(KnownLabels(slos=["quick"])))
        [('quick', 'good'), ('quick', 'bad')]
        """
        return product(*(each(known) if callable(each) else each for each in self.values)) if self.values else ()


def _counter(name: str, help: str, *by: str, **labels: Values) -> Instrument:
    return Instrument(name, "counter", help, tuple(labels), by=by, values=tuple(labels.values()))


def _gauge(name: str, help: str, *by: str, labels: tuple[str, ...] = ()) -> Instrument:
    return Instrument(name, "gauge", help, labels, by=by)


def _histogram(name: str, help: str, *by: str, buckets: tuple[float, ...]) -> Instrument:
    return Instrument(name, "histogram", help, buckets=buckets, by=by)


_CALL_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_BATCHES = (1, 10, 100, 500, 1000, 5000)
_EVALUATE, _AGGREGATE, _JUDGE, _EXPORT = "evaluate", "aggregate", "judge", "export"
_KEY, _JOIN, _PLANNER = "key", "join", "planner"
_AGENTS = (_EVALUATE, _AGGREGATE, _JUDGE, _KEY, _JOIN)

_CALLS = (
    *("ok", "cached", "broken_off", "cut", "rate_limited", "refused", "rejected", "server_error", "timeout"),
    *("unreachable", "unusable"),
)
_SIZES = attrgetter("windows")

TABLE = (
    # The flow of events. Counted after the commit: a crash may undercount, never overcount.
    _counter("ragweir_events_in_total", "Records read and settled, with or without an evaluation", *_AGENTS),
    _counter("ragweir_evaluations_total", "Evaluations written", _EVALUATE, _JUDGE, stage=attrgetter("stages")),
    _counter(
        "ragweir_kernel_panics_total",
        "Events at which the kernel failed, which is a defect of it; their texts were counted in Python instead",
        _EVALUATE,
    ),
    _counter(
        "ragweir_output_failures_total",
        "Evaluations and windows that could not be written in output.format, which is a defect; the JSON has them",
        *(_EVALUATE, _AGGREGATE, _JUDGE),
    ),
    _gauge("ragweir_routing_rows", "Routing rows that were read from control", _EVALUATE),
    _gauge(
        "ragweir_routing_known_until_timestamp_seconds",
        "Event time up to which all routing rows are known, in seconds since 1970",
        _EVALUATE,
    ),
    _counter("ragweir_routing_read_errors_total", "Readings of control that failed", _EVALUATE),
    _counter(
        "ragweir_routing_rows_ignored_total",
        "Records of control without effect: unreadable, or effective less than an hour after they were written",
        _EVALUATE,
        why=("unreadable", "late"),
    ),
    _counter(
        "ragweir_routing_ahead_total",
        "Events selected by rows that may not be all that hold at their time, which lies ahead of what was read",
        _EVALUATE,
    ),
    _counter("ragweir_duplicates_total", "Events not evaluated because their id occurred shortly before", _EVALUATE),
    _counter("ragweir_filtered_total", "Events excluded by filters of a replay or by `where` of the map", _EVALUATE),
    _counter(
        "ragweir_dead_letters_total",
        "Records written to dead-letter because they could not be evaluated",
        *_AGENTS,
        error_class=get_args(ErrorClass),
    ),
    _counter(
        "ragweir_repaired_total",
        "Evaluated events that were repaired while they were decoded",
        _EVALUATE,
        flag=tuple(sorted(REPAIRS)),
    ),
    _counter(
        "ragweir_metric_errors_total",
        "Evaluations in which a metric is null because it raised an error",
        _EVALUATE,
        metric=attrgetter("metrics"),
    ),
    _gauge(
        "ragweir_event_time_distance_seconds",
        "Seconds from the time of an event to the timestamp of its record in the last batch; negative for an event "
        "after its record",
        _EVALUATE,
        labels=("statistic",),
    ),
    Instrument(
        "ragweir_events_missed_total",
        "counter",
        "Records that retention deleted before they were read",
        ("topic", "partition"),
        by=_AGENTS,
    ),
    # Judging.
    _counter(
        "ragweir_routed_total",
        "Decisions to judge an event by a suite",
        _EVALUATE,
        suite=attrgetter("suites"),
        status=("selected", "not_selected", "failed"),
    ),
    _counter(
        "ragweir_judge_requests_total",
        "Requests to judge, by outcome",
        _JUDGE,
        outcome=("judged", "failed", "expired", "retried", "moved", "deferred"),
    ),
    _counter("ragweir_judge_calls_total", "Questions to the judge, by outcome", _JUDGE, outcome=_CALLS),
    _counter("ragweir_judge_repairs_total", "Questions asked again because of an unusable answer", _JUDGE),
    _counter("ragweir_judge_tokens_total", "Tokens of judge calls", _JUDGE, direction=("input", "output")),
    _counter("ragweir_judge_cost_microdollars_total", "Cost of judge calls, in millionths of a dollar", _JUDGE),
    _histogram("ragweir_judge_call_seconds", "Duration of one judge call", _JUDGE, buckets=_CALL_SECONDS),
    _gauge("ragweir_judge_in_flight", "Events that are being judged", _JUDGE),
    _gauge("ragweir_judge_waiting", "Requests to judge that were read and not started", _JUDGE),
    _gauge("ragweir_judge_breaker", "Circuit breaker of the judge: 0 closed, 0.5 half-open, 1 open", _JUDGE),
    _counter("ragweir_judge_breaker_opened_total", "Times that the circuit breaker of the judge opened", _JUDGE),
    _gauge(
        "ragweir_judge_budget_left_dollars",
        "Dollars left of today's budget (UTC) for the partitions of this slot",
        _JUDGE,
    ),
    _gauge(
        "ragweir_judge_spent_dollars",
        "Dollars that judge calls have cost today (UTC) in the partitions of this slot, by application; the empty "
        "application is all applications without a budget of their own",
        _JUDGE,
        labels=("application",),
    ),
    _gauge(
        "ragweir_judge_affordable_floor_ratio",
        "Share of the floor's events that the budget is sufficient for",
        _JUDGE,
    ),
    # Assembling: key.
    _counter("ragweir_assemble_slices_total", "Records written to spans, one per source record and trace", _KEY),
    _counter(
        "ragweir_assemble_items_total",
        "Spans (`traces`) and log records (`logs`) copied to spans",
        _KEY,
        signal=("traces", "logs"),
    ),
    _counter(
        "ragweir_assemble_unjoinable_spans_total",
        "Spans not copied because their trace id or span id is not valid",
        _KEY,
    ),
    _counter("ragweir_assemble_marks_total", "Clock marks written, each to all partitions of spans", _KEY),
    _gauge(
        "ragweir_assemble_mark_timestamp_seconds",
        "Time up to which a partition of a source was read, from the newest clock mark; assembling waits for the "
        "earliest",
        _KEY,
        labels=("topic", "partition"),
    ),
    # Windows.
    _counter(
        "ragweir_evaluations_summed_total",
        "Evaluations that were added to windows, from the packed row of their header or from their JSON",
        _AGGREGATE,
        form=("header", "json"),
    ),
    _counter("ragweir_late_events_total", "Events that arrived after their window was closed", _AGGREGATE),
    _counter(
        "ragweir_window_overflow_total",
        "Events counted under __overflow__ because their window had the maximum of label sets",
        _AGGREGATE,
    ),
    _counter(
        "ragweir_slo_events_total",
        "Events that an SLO applies to",
        _AGGREGATE,
        slo=attrgetter("slos"),
        outcome=("good", "bad"),
    ),
    _counter(
        "ragweir_slo_weight_millionths_total",
        "Events that an SLO on a judged metric applies to, each with the inverse of its probability of being selected "
        "for the judge as its weight, in millionths; `missing` events were selected and not judged",
        _AGGREGATE,
        slo=attrgetter("judged_slos"),
        outcome=("good", "bad", "missing", "unselected"),
    ),
    _counter(
        "ragweir_slo_squared_weight_millionths_total",
        "Squares of the weights of ragweir_slo_weight_millionths_total, in millionths",
        _AGGREGATE,
        slo=attrgetter("judged_slos"),
        outcome=("good", "bad", "missing", "unselected"),
    ),
    _gauge("ragweir_slo_objective", "Target share of good events of an SLO", _AGGREGATE, labels=("slo",)),
    _gauge(
        "ragweir_watermark_timestamp_seconds",
        "Watermark: the event time up to which windows are closed",
        _AGGREGATE,
        labels=("partition",),
    ),
    _gauge("ragweir_windows_held", "Open windows in memory", _AGGREGATE, labels=("partition",)),
    # The exporter.
    _counter("ragweir_window_records_total", "Records of windows read, by outcome", _EXPORT, outcome=get_args(Fate)),
    _counter("ragweir_windows_shown_total", "Closed windows that replaced an earlier one", _EXPORT, window=_SIZES),
    _counter("ragweir_windows_revised_total", "Closed windows shown again with late events", _EXPORT, window=_SIZES),
    _counter("ragweir_label_sets_folded_total", "Label sets shown as __overflow__", _EXPORT, window=_SIZES),
    _gauge(
        "ragweir_open_window_bytes",
        "Memory of the records of windows that are open, or shown and may be revised, in bytes",
        _EXPORT,
    ),
    # Assembly of traces.
    _counter(
        "ragweir_assemble_traces_total",
        "Traces closed, by cause: `complete`; `patience`, no spans came for a while; `deadline`; `limit`",
        _JOIN,
        cause=("complete", "patience", "deadline", "limit"),
    ),
    _counter(
        "ragweir_assemble_interactions_total",
        "Interactions written: `full` with question, answer and the texts of all contexts, or `partial`",
        _JOIN,
        content=("full", "partial"),
    ),
    _counter("ragweir_assemble_gaps_total", "Partial interactions, by what they lack", _JOIN, gap=attrgetter("gaps")),
    _counter(
        "ragweir_assemble_empty_total",
        "Closed traces without a new interaction: `no_genai`, no span of a model, tool or retrieval; `no_root`, a dead "
        "letter; `logs_only`; `late`, all spans belong to interactions that were written before",
        _JOIN,
        reason=("no_genai", "no_root", "logs_only", "late"),
    ),
    _counter(
        "ragweir_assemble_late_spans_total",
        "Spans that came after their interaction was written, and change nothing",
        _JOIN,
    ),
    _counter(
        "ragweir_assemble_forgotten_total",
        "Written traces that were forgotten early because of assemble.max_remembered or a deleted part of the ledger",
        _JOIN,
    ),
    _gauge("ragweir_assemble_open_traces", "Traces that are not closed", _JOIN, labels=("partition",)),
    _gauge("ragweir_assemble_held_bytes", "Size of the spans of open traces", _JOIN, labels=("partition",)),
    _gauge(
        "ragweir_assemble_behind_bytes",
        "Size of the records from the first one of the oldest open trace on, which a restart reads again",
        _JOIN,
        labels=("partition",),
    ),
    _gauge(
        "ragweir_assemble_remembered_traces",
        "Written traces that are remembered, so that late spans do not begin them again",
        _JOIN,
        labels=("partition",),
    ),
    _gauge(
        "ragweir_assemble_clock_timestamp_seconds",
        "Clock of `join`: the time up to which all source partitions have been read",
        _JOIN,
        labels=("partition",),
    ),
    _gauge(
        "ragweir_assemble_clock_delay_seconds",
        "Seconds by which the clock of `join` is behind the brokers' time; negative if marks of `key` are ahead of it",
        _JOIN,
        labels=("partition",),
    ),
    # Routing rows.
    _counter(
        "ragweir_routing_plans_total",
        "Attempts to plan routing rows, by outcome; after a failure evaluate goes on with the rows that there are",
        _PLANNER,
        outcome=("planned", "failed"),
    ),
    _counter("ragweir_routing_rows_total", "Routing rows that were appended to the topic `control`", _PLANNER),
    _gauge("ragweir_routing_planned_timestamp_seconds", "Time of the last plan of routing rows", _PLANNER),
    # Transactions.
    _counter("ragweir_transactions_total", "Transactions, by outcome", *_AGENTS, outcome=("committed", "aborted")),
    _histogram("ragweir_batch_events", "Records in one transaction", *_AGENTS, buckets=_BATCHES),
    _histogram("ragweir_handle_seconds", "Duration of the computation of one transaction", *_AGENTS, buckets=_SECONDS),
    _histogram("ragweir_commit_seconds", "Duration of the commit of one transaction", *_AGENTS, buckets=_SECONDS),
    _counter(
        "ragweir_topics_recreated_total",
        "Times that an input topic was found deleted and created again, and was read from its start",
        *_AGENTS,
        topic=attrgetter("topics"),
    ),
    _gauge(
        "ragweir_topic_missing",
        "1 while an input topic does not exist, else 0; the other inputs are read",
        *_AGENTS,
        labels=("topic",),
    ),
    # Lag and readiness.
    _gauge("ragweir_lag", "Records of a partition that are not settled", labels=("topic", "partition")),
    _gauge("ragweir_assigned_partitions", "Partitions that this slot reads", *_AGENTS),
    _gauge("ragweir_broker_up", "1 while the broker is connected, else 0"),
    _gauge("ragweir_last_commit_timestamp_seconds", "Time of the last commit", *_AGENTS),
    Instrument(
        "ragweir_service_up",
        "gauge",
        "1 while a worker's process runs, else 0; shown by the supervisor",
        ("service", "slot"),
        by=(SUPERVISOR,),
        supervisor=True,
    ),
    Instrument(
        "ragweir_build_info",
        "gauge",
        "Always 1; the labels have the versions of the program, the catalogue and the kernel; `kernel` is `python` if "
        "texts are counted without it, and empty for services that count none",
        ("version", "catalogue_version", "service", "slot", "kernel"),
        supervisor=True,
    ),
)


class Telemetry:
    """The instruments of one service, in a registry of their own.

    A name that the service has no instrument of is a KeyError, and a wrong number of labels a ValueError.

    Args:
        service: its name.
        slot: the slot of this process.
        known: the label values that its counters have from the start.
    """

    def __init__(self, service: str, slot: int, known: KnownLabels | None = None) -> None:
        self.registry = registry = CollectorRegistry()
        known = known or KnownLabels()
        own = [line for line in TABLE if line.shown_by(service)]
        self._counters = {
            x.name: Counter(x.name, x.help, x.labels, registry=registry) for x in own if x.kind == "counter"
        }
        self._gauges = {x.name: Gauge(x.name, x.help, x.labels, registry=registry) for x in own if x.kind == "gauge"}
        self._histograms = {
            x.name: Histogram(x.name, x.help, x.labels, buckets=x.buckets, registry=registry)
            for x in own
            if x.kind == "histogram"
        }
        for line in own:
            for labels in line.initial_labels(known):
                self.count(line.name, 0, *labels)
        self.add(Measurements(levels=known.levels))
        self.set("ragweir_build_info", 1, version("ragweir"), known.catalogue_version, service, str(slot), known.kernel)

    def count(self, name: str, number: int, *labels: str) -> None:
        """Add to a counter."""
        counter = self._counters[name]
        (counter.labels(*labels) if labels else counter).inc(number)

    def set(self, name: str, value: float, *labels: str) -> None:
        """Set a gauge."""
        gauge = self._gauges[name]
        (gauge.labels(*labels) if labels else gauge).set(value)

    def remove(self, name: str, *labels: str) -> None:
        """Remove a sample of a gauge, such as the lag of a revoked partition."""
        with suppress(KeyError):
            self._gauges[name].remove(*labels)

    def observe(self, name: str, value: float) -> None:
        """Observe a value in a histogram, which has no labels."""
        self._histograms[name].observe(value)

    def add(self, measurements: Measurements) -> None:
        """Add to counters, set or remove gauges, and observe values in histograms."""
        for (name, *labels), number in measurements.counts.items():
            self.count(name, number, *labels)
        for (name, *labels), value in measurements.levels.items():
            if value is None:
                self.remove(name, *labels)
            else:
                self.set(name, value, *labels)
        for (name,), value in measurements.observations:
            self.observe(name, value)
