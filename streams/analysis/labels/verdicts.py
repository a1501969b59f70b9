"""Answers with their labels, and the verdicts of a metric on them: from evaluations, or from the labels themselves."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np
from typing_extensions import override

from ragweir.metrics.criterion import BAD, GOOD, Criterion
from ragweir.schemas.label import Draw, Label
from ragweir.streams.analysis.labels.evaluated import Evaluated, Rows
from ragweir.streams.analysis.labels.sampling_frame import Frame
from ragweir.streams.settings.labels import Question


class Judge(NamedTuple):
    """The judge of a verdict; None for a free metric."""

    model: str | None = None
    suite_version: str | None = None


class AnswerLabels(NamedTuple):
    """The labels of one answer."""

    event_id: str
    bad: bool | None
    """True if more people call it bad than good; None if as many do."""
    first: Label
    """The first label, which has the draw if the answer was drawn."""
    said: tuple[bool, ...]
    """True for each person who calls it bad, in order of time, without those who cannot tell."""

    @property
    def draw_id(self) -> str | None:
        """Id of its draw; None if it was not drawn."""
        return self.first.draw.id if self.first.draw else None


def answers_of(question: Question, labels: Iterable[Label]) -> tuple[list[AnswerLabels], Counter[str]]:
    """Return the answers of labels of one question, and the values that are no answer to it, with their numbers."""
    by_event: dict[str, list[Label]] = defaultdict(list)
    wrong: Counter[str] = Counter()
    for label in labels:
        if question.read(label.value) is None:
            wrong[str(label.value)] += 1
        else:
            by_event[label.event_id].append(label)
    return [_answer(question, event_id, own) for event_id, own in by_event.items()], wrong


def _answer(question: Question, event_id: str, labels: list[Label]) -> AnswerLabels:
    labels.sort(key=lambda label: label.time)
    read = (question.read(label.value) for label in labels)
    said = tuple(bad for value in read if value is not None and (bad := question.is_bad(value)) is not None)
    balance = sum(1 if bad else -1 for bad in said)
    first = next((label for label in labels if label.draw is not None), labels[0])
    return AnswerLabels(event_id, balance > 0 if balance else None, first, said)


class VerdictSource(ABC):
    """The verdicts of one criterion on answers."""

    @abstractmethod
    def verdict(self, answer: AnswerLabels) -> bool | None:
        """Return true if the metric calls an answer bad; None if it has no verdict."""

    @abstractmethod
    def chance(self, answer: AnswerLabels) -> float:
        """Return the probability with which an answer that has a verdict was judged."""

    def likely(self, answer: AnswerLabels) -> float | None:  # noqa: ARG002 - for subclasses
        """Return the probability that an answer is bad, by the judge; None if it is not known."""
        return None

    @abstractmethod
    def judge(self, answer: AnswerLabels) -> Judge:
        """Return the judge of an answer that has a verdict."""

    @abstractmethod
    def frame(self, draw: Draw) -> Frame:
        """Return the frame of a draw."""


@dataclass(frozen=True, slots=True)
class VerdictsOfLabels(VerdictSource):
    """Verdicts by the scores that the labels of drawn answers carry."""

    criterion: Criterion

    @override
    def verdict(self, answer: AnswerLabels) -> bool | None:
        judged = answer.first.judged
        return self.criterion.is_bad(judged.value) if judged and judged.metric == self.criterion.metric else None

    @override
    def chance(self, answer: AnswerLabels) -> float:
        return answer.first.judged.probability if answer.first.judged else 1.0

    @override
    def judge(self, answer: AnswerLabels) -> Judge:
        judged = answer.first.judged
        return Judge(judged.model, judged.suite_version) if judged else Judge()

    @override
    def frame(self, draw: Draw) -> Frame:
        return Frame.from_draw(draw)


@dataclass(frozen=True, slots=True)
class VerdictsOfFile(VerdictSource):
    """Verdicts by a file of evaluations."""

    evaluated: Evaluated
    place: int
    """The place of the criterion among those of the evaluations."""

    @override
    def verdict(self, answer: AnswerLabels) -> bool | None:
        row = self.evaluated.rows.get(answer.event_id)
        verdict = None if row is None else self.evaluated.verdicts[self.place][row]
        return verdict == BAD if verdict in (BAD, GOOD) else None

    @override
    def chance(self, answer: AnswerLabels) -> float:
        return self.evaluated.chances[self.place][self.evaluated.rows[answer.event_id]]

    @override
    def likely(self, answer: AnswerLabels) -> float | None:
        return self.evaluated.likely[self.place].get(self.evaluated.rows[answer.event_id])

    @override
    def judge(self, answer: AnswerLabels) -> Judge:
        return Judge(*self.evaluated.judged_by(self.place, self.evaluated.rows[answer.event_id]))

    @override
    def frame(self, draw: Draw) -> Frame:
        return Frame.of(self.evaluated.tally(self.place, self._rows(draw)))

    def whole(self) -> Frame:
        """Return the frame of all evaluations, for drawn answers whose draw is not known."""
        return Frame.of(self.evaluated.tally(self.place, np.arange(len(self.evaluated))))

    def application(self, answer: AnswerLabels) -> str | None:
        """Return the application of an answer's event."""
        return self.evaluated.groups[self.evaluated.group[self.evaluated.rows[answer.event_id]]].application

    def times(self, answers: Iterable[AnswerLabels]) -> list[datetime]:
        """Return the times of the answers' events."""
        rows = (self.evaluated.rows[each.event_id] for each in answers)
        return [datetime.fromtimestamp(self.evaluated.times[row], UTC) for row in rows]

    def _rows(self, draw: Draw) -> Rows:
        times, groups = np.asarray(self.evaluated.times), np.asarray(self.evaluated.group)
        inside = (draw.start.timestamp() <= times) & (times < draw.end.timestamp())
        if draw.application is not None:
            own = [n for n, group in enumerate(self.evaluated.groups) if group.application == draw.application]
            inside &= np.isin(groups, own)
        return np.flatnonzero(inside)
