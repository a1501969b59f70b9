"""The instruments of aggregate."""

from __future__ import annotations

from operator import attrgetter

from ragweir.streams.runtime.serving.instruments import counter, gauge

INSTRUMENTS = (
    counter(
        "ragweir_evaluations_summed_total",
        "Evaluations that were added to windows, from the packed row of their header or from their JSON",
        form=("header", "json"),
    ),
    counter("ragweir_late_events_total", "Events that arrived after their window was closed"),
    counter(
        "ragweir_window_overflow_total",
        "Events counted under __overflow__ because their window had the maximum of label sets",
    ),
    counter(
        "ragweir_slo_events_total", "Events that an SLO applies to", slo=attrgetter("slos"), outcome=("good", "bad")
    ),
    counter(
        "ragweir_slo_weight_millionths_total",
        "Events that an SLO on a judged metric applies to, each with the inverse of its probability of being selected "
        "for the judge as its weight, in millionths; `missing` events were selected and not judged",
        slo=attrgetter("judged_slos"),
        outcome=("good", "bad", "missing", "unselected"),
    ),
    counter(
        "ragweir_slo_squared_weight_millionths_total",
        "Squares of the weights of ragweir_slo_weight_millionths_total, in millionths",
        slo=attrgetter("judged_slos"),
        outcome=("good", "bad", "missing", "unselected"),
    ),
    gauge("ragweir_slo_objective", "Target share of good events of an SLO", labels=("slo",)),
    gauge(
        "ragweir_watermark_timestamp_seconds",
        "Watermark: the event time up to which windows are closed",
        labels=("partition",),
    ),
    gauge("ragweir_windows_held", "Open windows in memory", labels=("partition",)),
)
