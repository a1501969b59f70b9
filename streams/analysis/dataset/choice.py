"""The answers of a dataset: those on which people or scores meet conditions, and those with the worst scores."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import isnan

import numpy as np

from ragweir.errors import ConfigurationError
from ragweir.metrics.criterion import Criterion
from ragweir.metrics.metric import Metric
from ragweir.schemas.evaluation import Source
from ragweir.schemas.label import CANNOT_TELL, Label
from ragweir.schemas.nearest import nearest_hint
from ragweir.streams.analysis.dataset.condition import Condition, PeopleSaid, ScoreIs
from ragweir.streams.analysis.labels.criteria import criteria
from ragweir.streams.analysis.labels.evaluated import Evaluated
from ragweir.streams.settings.labels import Question


@dataclass(frozen=True, slots=True)
class AnswerChoice:
    """Which answers are taken, in the order of the tests: all conditions hold, or one of the worst."""

    where: tuple[Condition, ...]
    """The conditions, all of which have to hold. Without one people have to call the answer bad."""
    worst: int
    """Number of further answers with the worst values that are taken."""
    worst_by: tuple[Criterion, ...]
    """Metrics of `worst`, of which the first that the answers have counts."""

    @property
    def criteria(self) -> list[Criterion]:
        """The metrics whose values are read, each once, those of the conditions last."""
        own = {each.metric: each for each in self.worst_by}
        for each in self.where:
            if isinstance(each, ScoreIs):
                own.setdefault(each.metric, Criterion(each.metric, 0.0, higher_is_better=False, suite=None))
        return list(own.values())

    @property
    def needs_labels(self) -> bool:
        """True if an answer is taken by what people said."""
        return not self.where or any(isinstance(each, PeopleSaid) for each in self.where)


def worst_by(
    metric: str | None, where: Sequence[Condition], questions: Sequence[Question], catalogue: Mapping[str, Metric]
) -> tuple[Criterion, ...]:
    """Return the metrics by which the worst answers are found.

    Args:
        metric: the metric that the user names; None for those of the question of the conditions, else of the first
            question.
        where: the conditions.
        questions: the questions of the settings.
        catalogue: all metrics.

    Raises:
        ConfigurationError: if there is no such metric, or neither direction of it is better.
    """
    if metric is not None:
        if (found := catalogue.get(metric)) is None:
            raise ConfigurationError(f"there is no metric {metric}{nearest_hint(metric, catalogue)}")
        if found.better == "neither" or found.labels:
            raise ConfigurationError(f"{metric} is better in neither direction, so that no answer is the worst")
        return (Criterion(metric, 0.0, found.better == "higher", None),)
    named = next((each.question for each in where if isinstance(each, PeopleSaid)), questions[0].name)
    return tuple(criteria(next(each for each in questions if each.name == named), catalogue))


@dataclass(frozen=True, slots=True)
class Chosen:
    """An answer that was taken."""

    event_id: str
    time: datetime
    source: Source | None
    """Position at which evaluate read it; None if its evaluation does not say."""
    because: tuple[str, ...]
    """The conditions that it meets."""
    people: tuple[Label, ...]
    """Its labels."""
    scores: Mapping[str, float]
    """Its values of the metrics that the choice reads."""


class PeopleAnswers:
    """People's verdicts about each answer: labels by event, and the answer that most gave to each question.

    Args:
        labels: the labels that hold.
        questions: the questions of the settings.
    """

    def __init__(self, labels: Iterable[Label], questions: Sequence[Question]) -> None:
        self._questions = {each.name: each for each in questions}
        self.labels: dict[str, list[Label]] = defaultdict(list)
        for label in labels:
            self.labels[label.event_id].append(label)

    def said(self, event_id: str, question: str) -> bool | str | None:
        """Return what most people said; None if nobody answered, or as many gave another answer."""
        if (asked := self._questions.get(question)) is None:
            return None
        given = (asked.read(each.value) for each in self.labels.get(event_id, ()) if each.question == question)
        counts = Counter(each for each in given if each is not None and each != CANNOT_TELL).most_common(2)
        return counts[0][0] if counts and (len(counts) == 1 or counts[0][1] > counts[1][1]) else None

    def called(self, event_id: str) -> Iterator[tuple[str, bool]]:
        """Yield the questions to which most people gave one answer, with true if that calls the event bad."""
        for name in dict.fromkeys(each.question for each in self.labels.get(event_id, ())):
            said = self.said(event_id, name)
            if said is not None and (bad := self._questions[name].is_bad(said)) is not None:
                yield name, bad


def choose(choice: AnswerChoice, evaluated: Evaluated, people: PeopleAnswers) -> list[Chosen]:
    """Return the answers that a choice takes: those that meet the conditions, newest first, then the worst.

    Args:
        choice: the choice.
        evaluated: the evaluations, with the criteria of the choice.
        people: what people said.
    """
    places = {each.metric: place for place, each in enumerate(evaluated.criteria)}
    values = {name: np.asarray(evaluated.values[place]) for name, place in places.items()}
    ids = list(evaluated.rows)
    taken: dict[int, tuple[str, ...]] = {}
    rows = sorted(_candidates(choice, evaluated, people), key=lambda row: -evaluated.times[row])
    for row in rows:
        if because := _met(choice, ids[row], people, {name: column[row] for name, column in values.items()}):
            taken[row] = because
    taken |= _worst(choice, values, ids, people, taken)
    return [
        Chosen(
            ids[row],
            datetime.fromtimestamp(evaluated.times[row], UTC),
            evaluated.source(row),
            because,
            tuple(people.labels.get(ids[row], ())),
            {name: float(column[row]) for name, column in values.items() if not isnan(column[row])},
        )
        for row, because in taken.items()
    ]


def _candidates(choice: AnswerChoice, evaluated: Evaluated, people: PeopleAnswers) -> Iterable[int]:
    """Return the rows that may meet the conditions: those with labels, if people have to have said something."""
    if choice.needs_labels:
        return [evaluated.rows[each] for each in people.labels if each in evaluated.rows]
    return range(len(evaluated))


def _met(
    choice: AnswerChoice, event_id: str, people: PeopleAnswers, values: Mapping[str, float]
) -> tuple[str, ...] | None:
    """Return the conditions that an answer meets; None if it does not meet all."""
    if not choice.where:
        return tuple(f"people call it bad: {name}" for name, bad in people.called(event_id) if bad) or None
    for each in choice.where:
        if isinstance(each, PeopleSaid):
            holds = people.said(event_id, each.question) == each.value
        else:
            holds = each.holds(None if isnan(own := values[each.metric]) else own)
        if not holds:
            return None
    return tuple(each.text for each in choice.where)


def _worst(
    choice: AnswerChoice,
    values: Mapping[str, np.ndarray],
    ids: Sequence[str],
    people: PeopleAnswers,
    taken: Collection[int],
) -> dict[int, tuple[str, ...]]:
    """Return the rows with the worst values and the reason, without those that are taken or that people call good."""
    found: dict[int, tuple[str, ...]] = {}
    metrics = (each for each in choice.worst_by if not np.isnan(values[each.metric]).all())
    if not choice.worst or (by := next(metrics, None)) is None:
        return found
    own = values[by.metric]
    known = np.flatnonzero(~np.isnan(own))
    order = known[np.argsort(own[known] if by.higher_is_better else -own[known], kind="stable")]
    for row in order.tolist():
        if len(found) == choice.worst:
            break
        verdicts = [bad for _, bad in people.called(ids[row])]
        if row not in taken and (not verdicts or any(verdicts)):
            found[row] = (f"{by.metric} {own[row]:.6g}, one of the worst {choice.worst}",)
    return found
