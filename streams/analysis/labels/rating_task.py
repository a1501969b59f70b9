"""Rating with its store: what the keys of a terminal and the buttons of a page do, which both call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from ragweir.schemas.label import Label, QueuedAnswer
from ragweir.streams.analysis.labels.criteria import question_named
from ragweir.streams.analysis.labels.event_texts import EventTexts
from ragweir.streams.analysis.labels.on_topics import LabelTopic
from ragweir.streams.analysis.labels.rating import Choice, Rating
from ragweir.streams.analysis.labels.store import LabelFile
from ragweir.streams.settings import LabelSettings
from ragweir.streams.settings.labels import Question

NAME_SCORED = "name the file that was scored, and by --map the map that it was read through"
TEXTS_DELETED = "it no longer holds their texts; draw again (ragweir labels draw)"
"""Advice on files and on topics."""


@dataclass(frozen=True, slots=True)
class RatingTask:
    """The answers that people are asked about, and the place of their labels."""

    answers: Sequence[QueuedAnswer]
    labels: LabelFile | LabelTopic
    source: str
    """The name of the place of the texts, for messages."""
    texts: Callable[[], Mapping[str, EventTexts]]
    """Reads the texts of the answers, by event id."""
    advice: str
    """Advice to the person if it has none of them."""
    begin: Callable[[], None] = lambda: None
    """Called before the first label."""

    @property
    def none_found(self) -> str:
        """The sentence for texts of which there are none, as those of another file: no answer counts as gone then."""
        number = len({each.event_id for each in self.answers})
        return f"{self.source} has none of the {number:,} events of the queue: {self.advice}"

    def questions(self, settings: LabelSettings) -> dict[str, Question]:
        """Return the questions of the answers by name.

        Raises:
            ConfigurationError: if the settings have no question of a name.
        """
        return {name: question_named(settings, name) for name in dict.fromkeys(each.question for each in self.answers)}


@dataclass(frozen=True, slots=True)
class StoredRating:
    """A rating whose labels are stored before it goes on."""

    rating: Rating
    labels: LabelFile | LabelTopic

    def ask(self, now: datetime) -> QueuedAnswer | None:
        """Return the answer that is asked about; None after the last one.

        Raises:
            PermanentError: if the label of an answer before it, whose text is gone, cannot be stored.
        """
        for label in self.rating.gone(now):
            self._store(label)
        return self.rating.present

    def answer(self, choice: Choice, now: datetime, seconds: float, *, blind: bool = True) -> None:
        """Store the label of the present answer.

        Args:
            choice: the rater's choice.
            now: time of the answer.
            seconds: time that the rater took.
            blind: false if the rater may have seen a score of it before.

        Raises:
            ValueError: if there is none.
            PermanentError: if the label cannot be stored; the answer is asked again.
        """
        self._store(self.rating.label(choice.value, now, seconds, blind=blind))

    def undo(self, now: datetime) -> bool:
        """Take the rater's last label back; return false if there is none.

        Raises:
            PermanentError: if this cannot be stored.
        """
        if (label := self.rating.undo(now)) is None:
            return False
        self._store(label)
        return True

    def _store(self, label: Label) -> None:
        self.labels.add(label)
        self.rating.stored(label)
