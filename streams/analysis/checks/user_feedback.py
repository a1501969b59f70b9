"""The check of feedback of users: that givers cannot be guessed, and that feedback finds its answers."""

from __future__ import annotations

from confluent_kafka import KafkaException

from ragweir.streams.analysis.checks.context import CheckContext, CheckWarning
from ragweir.streams.runtime.kafka.reader import offset_range
from ragweir.streams.runtime.machine import machine
from ragweir.streams.settings.labels import DEFAULT_LABEL_KEY

_DAY_MS = 24 * 3_600_000


def feedback(context: CheckContext) -> str:
    """Check the key of givers, and compare the feedback of the last day with that which is joined to no answer."""
    settings = context.settings
    if not settings.feedback.enabled:
        return "not needed: feedback.enabled is false"
    since_ms = round(machine.time() * 1000) - _DAY_MS
    names = {name: settings.output_topic(name) for name in ("feedback", "feedback.unmatched")}
    for topic in names.values():
        context.partitions(topic)
    try:
        counts = {name: len(offset_range(settings, topic, since_ms=since_ms)) for name, topic in names.items()}
    except KafkaException as error:
        raise CheckWarning(f"not checked: Kafka lets this user read no feedback: {error.args[0].str()}") from None
    if settings.labels.key == DEFAULT_LABEL_KEY:
        raise CheckWarning(
            "labels.key is the default, which is public, so that givers of feedback can be guessed from their hashes: "
            "set RAGWEIR_LABELS__KEY"
        )
    return summary(counts["feedback"], counts["feedback.unmatched"])


def summary(given: int, unmatched: int) -> str:
    """Return how much feedback there is, by offsets.

    Raises:
        CheckWarning: if more than a tenth is unmatched.

    >>> summary(100, 3)
    'about 100 records of feedback in the last day, about 3 of feedback.unmatched'
    """
    text = f"about {given:,} records of feedback in the last day, about {unmatched:,} of feedback.unmatched"
    if unmatched > max(10, given / 10):
        raise CheckWarning(f"{text}: `message` of a record of feedback.unmatched says why it is joined to no answer")
    return text
