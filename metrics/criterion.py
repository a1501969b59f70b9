"""Verdicts: a metric with its threshold divides bad from good evaluations."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ragweir.errors import ConfigurationError
from ragweir.metrics.metric import Metric
from ragweir.schemas.nearest import nearest_hint

BAD, GOOD, UNANSWERED, UNDEFINED, NOT_SELECTED = range(5)
"""Verdicts of a metric on an event: bad or good; selected to be judged without an answer; not defined for the event;
not selected to be judged."""
_FINAL = ("judged", "failed")


@dataclass(frozen=True, slots=True)
class Criterion:
    """A metric and its threshold."""

    metric: str
    threshold: float
    higher_is_better: bool
    suite: str | None
    """The suite that computes the metric; None for a free metric, which every event has."""

    def is_bad(self, value: float) -> bool:
        """Return whether a value is on the bad side of the threshold.

        >>> Criterion("unsupported_risk", 0.8, False, None).is_bad(0.9)
        True
        """
        return value < self.threshold if self.higher_is_better else value > self.threshold


def criterion(metric: str, threshold: float, catalogue: Mapping[str, Metric]) -> Criterion:
    """Return the criterion of a metric of the catalogue.

    Raises:
        ConfigurationError: if there is no such metric, or neither direction of it is better.
    """
    if (found := catalogue.get(metric)) is None:
        raise ConfigurationError(f"there is no metric {metric}{nearest_hint(metric, catalogue)}")
    if found.better == "neither" or found.labels:
        raise ConfigurationError(f"{metric} is better in neither direction, so that no threshold divides bad from good")
    suite = None if found.cost == "free" else found.group
    return Criterion(metric, threshold, found.better == "higher", suite)


def free_verdicts(criterion: Criterion, values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the verdicts of a free metric on many events, as `verdict_of` gives them.

    >>> free_verdicts(Criterion("unsupported_risk", 0.8, False, None), np.array([0.9, 0.1, np.nan])).tolist()
    [0, 1, 3]

    Args:
        criterion: the metric and its threshold.
        values: the values of the metric; NaN for null.
    """
    is_bad = values < criterion.threshold if criterion.higher_is_better else values > criterion.threshold
    return np.where(np.isnan(values), UNDEFINED, np.where(is_bad, BAD, GOOD))


class DecidedSuite(Protocol):
    """The decision on judging an event by one suite, as `ragweir.schemas.evaluation.SuiteDecision` has it."""

    @property
    def suite(self) -> str:
        """Name of the suite."""

    @property
    def status(self) -> str:
        """Progress of judging."""

    @property
    def probability(self) -> float:
        """Probability with which the event was selected."""


def verdict_of(
    criterion: Criterion, value: float | None, suites: Sequence[DecidedSuite], undefined: Collection[str]
) -> tuple[int, float]:
    """Return the verdict on an event, and its probability of being judged.

    >>> verdict_of(Criterion("unsupported_risk", 0.8, False, None), 0.9, (), ()) == (BAD, 1.0)
    True

    Args:
        criterion: the metric and its threshold.
        value: the value of the metric.
        suites: the decisions on judging the event.
        undefined: the judged metrics that are not defined for the event.
    """
    if criterion.suite is None:
        return UNDEFINED if value is None else BAD if criterion.is_bad(value) else GOOD, 1.0
    own = next((each for each in suites if each.suite == criterion.suite), None)
    if own is None or not own.probability or own.status == "not_selected":
        return NOT_SELECTED, own.probability if own else 0.0
    if value is not None and own.status == "judged":
        return BAD if criterion.is_bad(value) else GOOD, own.probability
    if value is None and criterion.metric in undefined and own.status in _FINAL:
        return UNDEFINED, own.probability
    return UNANSWERED, own.probability
