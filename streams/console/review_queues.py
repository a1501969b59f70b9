"""The answers that people label on pages: those of the newest draws on Kafka, and the texts that may be seen."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

from ragweir.errors import PermanentError
from ragweir.schemas.interaction import Interaction
from ragweir.schemas.label import QueuedAnswer
from ragweir.streams.analysis.evidence.shown_texts import ShownTexts
from ragweir.streams.analysis.labels.event_texts import EventTexts
from ragweir.streams.analysis.labels.kafka_texts import kept_in_kafka
from ragweir.streams.analysis.labels.on_topics import LabelTopic, TopicLabels, read_topics
from ragweir.streams.analysis.labels.rating_task import TEXTS_DELETED, RatingTask
from ragweir.streams.analysis.originals import Original
from ragweir.streams.runtime.kafka.reader import OnProgress
from ragweir.streams.settings import Settings


def seen_by_raters(texts: ShownTexts) -> Callable[[Interaction], EventTexts | None]:
    """Return a function that returns the texts of an event as `console.texts` lets them be seen.

    It raises PermanentError for an event whose texts may not be seen: its answer does not count as one without texts.
    """

    def seen(event: Interaction) -> EventTexts | None:
        shown = texts.of(Original(event, "", ""))
        if shown.interaction is None:
            raise PermanentError(f"labelling needs the texts of answers, and {shown.why}")
        return EventTexts.of(shown.interaction)

    return seen


def topic_queue(settings: Settings, texts: ShownTexts) -> RatingTask | None:
    """Return the answers of the newest draw of each question; None if there is none.

    Raises:
        Unreachable: if no broker answers.
        PermanentError: if there are no such topics.
    """
    content = read_topics(settings, _silently)
    answers = [answer for question in settings.labels.questions for answer in _newest(content, question.name)]
    if not answers:
        return None
    sources = {answer.event_id: answer.source for answer in answers}

    def read() -> dict[str, EventTexts]:
        return kept_in_kafka(settings, sources, seen_by_raters(texts), _silently)

    return RatingTask(answers, LabelTopic(settings, content), "Kafka", read, TEXTS_DELETED)


def _newest(content: TopicLabels, question: str) -> list[QueuedAnswer]:
    draws = [draw for draw in content.draws.values() if draw.question == question]
    return content.queue(max(draws, key=lambda draw: draw.made_at).id) if draws else []


def _silently(_: str, __: int) -> nullcontext[OnProgress]:
    return nullcontext(lambda _: None)
