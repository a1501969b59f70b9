"""A session of rating at a terminal: shows answers one after the other, and stores the labels that the keys give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ragweir.streams.analysis.labels.event_texts import EventTexts
from ragweir.streams.analysis.labels.rating import choices
from ragweir.streams.analysis.labels.rating_task import StoredRating
from ragweir.streams.commands.keys import Keys
from ragweir.streams.commands.screens.asked_answer import AnswerScreen
from ragweir.streams.commands.stopping import Stop
from ragweir.streams.runtime.machine import machine
from ragweir.streams.runtime.text.terminal import printable
from ragweir.streams.settings.labels import Question

_AT_END = "u   undo the last answer\nany other key leaves"
_PAGES = {" ": 1, "down": 1, "b": -1, "up": -1}


@dataclass(slots=True)
class RatingSession:
    """Shows answers, and stores what the keys say."""

    stored: StoredRating
    texts: Mapping[str, EventTexts]
    questions: Mapping[str, Question]
    keys: Keys
    screen: AnswerScreen
    messages: Sequence[str] = ()
    """Sentences that the screen shows below the texts."""
    _in_help: bool = False
    _shown_s: float = 0.0
    """The time at which the present answer was shown."""

    def run(self, stop: Stop) -> None:
        """Ask until all is answered, the rater leaves, or the input ends."""
        self.keys.on_changed = self._draw
        if self._ask():
            for key in stop.ending(iter(self.keys)):
                if not self._press(key.casefold()):
                    return

    def _ask(self, message: str | None = None) -> bool:
        """Show the next answer; return false if there is none, and no person who might undo the last one."""
        answer = self.stored.ask(machine.now())
        self.messages = self.messages if message is None else (message,)
        if answer is not None:
            self.screen.open(self.texts[answer.event_id])
        if answer is not None or self.keys.of_terminal:
            self.keys.forget()
            self._draw()
            self._shown_s = machine.monotonic()
            return True
        return False

    def _draw(self) -> None:
        rating = self.stored.rating
        if self._in_help:
            self.screen.draw_help()
        elif (answer := rating.present) is not None:
            progress = f"{rating.answered + 1:,} of {rating.total:,}"
            self.screen.draw(progress, self.questions[answer.question], self.messages)
        else:
            self.screen.draw_text("\n".join((*self.messages, f"all {rating.total:,} answered", "", _AT_END)))

    def _press(self, key: str) -> bool:
        """Do what a key says; return false if the rater leaves, or all is answered."""
        answer = self.stored.rating.present
        if self._in_help:
            self._in_help = False
            self._draw()
        elif key == "u":
            return self._undo()
        elif key == "q" or answer is None:
            return False
        elif key == "?":
            self._in_help = True
            self._draw()
        elif key == "s":
            self.stored.rating.skip()
            return self._ask("skipped: it is asked again after all others")
        elif (pages := _PAGES.get(key)) is not None:
            self.screen.turn(pages)
            self.messages = ()
            self._draw()
        else:
            chosen = next((each for each in choices(self.questions[answer.question]) if each.key == key), None)
            if chosen is not None:
                seconds = round(machine.monotonic() - self._shown_s, 3)
                self.stored.answer(chosen, machine.now(), seconds)
                return self._ask(f"saved: {chosen.name}")
            self.messages = (f"{printable(key)} is no key here",)
            self._draw()
        return True

    def _undo(self) -> bool:
        if not self.stored.undo(machine.now()):
            self.messages = ("there is nothing to undo",)
            self._draw()
            return True
        return self._ask("taken back: the last answer is asked again")
