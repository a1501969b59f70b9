"""The instruments of the console."""

from __future__ import annotations

from ragweir.streams.runtime.serving.instruments import counter, gauge, histogram

TOPICS = ("evaluations", "labels", "labels.draws", "dead-letter", "feedback.joined")
"""The topics that the console follows, without the prefix."""

_PEOPLE = "that people would find among all events of the draws, by `ragweir labels report` without evaluations"
_SUBJECT = ("question", "metric", "application", "model")

_STATUSES = ("2xx", "3xx", "4xx", "5xx")
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)

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
    counter(
        "ragweir_console_requests_total", "Requests to the pages, by the class of the answer's status", status=_STATUSES
    ),
    histogram(
        "ragweir_console_request_seconds", "Time from a request to a page until its answer begins", buckets=_SECONDS
    ),
    counter("ragweir_console_logins_total", "Attempts to log in to the console", result=("admitted", "rejected")),
    counter(
        "ragweir_console_fetches_total",
        "Records that pages fetched from Kafka; `gone`: deleted meanwhile; `failed`: Kafka did not answer in time, or "
        "too many pages waited for it",
        result=("found", "gone", "failed"),
    ),
    counter(
        "ragweir_console_connections_closed_total",
        "Connections to the pages that the console closed; `late`: a part of a request took too long; `crowded`: a "
        "newer one took its place",
        reason=("late", "crowded"),
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
