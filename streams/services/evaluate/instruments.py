"""The instruments of evaluate."""

from __future__ import annotations

from operator import attrgetter

from ragweir.schemas.codec.intake import REPAIRS
from ragweir.streams.runtime.serving.instruments import counter, gauge

INSTRUMENTS = (
    counter(
        "ragweir_kernel_panics_total",
        "Events at which the kernel failed, which is a defect of it; their texts were counted in Python instead",
    ),
    gauge("ragweir_routing_rows", "Routing rows that were read from control"),
    gauge(
        "ragweir_routing_known_until_timestamp_seconds",
        "Event time up to which all routing rows are known, in seconds since 1970",
    ),
    counter("ragweir_routing_read_errors_total", "Readings of control that failed"),
    counter(
        "ragweir_routing_rows_ignored_total",
        "Records of control without effect: unreadable, or effective less than an hour after they were written",
        why=("unreadable", "late"),
    ),
    counter(
        "ragweir_routing_ahead_total",
        "Events selected by rows that may not be all that hold at their time, which lies ahead of what was read",
    ),
    counter("ragweir_duplicates_total", "Events not evaluated because their id occurred shortly before"),
    counter("ragweir_filtered_total", "Events excluded by filters of a replay or by `where` of the map"),
    counter(
        "ragweir_repaired_total",
        "Evaluated events that were repaired while they were decoded",
        flag=tuple(sorted(REPAIRS)),
    ),
    counter(
        "ragweir_metric_errors_total",
        "Evaluations in which a metric is null because it raised an error",
        metric=attrgetter("metrics"),
    ),
    gauge(
        "ragweir_event_time_distance_seconds",
        "Seconds from the time of an event to the timestamp of its record in the last batch; negative for an event "
        "after its record",
        labels=("statistic",),
    ),
    counter(
        "ragweir_routed_total",
        "Decisions to judge an event by a suite",
        suite=attrgetter("suites"),
        status=("selected", "not_selected", "failed"),
    ),
)
