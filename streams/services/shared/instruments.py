"""The instruments that several services have."""

from __future__ import annotations

from operator import attrgetter

from ragweir.streams.runtime.serving.instruments import counter

EVALUATIONS = (counter("ragweir_evaluations_total", "Evaluations written", stage=attrgetter("stages")),)
"""The instruments of the services that write evaluations."""

FORMS = (
    counter(
        "ragweir_output_failures_total",
        "Evaluations and windows that could not be written in output.format, which is a defect; the JSON has them",
    ),
)
"""The instruments of the services whose records `output.format` writes in a further form."""
