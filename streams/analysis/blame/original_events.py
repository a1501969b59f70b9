"""The interactions at the places that rows name: what hashes stand for, and the texts of examples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import islice

from ragweir.errors import Rejected
from ragweir.schemas.interaction import Interaction
from ragweir.streams.analysis.blame.blame_report import BlameReport, NamedCause
from ragweir.streams.analysis.blame.facets import CHUNK, DOCUMENT, event_facets
from ragweir.streams.analysis.blame.topic_rows import hash_name
from ragweir.streams.runtime.kafka.record_fetcher import RecordFetcher
from ragweir.streams.runtime.machine import machine
from ragweir.streams.services.evaluate.agent import EvaluateAgent
from ragweir.streams.services.evaluate.from_settings import evaluate_config
from ragweir.streams.services.shared.row_hashes import RowHashes
from ragweir.streams.settings import Settings

MOST_FETCHED = 300
"""Number of interactions that are read again, those of the first causes."""
_REGISTRY_SECONDS = 10.0
_LABELS = "labels."


@dataclass(slots=True)
class OriginalEvents:
    """Reads interactions by their places, at most some of them, each once."""

    settings: Settings
    fetcher: RecordFetcher
    found: dict[str, Interaction | None] = field(default_factory=dict)
    """The interactions by place; None for one that Kafka no longer holds, or that cannot be read."""
    _agent: EvaluateAgent | None = None

    def at(self, place: str) -> Interaction | None:
        """Return the interaction at a place; None if it is not there any more, or enough were read.

        Raises:
            Unreachable: if no broker answers.
            PermanentError: if Kafka answers with another error.
        """
        if place not in self.found:
            if len(self.found) >= MOST_FETCHED:
                return None
            self.found[place] = self._read(place)
        return self.found[place]

    def _read(self, place: str) -> Interaction | None:
        topic, partition, offset, index = place.split("/")
        record = self.fetcher.fetch(topic, int(partition), int(offset))
        if record is None:
            return None
        event = next(islice(self._reader().read(record), int(index), None), None)
        return None if event is None or isinstance(event, Rejected) else event[0]

    def _reader(self) -> EvaluateAgent:
        if self._agent is None:
            config = evaluate_config(self.settings, self.settings.input_topic)
            self._agent = EvaluateAgent(replace(config, default_time=datetime.fromtimestamp(0, UTC)))
            until = machine.monotonic() + _REGISTRY_SECONDS
            self._agent.preparation.start(lambda: machine.monotonic() > until)
        return self._agent


def with_names(report: BlameReport, originals: OriginalEvents, hashes: RowHashes) -> BlameReport:
    """Return a report with the names of documents, chunks and labels, and the ids of events, in place of hashes.

    A document or event that Kafka no longer holds keeps its hash or its place, which a note says.

    Raises:
        Unreachable, PermanentError: as `OriginalEvents.at`.
    """
    named = tuple(_named(each, originals, hashes) for each in report.causes)
    places = [place for each in report.causes for place in each.bad_examples]
    left = sum(is_hash(*each) for cause in named for each in (*cause.facets.items(), *cause.also))
    held = sum(originals.found.get(place) is not None for place in places)
    notes = []
    if left and held < len(places):
        notes.append(f"{left:,} names are shown as hashes, since Kafka no longer holds their interactions")
    elif left:
        notes.append(f"{left:,} names are shown as hashes, since labels.key is not the key of their rows")
    return replace(report, causes=named, notes=(*report.notes, *notes))


def is_hash(facet: str, name: str) -> bool:
    """Return whether the name of a value is its hash, which begins with a sign that marks it."""
    return (facet in {DOCUMENT, CHUNK} or facet.startswith(_LABELS)) and name.startswith("#")


def _named(cause: NamedCause, originals: OriginalEvents, hashes: RowHashes) -> NamedCause:
    events = {place: originals.at(place) for place in (*cause.bad_examples, *cause.good_examples)}
    known: dict[tuple[str, str], dict[str, None]] = {}
    for place in cause.bad_examples:
        if (event := events[place]) is not None:
            for facet, value in _values(event):
                known.setdefault((facet, hash_name(facet, value, hashes)), {})[value] = None

    def name(facet: str, value: str) -> str:
        # Several ids with one hash are one value: all of them are named.
        return " or ".join(known.get((facet, value), {value: None}))

    def ids(places: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(place if (event := events[place]) is None else event.event_id for place in places)

    facets: Mapping[str, str] = {facet: name(facet, value) for facet, value in cause.facets.items()}
    also = tuple((facet, name(facet, value)) for facet, value in cause.also)
    return replace(
        cause, facets=facets, also=also, bad_examples=ids(cause.bad_examples), good_examples=ids(cause.good_examples)
    )


def _values(event: Interaction) -> Iterator[tuple[str, str]]:
    yield from event_facets(event)
    for label, value in event.labels.items():
        yield f"{_LABELS}{label}", value
