"""A simulated rater for the demo: labels drawn answers by what is known of their samples, and errs now and then."""

from __future__ import annotations

from datetime import datetime, timedelta
from hashlib import blake2b

from ragweir.schemas.label import CANNOT_TELL, Label, QueuedAnswer
from ragweir.streams.analysis.evaluation_source import ShowProgress
from ragweir.streams.analysis.labels.criteria import criteria
from ragweir.streams.analysis.labels.drawing import draw
from ragweir.streams.analysis.labels.on_topics import DrawWriter, LabelTopic, evaluated_since, read_topics
from ragweir.streams.analysis.labels.report import LabelReport, report
from ragweir.streams.playground.demo.samples import QUESTIONS
from ragweir.streams.runtime.machine import machine
from ragweir.streams.services.shared.from_settings import known_catalogue
from ragweir.streams.services.shared.raters import hashed_rater
from ragweir.streams.settings import Settings

ANSWERS = 40
"""Number of answers that are labelled."""
RATER = "simulated rater"
ERRS_OF = 12
"""One answer in this number is labelled wrongly."""
_SAMPLE = "labels.sample"
_SECONDS = 6.0
_UNGROUNDED = frozenset(f"{question}-v2" for question in QUESTIONS)
"""The samples whose answers say what no passage says."""


def said(answer: QueuedAnswer) -> bool | str:
    """Return whether the rater finds an answer supported by its passages; it is told of the sample, and sees no score.

    >>> from ragweir.schemas.label import LabelDraw, LabelledScore
    >>> score = LabelledScore(metric="unsupported_risk", value=0.9, bad=True, probability=1)
    >>> own = {"question": "supported", "draw": LabelDraw(id="d", probability=1), "judged": score}
    >>> [said(QueuedAnswer(event_id="2", dimensions={"labels.sample": f"{name}-v2"}, **own)) for name in QUESTIONS[:1]]
    [False]
    """
    sample = answer.dimensions.get(_SAMPLE)
    if sample is None:
        return CANNOT_TELL
    errs = blake2b(answer.event_id.encode(), digest_size=4).digest()
    return (sample in _UNGROUNDED) is (int.from_bytes(errs) % ERRS_OF == 0)


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
    windows = settings.windows.model_copy(update={"dimensions": (*settings.windows.dimensions, _SAMPLE)})
    writer = DrawWriter(settings)
    evaluated, _ = evaluated_since(settings.model_copy(update={"windows": windows}), own, since, progress)
    drawn = draw(evaluated, 0, question.name, ANSWERS, None, 0.0, machine.randomness, machine.now())
    writer.write(drawn)
    topic = LabelTopic(settings, read_topics(settings, progress))
    topic.add_draw(drawn.draw)
    rater, now = hashed_rater(RATER, settings.labels.key), machine.now()
    topic.add(
        *(
            Label(
                event_id=each.event_id,
                question=each.question,
                value=said(each),
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
