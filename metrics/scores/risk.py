"""Risk: one calibrated number from the grounding metrics, by a logistic model whose coefficients are data.

`risk.toml` beside this module holds the model and where it came from; `tools/fit_risk.py` fits and writes it again.
No coefficient is negative and every feature grows as support falls, so a worse answer never gets a lower risk.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from ragweir.metrics.metric import Metric, Null, Value
from ragweir.metrics.scores import grounding
from ragweir.metrics.view import View

Features = tuple[float, ...]

FEATURES = ("unsupported_share", "unsupported_words", "unsupported_pairs")
"""What the model reads: 1 - `context_support`, ln(1 + `unsupported_words`) / ln(51), 1 - `bigram_support`."""

_FIFTY_WORDS = math.log1p(50)
"""Brings the count to the shares' scale: 1 at fifty unsupported words."""


@dataclass(frozen=True, slots=True)
class Model:
    """A logistic model: 1 / (1 + e^-(intercept + sum of coefficient x feature))."""

    intercept: float
    coefficients: tuple[float, ...]

    @classmethod
    def from_table(cls, table: Mapping[str, object]) -> Model:
        """Read a model from its file's table.

        Raises:
            ValueError: if the features are not the ones computed here, or a number is missing, negative or not finite.
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
        """The probability that the model gives to these features.

        >>> Model(0.0, (1.0, 1.0)).risk((0.0, 0.0))
        0.5
        """
        score = self.intercept + sum(c * feature for c, feature in zip(self.coefficients, features, strict=True))
        return 1 / (1 + math.exp(-score))


@cache
def model() -> Model:
    """The model that ships."""
    return Model.from_table(
        tomllib.loads(files("ragweir.metrics.scores").joinpath("risk.toml").read_text(encoding="utf-8"))
    )


def features(view: View) -> Features | Null:
    """What the model reads of one event, or why there is no telling."""
    known = grounding.context_stems(view)
    if not known:
        return Null("no context has content words")
    stems = view.response.stems
    if not stems:
        return Null("the response has no content words")
    unsupported = 1 - len(stems & known) / len(stems)
    pairs = grounding.response_pairs(view)
    return (
        unsupported,
        math.log1p(len(grounding.unsupported_stems(view))) / _FIFTY_WORDS,
        # One token has no pairs; what the token says of the share is then all there is.
        1 - len(grounding.stated_pairs(view)) / len(pairs) if pairs else unsupported,
    )


def unsupported_risk(view: View) -> Value:
    """How likely people are to find that the answer says more than its contexts do.

    Formula: 1 / (1 + e^-(intercept + sum of coefficient x feature)) over 1 - `context_support`,
    ln(1 + `unsupported_words`) and 1 - `bigram_support`, the last taken as the first where there is no pair.
    Range: 0 to 1; lower is better. 0.5 stands where a strict reader (each detail must be in the contexts) would call
    nearly every such answer bad and a lenient one (bad is what is mostly unfaithful) nearly none: the two labelled
    sets agree on how the odds grow with the features, not on how much is too much, and the number lies midway. Trust
    the order everywhere; `risk.toml` has the intercept of each standard.
    Undefined: without `contexts`; when none of them, or the response, has content words. What was answered from
    nothing is a case of its own: `answered_without_context`.
    Reference: fitted by `tools/fit_risk.py` on people's judgements of faithfulness; provenance in `risk.toml`.
    Known limits: those of its features: it reads words, not meaning, and neither negation nor true paraphrase.

    >>> from ragweir.metrics.view import example
    >>> told = [{"text": "The tower opened in 1889 and was built by Gustave Eiffel."}]
    >>> faithful = unsupported_risk(example(contexts=told, response="The tower opened in 1889."))
    >>> invented = unsupported_risk(example(contexts=told, response="It cost nine million francs and nobody liked it."))
    >>> faithful < 0.1 < 0.7 < invented
    True
    """
    read = features(view)
    return read if isinstance(read, Null) else model().risk(read)


METRICS = (Metric(unsupported_risk, "grounding", "ratio", "lower", ("contexts",), "beyond the documents"),)
