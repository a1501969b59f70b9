"""Criteria: a metric and its threshold, by which an evaluation has a verdict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ragweir.errors import ConfigurationError
from ragweir.metrics.metric import Metric
from ragweir.schemas.nearest import nearest_hint
from ragweir.streams.settings import LabelSettings
from ragweir.streams.settings.labels import Question


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


def criteria(question: Question, catalogue: Mapping[str, Metric]) -> list[Criterion]:
    """Return the criteria of a question, its own metric first.

    Raises:
        ConfigurationError: as `criterion`.
    """
    own = {question.metric: question.threshold, **question.also}
    return [criterion(metric, threshold, catalogue) for metric, threshold in own.items()]


def question_named(settings: LabelSettings, name: str) -> Question:
    """Return a question of the settings.

    Raises:
        ConfigurationError: if there is none of this name.
    """
    known = {each.name: each for each in settings.questions}
    if name not in known:
        raise ConfigurationError(
            f"there is no question {name}{nearest_hint(name, known)}; labels.questions has {', '.join(known)}"
        )
    return known[name]


def each_criterion(settings: LabelSettings, catalogue: Mapping[str, Metric]) -> Iterator[tuple[Question, Criterion]]:
    """Yield all questions with each of their criteria."""
    for question in settings.questions:
        for found in criteria(question, catalogue):
            yield question, found
