"""The criteria of the questions that people answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ragweir.errors import ConfigurationError
from ragweir.metrics.criterion import Criterion, criterion
from ragweir.metrics.metric import Metric
from ragweir.schemas.nearest import nearest_hint
from ragweir.streams.settings import LabelSettings
from ragweir.streams.settings.labels import Question


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
