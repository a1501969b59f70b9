"""`ragweir labels rate`: asks a person about the answers of a queue, one key for each."""

from __future__ import annotations

import getpass
import shlex
import signal
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ragweir.errors import PermanentError
from ragweir.schemas.label import QueuedAnswer
from ragweir.streams.analysis.labels.criteria import question_named
from ragweir.streams.analysis.labels.event_texts import EventTexts
from ragweir.streams.analysis.labels.kafka_texts import texts_in_kafka
from ragweir.streams.analysis.labels.on_topics import LabelTopic, read_topics
from ragweir.streams.analysis.labels.rating import Rating
from ragweir.streams.analysis.labels.rating_task import NAME_SCORED, TEXTS_DELETED, RatingTask, StoredRating
from ragweir.streams.analysis.labels.store import LabelFile, read_queue
from ragweir.streams.commands.app import STOPPED, err, out, settings, shared_flags
from ragweir.streams.commands.inputs import check_distinct
from ragweir.streams.commands.keys import Keys
from ragweir.streams.commands.options import MapFile
from ragweir.streams.commands.progress import Bars
from ragweir.streams.commands.rating_session import RatingSession
from ragweir.streams.commands.screens.asked_answer import AnswerScreen
from ragweir.streams.commands.stopping import Stop
from ragweir.streams.commands.wanted_events import kept_of
from ragweir.streams.services.shared.raters import fault_of_name, hashed_rater
from ragweir.streams.settings import Settings
from ragweir.streams.settings.labels import DEFAULT_LABEL_KEY


def rate(
    queue: Annotated[
        Path | None,
        typer.Argument(
            exists=True,
            dir_okay=False,
            show_default=False,
            help="Queue of answers, as `ragweir labels draw` writes it. Default: the draws on the topic labels.draws.",
        ),
    ] = None,
    events: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            help="File or folder of the interactions that were scored, with the texts. Required with a queue.",
        ),
    ] = None,
    to: Annotated[
        Path | None,
        typer.Option("--out", help="File of labels, to which the answers are added. Required with a queue."),
    ] = None,
    question: Annotated[
        str | None,
        typer.Option(help="Name of the question whose draws are read from Kafka. Default: the first of the settings."),
    ] = None,
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

    Without a queue the answers of all draws of `--question` are read from `labels.draws`, newest draw first, the texts
    from where evaluate read them, and each label is written to the topic `labels` before the next answer is shown. Any
    number of people may rate at the same time, each of whom gets the answers that nobody had labelled at the start.
    """
    effective = settings(input={"map": map_file})
    hashed = hashed_rater(_name(rater), effective.labels.key)
    stop = Stop()
    if queue is not None:
        if events is None or to is None:
            raise typer.BadParameter("--events and --out are required with a queue")
        if question is not None:
            raise typer.BadParameter("--question is for draws on Kafka: the answers of a queue name theirs")
        check_distinct(queue, events, to)
        draw, answers = read_queue(queue)
        with LabelFile(to) as file:
            has_map = map_file is not None
            ids = {each.event_id for each in answers}
            texts_of = partial(kept_of, effective, events, ids, stop, EventTexts.of, has_map=has_map)
            task = RatingTask(answers, file, f"{events}", texts_of, NAME_SCORED, partial(file.add_draw, draw))
            _rate(effective, task, hashed, stop, to, disagreed=disagreed)
    else:
        if events is not None or to is not None:
            raise typer.BadParameter("--events and --out are for a queue; name one, or leave them out for Kafka")
        own = effective.labels.questions[0] if question is None else question_named(effective.labels, question)
        with Bars() as bars:
            content = read_topics(effective, bars.shown)
        answers = content.answers(own.name)
        texts = partial(_texts_in_kafka, effective, answers)
        task = RatingTask(answers, LabelTopic(effective, content), "Kafka", texts, TEXTS_DELETED)
        _rate(effective, task, hashed, stop, None, disagreed=disagreed)
    if stop.cut:
        raise typer.Exit(STOPPED)


def _rate(effective: Settings, task: RatingTask, hashed: str, stop: Stop, to: Path | None, *, disagreed: bool) -> None:
    asked = task.questions(effective.labels)
    rating = Rating(task.answers, task.labels.content, hashed, asked, disagreed=disagreed)
    if rating.waits:
        with stop.listening(signal.SIGHUP):
            texts = task.texts()
            if stop.cut:
                err.say(f"stopped before {task.source} was read to its end; nothing is written")
                raise typer.Exit(STOPPED)
            if not texts:
                raise PermanentError(task.none_found)
            lost = rating.keep(texts)
            task.begin()
            notes, screen = list(_notes(effective, lost, task.source)), AnswerScreen(out)
            for note in notes:
                err.say(note)
            with Keys() as keys, out.screen() if screen.is_paged else nullcontext():
                messages = notes if screen.is_paged else ()
                RatingSession(StoredRating(rating, task.labels), texts, asked, keys, screen, messages).run(stop)
    _report(rating, task.labels, to, disagreed=disagreed)


def _texts_in_kafka(effective: Settings, answers: Sequence[QueuedAnswer]) -> dict[str, EventTexts]:
    with Bars() as bars:
        return texts_in_kafka(effective, answers, bars.shown)


def _name(rater: str | None) -> str:
    try:
        name = getpass.getuser() if rater is None else rater
    except (OSError, KeyError):
        raise typer.BadParameter("--rater is required, as this user has no login name") from None
    if fault := fault_of_name(name):
        raise typer.BadParameter(f"the name of the rater {fault}; --rater takes up to 200 characters")
    return name


def _notes(effective: Settings, lost: int, source: str) -> Iterator[str]:
    if lost:
        yield f"{source} lacks the text of {lost:,} of the answers, which are labelled cannot_tell in your place."
    if effective.labels.key == DEFAULT_LABEL_KEY:
        yield "labels.key is the default, with which raters can be guessed from their hashes; set RAGWEIR_LABELS__KEY."


def _report(rating: Rating, labels: LabelFile | LabelTopic, to: Path | None, *, disagreed: bool) -> None:
    if not rating.total:
        what = "on which two raters disagree" if disagreed else "that is asked of this rater"
        err.say(f"there is no answer {what}")
    elif rating.present is not None:
        err.say(f"{rating.answered:,} of {rating.total:,} answered; the same command goes on")
    else:
        err.say(f"all {rating.total:,} answered")
    if rating.present is None and labels.content.labels:
        files = [str(to), "--evaluations", "FILE"] if to else []
        err.say(f"next: {shlex.join(['ragweir', *shared_flags(), 'labels', 'report', *files])}")
