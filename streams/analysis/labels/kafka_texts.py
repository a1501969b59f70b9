"""The texts of drawn answers, read again in Kafka where evaluate read them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from ragweir.errors import PermanentError
from ragweir.schemas.label import QueuedAnswer
from ragweir.streams.analysis.evaluation_source import ShowProgress
from ragweir.streams.analysis.labels.event_texts import EventTexts, TextsAgent
from ragweir.streams.runtime.kafka.reader import OffsetRange, offset_range, read
from ragweir.streams.runtime.machine import machine
from ragweir.streams.services.evaluate.from_settings import evaluate_config
from ragweir.streams.settings import Settings

_REGISTRY_SECONDS = 10.0
"""Time to wait for the schema of a record."""


def texts_in_kafka(
    settings: Settings, answers: Sequence[QueuedAnswer], progress: ShowProgress
) -> dict[str, EventTexts]:
    """Return the texts of answers by event id, without those that Kafka no longer holds.

    Raises:
        Unreachable: if no broker answers.
        PermanentError: if the Schema Registry cannot be read.
    """
    found: dict[str, EventTexts] = {}
    until = machine.monotonic() + _REGISTRY_SECONDS
    agent = TextsAgent(evaluate_config(settings, settings.input_topic), {answer.event_id for answer in answers}, found)
    agent.preparation.start(lambda: machine.monotonic() > until)
    with progress("reading the texts", len(answers)) as moved:
        for part in _parts(settings, answers):
            agent.handle(list(read(settings, part)))
            moved(len(part))
    return found


def _parts(settings: Settings, answers: Sequence[QueuedAnswer]) -> Iterator[OffsetRange]:
    """Yield ranges of one record of each partition, until all records are named that Kafka holds."""
    offsets: dict[str, dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
    for answer in answers:
        if answer.source is not None:
            offsets[answer.source.topic][answer.source.partition].add(answer.source.offset)
    for topic, own in offsets.items():
        try:
            held = offset_range(settings, topic)
        except PermanentError:  # The topic was deleted, as all its texts are then.
            continue
        left = {
            partition: sorted(each for each in those if held.starts[partition] <= each < held.ends[partition])
            for partition, those in own.items()
            if partition in held.starts
        }
        while left := {partition: those for partition, those in left.items() if those}:
            now = {partition: those.pop() for partition, those in left.items()}
            yield OffsetRange(topic, now, {partition: offset + 1 for partition, offset in now.items()})
