"""A simulated rater for the demo: labels drawn answers, of which it knows the bad ones, and errs now and then."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import cache
from hashlib import blake2b

from ragweir.schemas.label import CANNOT_TELL, Label
from ragweir.streams.analysis.evaluation_source import ShowProgress
from ragweir.streams.analysis.labels.criteria import criteria
from ragweir.streams.analysis.labels.drawing import draw
from ragweir.streams.analysis.labels.event_texts import EventTexts
from ragweir.streams.analysis.labels.kafka_texts import texts_in_kafka
from ragweir.streams.analysis.labels.on_topics import DrawWriter, LabelTopic, evaluated_since, read_topics
from ragweir.streams.analysis.labels.report import LabelReport, report
from ragweir.streams.playground.demo.samples import QUESTIONS, samples
from ragweir.streams.runtime.machine import machine
from ragweir.streams.services.shared.from_settings import known_catalogue
from ragweir.streams.services.shared.raters import hashed_rater
from ragweir.streams.settings import Settings

ANSWERS = 40
"""Number of answers that are labelled, if there are as many."""
RATER = "simulated rater"
ERRS_OF = 12
"""One answer in this number is labelled wrongly."""
_SECONDS = 6.0


@cache
def ungrounded() -> frozenset[str]:
    """Return the answers of the samples that say what no passage says."""
    names = {f"{question}-v2" for question in QUESTIONS}
    return frozenset(each["response"] for each in samples() if each["event_id"] in names)


def said(event_id: str, texts: EventTexts | None) -> bool | str:
    """Return whether the rater finds an answer supported by its passages, by its texts.

    >>> sample = next(each for each in samples() if each["event_id"] == f"{QUESTIONS[0]}-v2")
    >>> said("2", EventTexts(sample["query"], sample["response"], None)), said("2", None)
    (False, 'cannot_tell')
    """
    if texts is None:
        return CANNOT_TELL
    digest = blake2b(event_id.encode(), digest_size=4).digest()
    errs = int.from_bytes(digest) % ERRS_OF == 0
    return (texts.response in ungrounded()) is errs


def labelled(settings: Settings, since: datetime, progress: ShowProgress) -> LabelReport:
    """Draw answers of the demo's traffic, let the rater label them on the topics, and return the report.

    Args:
        settings: the demo's.
        since: begin of the traffic.
        progress: shows the progress of reading.

    Raises:
        PermanentError, Unreachable: as the functions of `ragweir labels`.
    """
    question = settings.labels.questions[0]
    # The judge's budget is so small here that too many of its answers are missing for a number.
    own = [each for each in criteria(question, known_catalogue(settings).metrics) if each.suite is None]
    writer = DrawWriter(settings)
    evaluated, _ = evaluated_since(settings, own, since, progress)
    drawn = draw(evaluated, 0, question.name, ANSWERS, None, 0.0, machine.randomness, machine.now())
    writer.write(drawn)
    topic = LabelTopic(settings, read_topics(settings, progress))
    topic.add_draw(drawn.draw)
    texts = texts_in_kafka(settings, drawn.answers, progress)
    rater, now = hashed_rater(RATER, settings.labels.key), machine.now()
    topic.add(
        *(
            Label(
                event_id=each.event_id,
                question=each.question,
                value=said(each.event_id, texts.get(each.event_id)),
                rater=rater,
                kind="expert",
                blind=True,
                time=now + timedelta(seconds=_SECONDS * number),
                seconds=_SECONDS,
                draw=each.draw,
                judged=each.judged,
                event_time=each.event_time,
                dimensions=each.dimensions,
            )
            for number, each in enumerate(drawn.answers)
        )
    )
    return report(topic.content, [(question, own)])
