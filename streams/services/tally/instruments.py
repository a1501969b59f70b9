"""The instruments of tally."""

from __future__ import annotations

from ragweir.streams.runtime.serving.instruments import gauge
from ragweir.streams.services.shared.instruments import FEEDBACK

INSTRUMENTS = (
    FEEDBACK,
    gauge(
        "ragweir_feedback_given",
        "Feedback that holds on answers of the 24 hours before the last 24, by name and value",
        labels=("name", "value"),
    ),
    gauge("ragweir_feedback_values", "Feedback that is held, one for each answer, name and giver"),
)
