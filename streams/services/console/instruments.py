"""The instruments of the console."""

from __future__ import annotations

from ragweir.streams.runtime.serving.instruments import counter, gauge

TOPICS = ("evaluations", "labels", "labels.draws", "dead-letter")
"""The topics that the console follows, without the prefix."""

_PEOPLE = "that people would find among all events of the draws, by `ragweir labels report` without evaluations"
_SUBJECT = ("question", "metric", "application", "model")

INSTRUMENTS = (
    counter(
        "ragweir_console_records_total",
        "Records of the console's topics; `unreadable`: not of the topic's kind; `rejected`: over a limit of the store",
        topic=TOPICS,
        result=("taken", "unreadable", "rejected"),
    ),
    counter(
        "ragweir_console_evaluations_replaced_total",
        "Evaluations of an event of which the store has another one; one of the two counts",
    ),
    counter(
        "ragweir_console_segments_dropped_total",
        "Parts of 4,096 evaluations that were removed from the store because of its age or its size",
    ),
    gauge("ragweir_console_store_bytes", "Size of the console's store on disk"),
    gauge("ragweir_console_read_ratio", "Part of the evaluations that the console has read, from 0 to 1"),
    gauge(
        "ragweir_people_estimate",
        f"Share of bad answers {_PEOPLE}",
        labels=_SUBJECT,
    ),
    gauge("ragweir_people_estimate_low", f"Lower 95 % limit of the share of bad answers {_PEOPLE}", labels=_SUBJECT),
    gauge("ragweir_people_estimate_high", f"Upper 95 % limit of the share of bad answers {_PEOPLE}", labels=_SUBJECT),
    gauge("ragweir_labels", "Labels of people that hold, by kind of the label", labels=("question", "kind")),
)
