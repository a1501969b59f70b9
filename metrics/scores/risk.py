"""Risk: one calibrated number from the grounding metrics, by a logistic model.

`risk.toml` has the model and its provenance; `tools/fit_risk.py` fits and writes it. No coefficient is negative and
every feature grows as support falls, so that a worse answer never has a lower risk.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from operator import mul

from ragweir.metrics.metric import Metric, Null, Value
from ragweir.metrics.view import View

Features = tuple[float, ...]

FEATURES = ("unsupported_share", "unsupported_words", "unsupported_pairs")
"""The model's features: 1 - `context_support`, ln(1 + `unsupported_words`) / ln(51), 1 - `bigram_support`."""

_FIFTY_WORDS = math.log1p(50)
"""Divisor that scales the count: 1 at fifty unsupported words."""

_NO_CONTEXT_CONTENT = Null("no context has content words")
_NO_CONTENT = Null("the response has no content words")


@dataclass(frozen=True, slots=True)
class Model:
    """A logistic model: 1 / (1 + e^-(intercept + sum of coefficient x feature))."""

    intercept: float
    coefficients: tuple[float, ...]

    @classmethod
    def from_table(cls, table: Mapping[str, object]) -> Model:
        """Read a model from its file's table.

        Raises:
            ValueError: if the features are not `FEATURES`, or a number is missing, negative or not finite.
        """
        coefficients, intercept = table.get("coefficients"), table.get("intercept")
        if not isinstance(coefficients, Mapping) or tuple(coefficients) != FEATURES:
            raise ValueError(f"the model's coefficients must be those of {', '.join(FEATURES)}, in this order")
        if not isinstance(intercept, float) or not math.isfinite(intercept):
            raise ValueError("the model's intercept must be a finite number")
        values = tuple(coefficients.values())
        if not all(isinstance(value, float) and math.isfinite(value) and value >= 0 for value in values):
            raise ValueError("the model's coefficients must be finite and not negative")
        return cls(intercept, values)

    def risk(self, features: Features) -> float:
        """Return the probability for these features.

        >>> Model(0.0, (1.0, 1.0)).risk((0.0, 0.0))
        0.5
        """
        score = self.intercept + sum(map(mul, self.coefficients, features))
        return 1 / (1 + math.exp(-score))


@cache
def model() -> Model:
    """Return the model of `risk.toml`."""
    return Model.from_table(
        tomllib.loads(files("ragweir.metrics.scores").joinpath("risk.toml").read_text(encoding="utf-8"))
    )


def features(view: View) -> Features | Null:
    """Return the features of one event, or the reason why there are none."""
    counts = view.counts
    if not counts.context_stems:
        return _NO_CONTEXT_CONTENT
    stems = counts.response_stems
    if not stems:
        return _NO_CONTENT
    unsupported = 1 - counts.supported_stems / stems
    pairs = counts.response_pairs
    return (
        unsupported,
        math.log1p(counts.unsupported_stems) / _FIFTY_WORDS,
        # A single token has no pairs.
        1 - counts.supported_pairs / pairs if pairs else unsupported,
    )


def unsupported_risk(view: View) -> Value:
    """Probability that people find statements in the answer that its contexts do not support.

    Formula: 1 / (1 + e^-(intercept + sum of coefficient x feature)) over 1 - `context_support`,
    ln(1 + `unsupported_words`) and 1 - `bigram_support`, or the first again if there is no pair.
    Range: 0 to 1; lower is better. At 0.5 a strict reader (each detail must be in the contexts) rejects nearly every
    answer and a lenient one (mostly unfaithful is bad) nearly none: the two labelled sets agree on the coefficients but
    not on the intercept, which is the mean of both. So the order is reliable, the level depends on the standard;
    `risk.toml` has both intercepts.
    Undefined: without `contexts`; if none of them, or the response, has content words (see `answered_without_context`).
    Reference: fitted by `tools/fit_risk.py` on people's judgements of faithfulness; provenance in `risk.toml`.
    Known limits: those of its features: words are compared, so that negation is ignored and a paraphrase is a risk.

    >>> from ragweir.metrics.view import example
    >>> text = [{"text": "The tower opened in 1889 and was built by Gustave Eiffel."}]
    >>> faithful = unsupported_risk(example(contexts=text, response="The tower opened in 1889."))
    >>> invented = unsupported_risk(example(contexts=text, response="It cost nine million francs and nobody liked it."))
    >>> faithful < 0.1 < 0.7 < invented
    True
    """
    read = features(view)
    return read if isinstance(read, Null) else model().risk(read)


METRICS = (Metric(unsupported_risk, "grounding", "ratio", "lower", ("contexts",), "ragweir's own"),)
