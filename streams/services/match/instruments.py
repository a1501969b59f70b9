"""The instruments of match."""

from __future__ import annotations

from ragweir.streams.runtime.serving.instruments import gauge
from ragweir.streams.services.shared.instruments import FEEDBACK

INSTRUMENTS = (
    FEEDBACK,
    gauge("ragweir_feedback_waiting", "Feedback that waits for the evaluation of its answer"),
    gauge(
        "ragweir_feedback_answers_read_timestamp_seconds",
        "Time up to which evaluations were read to find the answers of feedback; 0 until all were read once",
    ),
)
