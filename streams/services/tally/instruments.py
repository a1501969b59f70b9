"""The instruments of tally."""

from __future__ import annotations

from ragweir.streams.runtime.serving.instruments import gauge
from ragweir.streams.services.shared.instruments import FEEDBACK

INSTRUMENTS = (
    FEEDBACK,
    gauge("ragweir_feedback_values", "Feedback that is held, one for each answer, name and giver"),
)
