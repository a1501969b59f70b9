"""The check of people's labels: how many there are, and of what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from confluent_kafka import KafkaException

from ragweir.streams.analysis.checks.context import CheckContext, CheckWarning
from ragweir.streams.analysis.labels.on_topics import DRAWS, LABELS, TopicLabels, read_topics
from ragweir.streams.analysis.labels.report import UNKNOWN
from ragweir.streams.runtime.kafka.reader import OnProgress


def people(context: CheckContext) -> str:
    """Count the labels by question, and check that all records are readable and of questions of the settings."""
    for name in (LABELS, DRAWS):
        context.partitions(context.settings.output_topic(name))
    try:
        found = read_topics(context.settings, _quietly)
    except KafkaException as error:
        raise CheckWarning(f"not checked: Kafka lets this user read no labels: {error.args[0].str()}") from None
    return summary(found, [each.name for each in context.settings.labels.questions])


def summary(found: TopicLabels, questions: list[str]) -> str:
    """Return how many answers are labelled, by question, and the time of the newest label.

    Raises:
        CheckWarning: if some records are unreadable, or of questions that the settings do not have.
    """
    answers: dict[tuple[str, str], datetime] = {}
    for label in found.current():
        key = label.question, label.event_id
        answers[key] = max(label.time, answers.get(key, label.time))
    counts = Counter(question for question, _ in answers)
    if found.unreadable:
        raise CheckWarning(f"{found.unreadable:,} records of {LABELS} and {DRAWS} are no labels or draws")
    if unknown := sorted(counts.keys() - set(questions)):
        number = sum(counts[each] for each in unknown)
        are = "answer is" if number == 1 else "answers are"
        raise CheckWarning(
            f"{number:,} labelled {are} to questions that labels.questions does not have: {', '.join(unknown[:8])}"
        )
    if not counts:
        return f"{UNKNOWN}: no answer is labelled; `ragweir labels draw` begins"
    each = ", ".join(f"{number:,} to {question}" for question, number in sorted(counts.items()))
    return f"labelled answers: {each}; the newest label is of {max(answers.values()):%Y-%m-%d %H:%M} UTC"


@contextmanager
def _quietly(_doing: str, _total: int) -> Iterator[OnProgress]:
    yield lambda _: None
