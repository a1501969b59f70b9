"""Instruments: one line each, with the lines that every process or every agent has."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import product
from operator import attrgetter
from typing import Literal, get_args

from ragweir.errors import ErrorClass
from ragweir.streams.runtime.records import Count

SUPERVISOR = "supervisor"
"""The name of the supervisor as a service."""


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
    """Names of the parts that a partial interaction may lack."""
    catalogue_version: str = ""
    """Version of the metrics that it loads; empty for that of the shipped ones."""
    kernel: str = ""
    """The version of the kernel that counts the texts of events, or `python`; empty for a service that counts none."""
    levels: Mapping[Count, float] = field(default_factory=dict)
    """Gauges that follow from the settings alone."""


Values = Callable[[KnownLabels], Iterable[str]] | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Instrument:
    """One series, or a group of series with labels.

    Args:
        name: the name of the series.
        kind: its type.
        help: its HELP text.
        labels: the names of its labels.
        buckets: upper bounds of a histogram's buckets.
        values: the possible values of each label of a counter. The counter exists at 0 for each combination from the
            start: Prometheus sees no increase in a series that appears with its first events. Without values a series
            appears with its first count.
    """

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    values: tuple[Values, ...] = ()

    def initial_labels(self, known: KnownLabels) -> Iterable[tuple[str, ...]]:
        """Return the combinations of label values that it has from the start.

        >>> instrument = counter("x_total", "", slo=attrgetter("slos"), outcome=("good", "bad"))
        >>> list(instrument.initial_labels(KnownLabels(slos=["quick"])))
        [('quick', 'good'), ('quick', 'bad')]
        """
        return product(*(each(known) if callable(each) else each for each in self.values)) if self.values else ()


def counter(name: str, help: str, **labels: Values) -> Instrument:
    """Return a counter with the possible values of each label."""
    return Instrument(name, "counter", help, tuple(labels), values=tuple(labels.values()))


def gauge(name: str, help: str, labels: tuple[str, ...] = ()) -> Instrument:
    """Return a gauge."""
    return Instrument(name, "gauge", help, labels)


def histogram(name: str, help: str, buckets: tuple[float, ...]) -> Instrument:
    """Return a histogram, which has no labels."""
    return Instrument(name, "histogram", help, buckets=buckets)


_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)

_BUILD_INFO = Instrument(
    "ragweir_build_info",
    "gauge",
    "Always 1; the labels have the versions of the program, the catalogue and the kernel; `kernel` is `python` if "
    "texts are counted without it, and empty for services that count none",
    ("version", "catalogue_version", "service", "slot", "kernel"),
)

PROCESS = (
    gauge("ragweir_lag", "Records of a partition that are not settled", labels=("topic", "partition")),
    gauge("ragweir_broker_up", "1 while the broker is connected, else 0"),
    _BUILD_INFO,
)
"""The instruments of every process that reads Kafka."""

AGENT = (
    *PROCESS,
    counter("ragweir_events_in_total", "Records read and settled, with or without an evaluation"),
    counter(
        "ragweir_dead_letters_total",
        "Records written to dead-letter because they could not be evaluated",
        error_class=get_args(ErrorClass),
    ),
    Instrument(
        "ragweir_events_missed_total",
        "counter",
        "Records that retention deleted before they were read",
        ("topic", "partition"),
    ),
    counter("ragweir_transactions_total", "Transactions, by outcome", outcome=("committed", "aborted")),
    histogram("ragweir_batch_events", "Records in one transaction", buckets=(1, 10, 100, 500, 1000, 5000)),
    histogram("ragweir_handle_seconds", "Duration of the computation of one transaction", buckets=_SECONDS),
    histogram("ragweir_commit_seconds", "Duration of the commit of one transaction", buckets=_SECONDS),
    counter(
        "ragweir_topics_recreated_total",
        "Times that an input topic was found deleted and created again, and was read from its start",
        topic=attrgetter("topics"),
    ),
    gauge(
        "ragweir_topic_missing",
        "1 while an input topic does not exist, else 0; the other inputs are read",
        labels=("topic",),
    ),
    gauge("ragweir_assigned_partitions", "Partitions that this slot reads"),
    gauge("ragweir_last_commit_timestamp_seconds", "Time of the last commit"),
)
"""The instruments of every agent."""

SUPERVISING = (
    Instrument(
        "ragweir_service_up",
        "gauge",
        "1 while a worker's process runs, else 0; shown by the supervisor",
        ("service", "slot"),
    ),
    _BUILD_INFO,
)
"""The instruments of the supervisor."""
