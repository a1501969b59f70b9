"""The instruments that several services have."""

from __future__ import annotations

from operator import attrgetter

from ragweir.streams.runtime.serving.instruments import Instrument, counter

EVALUATIONS = (counter("ragweir_evaluations_total", "Evaluations written", stage=attrgetter("stages")),)
"""The instruments of the services that write evaluations."""

FORMS = (
    counter(
        "ragweir_output_failures_total",
        "Evaluations and windows that could not be written in output.format, which is a defect; the JSON has them",
    ),
)
"""The instruments of the services whose records `output.format` writes in a further form."""

FEEDBACK = Instrument(
    "ragweir_feedback_total",
    "counter",
    "Feedback by name and result: `match` counts `matched`, `waiting` for its answer, and `unmatched_` with the class; "
    "`tally` counts `joined`, `replaced`, `taken_back`, and `outdated` if newer feedback was joined before",
    ("name", "result"),
)
"""The instrument of the services of feedback."""
