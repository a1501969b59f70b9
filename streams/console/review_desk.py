"""The desk at which people label: who is asked about which answer, and what their buttons do."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from threading import Lock

from ragweir.errors import PermanentError
from ragweir.schemas.label import QueuedAnswer
from ragweir.streams.analysis.labels.event_texts import EventTexts
from ragweir.streams.analysis.labels.rating import Rating, choices
from ragweir.streams.analysis.labels.rating_task import RatingTask, StoredRating
from ragweir.streams.runtime.machine import machine
from ragweir.streams.services.shared.raters import hashed_rater
from ragweir.streams.settings import Settings
from ragweir.streams.settings.labels import Question

_MOST_PEOPLE = 256
"""People whose place in the queue is remembered; the one who was seen least recently is forgotten first."""
_STALE_S = 30.0
"""Time after which a person who has labelled all looks for a newer queue."""
_MARK_BYTES = 16
_SLOWEST_S = 3_600.0
"""Time after which an answer counts as one to which the person came back, of which no time is known."""


@dataclass(frozen=True, slots=True)
class ShownAnswer:
    """The content of the page; nothing in it depends on a score, a judge or another person."""

    answered: int
    total: int
    answer: QueuedAnswer | None
    """The answer; None after the last one."""
    question: Question | None
    texts: EventTexts | None
    message: str
    """The effect of the person's last button."""
    last: str | None
    """Id of the event that the person labelled last."""
    is_blind: bool = True
    """False if the person may have seen scores of the answer on another page."""

    @property
    def mark(self) -> str:
        """The mark of the answer in a form, which gives ids back otherwise where they have line ends or controls."""
        return _mark(self.answer) if self.answer else ""


@dataclass(slots=True)
class _Place:
    """The place of a person in the queue."""

    stored: StoredRating
    labels: int
    """The number of labels of all people when the place was found."""
    skipped: dict[tuple[str, str], None] = field(default_factory=dict)
    shown: tuple[str, float] | None = None
    """The mark of the answer that is shown, and since when."""
    message: str = ""
    last: str | None = None


class ReviewDesk:
    """Asks people about the answers of a queue, as `ragweir labels rate` does, each at a place of their own.

    Args:
        settings: all settings.
        find: finds the queue; None if there is none yet. It is called until there is one, and again by people who have
            labelled all of it.
        has_seen: returns true if a person may have seen scores of an answer.
    """

    def __init__(
        self,
        settings: Settings,
        find: Callable[[], RatingTask | None],
        has_seen: Callable[[str, QueuedAnswer], bool],
    ) -> None:
        self._settings, self._find, self._has_seen = settings, find, has_seen
        self._lock = Lock()
        self._task: RatingTask | None = None
        self._found_s = 0.0
        self._texts: Mapping[str, EventTexts] = {}
        self._questions: Mapping[str, Question] = {}
        self._places: OrderedDict[str, _Place] = OrderedDict()
        self._labels = 0
        """The number of labels that were stored here."""

    def may_label(self, person: str) -> bool:
        """Return whether a person may label, by `console.label_users`."""
        return not (own := self._settings.console.label_users) or person in own

    def show(self, person: str) -> ShownAnswer | None:
        """Return what a person sees; None if there is no queue yet.

        Raises:
            RagweirError: if the queue, the texts or the labels cannot be read or written.
        """
        with self._lock:
            place = self._place(person)
            return None if place is None else self._shown(person, place)

    def answer(self, person: str, mark: str, choice: str) -> None:
        """Store the label of the answer that is shown to a person.

        Args:
            person: the person's name.
            mark: the mark of the answer. If another one is shown meanwhile, nothing is stored.
            choice: key of the choice.

        Raises:
            RagweirError: if the label cannot be stored.
        """
        with self._lock:
            if (place := self._place(person)) is None or (present := self._present(place, mark)) is None:
                return
            chosen = next((each for each in choices(self._questions[present.question]) if each.key == choice), None)
            if chosen is None:
                place.message = "This is no answer to the question."
                return
            blind = not self._has_seen(person, present)
            place.stored.answer(chosen, machine.now(), self._seconds(place, mark), blind=blind)
            self._on_stored(place, f"Saved: {chosen.name}.", present.event_id)

    def skip(self, person: str, mark: str) -> None:
        """Ask a person about the answer that is shown again after all others."""
        with self._lock:
            if (place := self._place(person)) is not None and (present := self._present(place, mark)) is not None:
                place.stored.rating.skip()
                key = present.event_id, present.question
                place.skipped.pop(key, None)
                place.skipped[key] = None
                place.message = "Skipped: it is asked again after all others."

    def undo(self, person: str) -> None:
        """Take a person's last label back.

        Raises:
            RagweirError: if this cannot be stored.
        """
        with self._lock:
            if (place := self._place(person)) is None:
                return
            if place.stored.undo(machine.now()):
                self._on_stored(place, "Taken back: the last answer is asked again.", None)
            else:
                place.message = "There is nothing to undo."

    def _on_stored(self, place: _Place, message: str, last: str | None) -> None:
        self._labels += 1
        place.labels += 1
        place.message, place.last = message, last

    def _present(self, place: _Place, mark: str) -> QueuedAnswer | None:
        """Return the answer that is shown, if it is the one of a form."""
        present = place.stored.ask(machine.now())
        if present is None or _mark(present) != mark:
            place.message = "Nothing is saved: this answer was labelled on another tab, or taken out of the queue."
            return None
        return present

    def _seconds(self, place: _Place, mark: str) -> float:
        shown, since_s = place.shown or (mark, machine.monotonic())
        return round(min(machine.monotonic() - since_s, _SLOWEST_S), 3) if shown == mark else 0.0

    def _shown(self, person: str, place: _Place) -> ShownAnswer:
        present = place.stored.ask(machine.now())
        if present is None and machine.monotonic() - self._found_s > _STALE_S:
            self._task = None
            self._places.clear()
        rating, message, place.message = place.stored.rating, place.message, ""
        if present is not None and (place.shown is None or place.shown[0] != _mark(present)):
            place.shown = _mark(present), machine.monotonic()
        return ShownAnswer(
            answered=rating.answered,
            total=rating.total,
            answer=present,
            question=self._questions[present.question] if present else None,
            texts=self._texts[present.event_id] if present else None,
            message=message,
            last=place.last,
            is_blind=present is None or not self._has_seen(person, present),
        )

    def _place(self, person: str) -> _Place | None:
        """Return the place of a person, found again if others have labelled meanwhile."""
        if (task := self._opened()) is None:
            return None
        before = self._places.pop(person, None)
        if before is not None and before.labels == self._labels:
            self._places[person] = before
            return before
        rater = hashed_rater(person, self._settings.labels.key)
        skipped = before.skipped if before else {}
        rating = Rating(task.answers, task.labels.content, rater, self._questions, skipped=skipped)
        rating.keep(self._texts)
        place = _Place(StoredRating(rating, task.labels), self._labels, skipped)
        if before is not None:
            place.shown, place.message, place.last = before.shown, before.message, before.last
        self._places[person] = place
        if len(self._places) > _MOST_PEOPLE:
            self._places.popitem(last=False)
        return place

    def _opened(self) -> RatingTask | None:
        if self._task is None and (task := self._find()) is not None:
            questions, texts = task.questions(self._settings.labels), task.texts()
            if not texts:
                raise PermanentError(task.none_found)
            task.begin()
            self._questions, self._texts, self._task = questions, texts, task
            self._found_s = machine.monotonic()
        return self._task


def _mark(answer: QueuedAnswer) -> str:
    name = f"{answer.question}\n{answer.event_id}"
    return blake2b(name.encode(errors="surrogatepass"), digest_size=_MARK_BYTES).hexdigest()
