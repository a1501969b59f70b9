"""The texts of events, read again in Kafka where evaluate read them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

from ragweir.errors import PermanentError
from ragweir.schemas.evaluation import Source
from ragweir.schemas.interaction import Interaction
from ragweir.schemas.label import QueuedAnswer
from ragweir.streams.analysis.evaluation_source import ShowProgress
from ragweir.streams.analysis.labels.event_texts import EventTexts, Kept, TextsAgent
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
    return kept_in_kafka(settings, {answer.event_id: answer.source for answer in answers}, EventTexts.of, progress)


def kept_in_kafka(
    settings: Settings,
    sources: Mapping[str, Source | None],
    of: Callable[[Interaction], Kept | None],
    progress: ShowProgress,
) -> dict[str, Kept]:
    """Return what is kept of events by id, without those that Kafka no longer holds.

    Args:
        settings: all settings.
        sources: the position of each event by its id; None if that is not known.
        of: returns what is kept of an event; None for nothing.
        progress: shows the progress, in records.

    Raises:
        Unreachable: if no broker answers.
        PermanentError: if the Schema Registry cannot be read.
    """
    found: dict[str, Kept] = {}
    until = machine.monotonic() + _REGISTRY_SECONDS
    agent = TextsAgent(evaluate_config(settings, settings.input_topic), sources.keys(), found, of)
    agent.preparation.start(lambda: machine.monotonic() > until)
    with progress("reading the texts", len(sources)) as moved:
        for part in _parts(settings, [source for source in sources.values() if source is not None]):
            agent.handle(list(read(settings, part)))
            moved(len(part))
    return found


def _parts(settings: Settings, sources: Sequence[Source]) -> Iterator[OffsetRange]:
    """Yield ranges of one record of each partition, until all records are named that Kafka holds."""
    offsets: dict[str, dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
    for source in sources:
        offsets[source.topic][source.partition].add(source.offset)
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
