"""`ragweir labels rate`: asks a person about the answers of a queue, one key for each."""

from __future__ import annotations

import getpass
import shlex
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from ragweir.errors import PermanentError
from ragweir.schemas.label import Label
from ragweir.streams.analysis.labels.criteria import question_named
from ragweir.streams.analysis.labels.event_texts import EventTexts, TextsAgent
from ragweir.streams.analysis.labels.raters import fault_of_name, hashed_rater
from ragweir.streams.analysis.labels.rating import Rating, choices
from ragweir.streams.analysis.labels.store import LabelFile, read_queue
from ragweir.streams.commands.app import STOPPED, err, out, settings, shared_flags
from ragweir.streams.commands.inputs import check_distinct, read_inputs, total_size
from ragweir.streams.commands.keys import Keys
from ragweir.streams.commands.options import MapFile
from ragweir.streams.commands.progress import Bars, FileProgress
from ragweir.streams.commands.scored_files import ScoredFiles
from ragweir.streams.commands.screens.asked_answer import AnswerScreen
from ragweir.streams.commands.stopping import Stop
from ragweir.streams.runtime.machine import machine
from ragweir.streams.runtime.text.terminal import printable
from ragweir.streams.services.evaluate.from_settings import evaluate_config
from ragweir.streams.settings import Settings
from ragweir.streams.settings.labels import DEFAULT_LABEL_KEY, Question

_AT_END = "u   undo the last answer\nany other key leaves"
_PAGES = {" ": 1, "down": 1, "b": -1, "up": -1}


def rate(
    queue: Annotated[
        Path, typer.Argument(exists=True, dir_okay=False, help="Queue of answers, as `ragweir labels draw` writes it.")
    ],
    events: Annotated[
        Path,
        typer.Option(exists=True, help="File or folder of the interactions that were scored, with the texts."),
    ],
    to: Annotated[Path, typer.Option("--out", help="File of labels, to which the answers are added.")],
    rater: Annotated[
        str | None,
        typer.Option(help="Name of the person who answers; stored as a keyed hash. Default: the login name."),
    ] = None,
    disagreed: Annotated[
        bool, typer.Option("--disagreed", help="Ask a third person about the answers on which two disagree.")
    ] = False,
    map_file: MapFile = None,
) -> None:
    """Ask about the answers of a queue in the terminal, one key for each, and add them to a file of labels.

    Each screen has the question, the query of the user, the answer and the passages: `y` or `n` answers, or a number
    where the question has steps or names; `c` is cannot tell, `u` undoes, `s` skips for now, space turns the page, `q`
    leaves, `?` explains the keys. Without a terminal the keys are read from standard input.

    The rater is blind: scores, the judge and marks are not shown, since a rater who has seen them tends to agree with
    them. `ragweir labels report` compares them with the answers afterwards.

    Each answer is on disk before the next one is shown, so that nothing is lost by Ctrl-C or a crash: the same command
    goes on with the next answer. The queue is in random order, so that rating may end at any time. Answers that `draw
    --double` marks are asked of two people, each with a `--rater` of their own; `--disagreed` asks a third about those
    on which the two disagree.

    `--events` names what `ragweir score` read, with the same `--map`. It is read once. An answer whose text is not
    there counts as one that nobody can tell, which widens the limits of the report.
    """
    effective = settings(input={"map": map_file})
    hashed = hashed_rater(_name(rater), effective.labels.key)
    check_distinct(queue, events, to)
    draw, answers = read_queue(queue)
    asked = {name: question_named(effective.labels, name) for name in dict.fromkeys(each.question for each in answers)}
    stop = Stop()
    with LabelFile(to) as file:
        rating = Rating(answers, file.content, hashed, asked, disagreed=disagreed)
        if rating.waits:
            with stop.listening(signal.SIGHUP):
                ids = {each.event_id for each in answers}
                texts = _texts(effective, events, ids, stop, has_map=map_file is not None)
                if stop.cut:
                    err.say(f"stopped before {events} was read to its end; nothing is written")
                    raise typer.Exit(STOPPED)
                if not texts:
                    raise PermanentError(
                        f"{events} has none of the {len(ids):,} events of {queue}: name the file that was scored, and "
                        "by --map the map that it was read through"
                    )
                lost = rating.keep(texts)
                file.add_draw(draw)
                notes, screen = list(_notes(effective, lost, events)), AnswerScreen(out)
                for note in notes:
                    err.say(note)
                with Keys() as keys, out.screen() if screen.is_paged else nullcontext():
                    _Session(rating, file, texts, asked, keys, screen, notes if screen.is_paged else ()).run(stop)
        _report(rating, file, to, disagreed=disagreed)
    if stop.cut:
        raise typer.Exit(STOPPED)


def _name(rater: str | None) -> str:
    try:
        name = getpass.getuser() if rater is None else rater
    except (OSError, KeyError):
        raise typer.BadParameter("--rater is required, as this user has no login name") from None
    if fault := fault_of_name(name):
        raise typer.BadParameter(f"the name of the rater {fault}; --rater takes up to 200 characters")
    return name


def _texts(effective: Settings, events: Path, ids: set[str], stop: Stop, *, has_map: bool) -> dict[str, EventTexts]:
    """Return the texts of events by id, read as `ragweir score` reads them."""
    found: dict[str, EventTexts] = {}
    inputs = read_inputs(events)
    config = evaluate_config(effective, events.name, is_file=True)
    with Bars() as bars, inputs[0].open() as first:
        progress = FileProgress(bars, f"Reading {events.name}", total_size(inputs))
        files = ScoredFiles(
            inputs,
            config,
            stop,
            progress,
            events,
            effective,
            has_map=has_map,
            agent_of=lambda own: TextsAgent(own, ids, found),
        )
        for _ in files.run(first):
            pass
    if files.problems:
        raise PermanentError(f"{files.problems[0]}; without the rest of its events nothing is asked")
    return found


def _notes(effective: Settings, lost: int, events: Path) -> Iterator[str]:
    if lost:
        yield f"{events} lacks the text of {lost:,} of the answers, which are labelled cannot_tell in your place."
    if effective.labels.key == DEFAULT_LABEL_KEY:
        yield "labels.key is the default, with which raters can be guessed from their hashes; set RAGWEIR_LABELS__KEY."


def _report(rating: Rating, file: LabelFile, to: Path, *, disagreed: bool) -> None:
    if not rating.total:
        what = "on which two raters disagree" if disagreed else "that is asked of this rater"
        err.say(f"there is no answer {what}")
    elif rating.present is not None:
        err.say(f"{rating.answered:,} of {rating.total:,} answered; the same command goes on")
    else:
        err.say(f"all {rating.total:,} answered")
    if rating.present is None and file.content.labels:
        line = ["ragweir", *shared_flags(), "labels", "report", str(to), "--evaluations", "FILE"]
        err.say(f"next: {shlex.join(line)}")


@dataclass(slots=True)
class _Session:
    """Shows answers, and stores what the keys say."""

    rating: Rating
    file: LabelFile
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
        for label in self.rating.gone(machine.now()):
            self._store(label)
        self.messages = self.messages if message is None else (message,)
        answer = self.rating.present
        if answer is not None:
            self.screen.open(self.texts[answer.event_id])
        if answer is not None or self.keys.of_terminal:
            self.keys.forget()
            self._draw()
            self._shown_s = machine.monotonic()
            return True
        return False

    def _draw(self) -> None:
        rating = self.rating
        if self._in_help:
            self.screen.draw_help()
        elif (answer := rating.present) is not None:
            progress = f"{rating.answered + 1:,} of {rating.total:,}"
            self.screen.draw(progress, self.questions[answer.question], self.messages)
        else:
            self.screen.draw_text("\n".join((*self.messages, f"all {rating.total:,} answered", "", _AT_END)))

    def _press(self, key: str) -> bool:
        """Do what a key says; return false if the rater leaves, or all is answered."""
        answer = self.rating.present
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
            self.rating.skip()
            return self._ask("skipped: it is asked again after all others")
        elif (pages := _PAGES.get(key)) is not None:
            self.screen.turn(pages)
            self.messages = ()
            self._draw()
        else:
            chosen = next((each for each in choices(self.questions[answer.question]) if each.key == key), None)
            if chosen is not None:
                seconds = round(machine.monotonic() - self._shown_s, 3)
                self._store(self.rating.label(chosen.value, machine.now(), seconds))
                return self._ask(f"saved: {chosen.name}")
            self.messages = (f"{printable(key)} is no key here",)
            self._draw()
        return True

    def _undo(self) -> bool:
        if (label := self.rating.undo(machine.now())) is None:
            self.messages = ("there is nothing to undo",)
            self._draw()
            return True
        self._store(label)
        return self._ask("taken back: the last answer is asked again")

    def _store(self, label: Label) -> None:
        self.file.add(label)
        self.rating.stored(label)
