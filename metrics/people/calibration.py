"""The calibration of a judge's probabilities: how near they are to people's answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import fsum
from typing import NamedTuple

from ragweir.metrics.criterion import Criterion
from ragweir.metrics.judged.deciding import expected
from ragweir.metrics.people.shares import Limits, Measured, mean


def likely_bad(criterion: Criterion, distribution: Mapping[str, float]) -> float | None:
    """Return the probability of a value on the bad side of a threshold; None if these are no probabilities.

    >>> likely_bad(Criterion("judge_faithfulness", 0.7, True, "rubric"), {"0.65": 0.2, "1": 0.8})
    0.2
    """
    if expected(distribution) is None:
        return None
    likely = fsum(probability for value, probability in distribution.items() if criterion.is_bad(float(value)))
    return min(1.0, likely / fsum(distribution.values()))


class Forecast(NamedTuple):
    """The probability that one labelled answer is bad, and what people say of it."""

    likely: float
    """Probability of a bad answer, by the judge."""
    bad: bool | None
    """True if people call it bad; None if they cannot tell, or its text is gone."""
    chance: float
    """Chance with which it was judged and labelled, up to a factor that all answers share."""


def brier_score(forecasts: Sequence[Forecast]) -> Limits | None:
    """Return the mean squared difference of probabilities and answers (Brier, 1950); None if no answer is known.

    0 is a judge that is always certain and right, 0.25 one that always says 0.5, 1 one that is certain and wrong.

    >>> found = brier_score([Forecast(0.8, True, 1.0), Forecast(0.4, False, 1.0)])
    >>> round(found.value, 6), found.n
    (0.1, 2)
    """
    return mean([_squared(each) for each in forecasts])


def _squared(forecast: Forecast) -> Measured:
    likely, bad = forecast.likely, forecast.bad
    ends = [(likely - said) ** 2 for said in ((0, 1) if bad is None else (int(bad),))]
    return Measured(min(ends), max(ends), forecast.chance)
