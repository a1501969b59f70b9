"""Rating: the answers of a queue that one person is asked about, one after the other, and the labels that this gives.

A label counts once it is stored: `Rating` makes it, its caller stores it, and `Rating.stored` goes on to the next.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from ragweir.schemas.label import CANNOT_TELL, WITHDRAWN, Label, QueuedAnswer
from ragweir.streams.analysis.labels.store import PeopleLabels
from ragweir.streams.settings.labels import NO, YES, Question

TEXT_GONE = "text_gone"
"""The reason of a label for an answer whose text nobody can read any more."""
_Asked = tuple[str, str]
"""Event id and question."""


class Choice(NamedTuple):
    """A possible answer to a question."""

    key: str
    """The key that gives it."""
    name: str
    value: bool | str


def choices(question: Question) -> tuple[Choice, ...]:
    """Return the possible answers to a question.

    >>> [each.key for each in choices(Question(name="supported", text="?", metric="unsupported_risk"))]
    ['y', 'n', 'c']
    """
    own = (
        (Choice("y", YES, value=True), Choice("n", NO, value=False))
        if question.scale == "binary"
        else tuple(Choice(str(number), name, name) for number, name in enumerate(question.values, 1))
    )
    return *own, Choice("c", "cannot tell", CANNOT_TELL)


class Rating:
    """The answers of a queue that a rater is asked about, in the queue's order.

    An answer is asked of as many raters as its line says, and of a rater once. Labels that come from no draw, such as
    imported ones, do not count, since the report weights the drawn ones alone.

    Args:
        queue: the answers.
        given: the labels so far.
        rater: hash of the rater's name.
        questions: the questions of the queue by name.
        disagreed: True to ask a third rater about the answers on which two disagree, and about no others.
        skipped: event ids and questions of answers that are asked after all others, in this order.
    """

    def __init__(
        self,
        queue: Sequence[QueuedAnswer],
        given: PeopleLabels,
        rater: str,
        questions: Mapping[str, Question],
        *,
        disagreed: bool = False,
        skipped: Iterable[tuple[str, str]] = (),
    ) -> None:
        self._rater, self._questions = rater, questions
        labels: dict[_Asked, list[Label]] = defaultdict(list)
        self._labelled = {(label.event_id, label.question) for label in given.current()}
        for label in given.current():
            if label.draw is not None and label.why != TEXT_GONE:
                labels[label.event_id, label.question].append(label)
        self._waiting: dict[_Asked, QueuedAnswer] = {}
        own: dict[_Asked, QueuedAnswer] = {}
        for answer in queue:
            key = answer.event_id, answer.question
            is_own, others = self._own_and_others(labels[key])
            if self._two_disagree(answer, others) if disagreed else is_own or len(others) < answer.raters:
                (own if is_own else self._waiting)[key] = answer
        for key in skipped:
            if key in self._waiting:
                self._waiting[key] = self._waiting.pop(key)
        mine = [(label.event_id, label.question) for label in given.current() if label.rater == rater]
        self._answered = {key: own[key] for key in mine if key in own}
        """The answers that the rater has labelled, in the order of the labels."""
        self._lost: set[_Asked] = set()

    def _own_and_others(self, labels: Sequence[Label]) -> tuple[bool, list[Label]]:
        """Return whether the rater is among those of an answer, and the labels of the others, before the own one."""
        own = next((place for place, label in enumerate(labels) if label.rater == self._rater), None)
        return own is not None, list(labels[:own])

    def _two_disagree(self, answer: QueuedAnswer, labels: Sequence[Label]) -> bool:
        question = self._questions[answer.question]
        said = [bad for label in labels if (bad := question.is_bad(label.value)) is not None]
        return len(said) > 1 and 2 * sum(said) == len(said)

    @property
    def present(self) -> QueuedAnswer | None:
        """The answer that is asked about; None after the last one."""
        return next((answer for key, answer in self._waiting.items() if key not in self._lost), None)

    @property
    def answered(self) -> int:
        """Number of answers that the rater has labelled."""
        return len(self._answered)

    @property
    def total(self) -> int:
        """Number of answers that the rater is asked about, without those whose text is gone."""
        return len(self._answered) + sum(key not in self._lost for key in self._waiting)

    @property
    def waits(self) -> bool:
        """True if an answer waits for its label, even one whose text is gone."""
        return bool(self._waiting)

    def keep(self, with_text: Container[str]) -> int:
        """Ask about the events of these ids alone; return the number of answers whose text is gone."""
        self._lost = {key for each in (self._waiting, self._answered) for key in each if key[0] not in with_text}
        gone = [key for key in self._waiting if key in self._lost]
        for key in gone:
            if key in self._labelled:  # It counts as unanswered already.
                del self._waiting[key]
        return len(gone)

    def gone(self, time: datetime) -> Iterator[Label]:
        """Yield the labels of the answers before the present one whose text is gone.

        They are stored when their turn comes: among the answers that are rated if rating ends early, their share is
        that of the whole queue.
        """
        for key, answer in list(self._waiting.items()):
            if key not in self._lost:
                return
            yield self._label(answer, CANNOT_TELL, time).model_copy(update={"why": TEXT_GONE})

    def label(self, value: bool | str, time: datetime, seconds: float, *, blind: bool = True) -> Label:  # noqa: FBT001
        """Return the label of the present answer, to be stored.

        Args:
            value: the rater's answer.
            time: time of the answer.
            seconds: time that the rater took.
            blind: false if the rater may have seen a score of it before.

        Raises:
            ValueError: if there is none.
        """
        if (answer := self.present) is None:
            raise ValueError("all answers are labelled")
        return self._label(answer, value, time).model_copy(update={"seconds": seconds, "blind": blind})

    def undo(self, time: datetime) -> Label | None:
        """Return the label that takes the rater's last one back, to be stored; None if there is none to take back."""
        last = next((answer for key, answer in reversed(self._answered.items()) if key not in self._lost), None)
        return None if last is None else self._label(last, WITHDRAWN, time)

    def stored(self, label: Label) -> None:
        """Go on after a label was stored; one that was taken back is asked again."""
        key = label.event_id, label.question
        if label.value == WITHDRAWN:
            self._waiting = {key: self._answered.pop(key), **self._waiting}
        elif label.why == TEXT_GONE:
            del self._waiting[key]
        else:
            self._answered[key] = self._waiting.pop(key)

    def skip(self) -> None:
        """Ask about the present answer again after all others."""
        if (answer := self.present) is not None:
            key = answer.event_id, answer.question
            self._waiting[key] = self._waiting.pop(key)

    def _label(self, answer: QueuedAnswer, value: bool | str, time: datetime) -> Label:  # noqa: FBT001 - an answer
        return Label(
            event_id=answer.event_id,
            question=answer.question,
            value=value,
            rater=self._rater,
            kind="expert",
            blind=True,
            time=time,
            draw=answer.draw,
            judged=answer.judged,
            event_time=answer.event_time,
            dimensions=answer.dimensions,
        )
