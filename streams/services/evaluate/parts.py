"""The optional parts of the evaluate agent: what it prepares, and its evaluations as proof of what was handled."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress

from pydantic import BaseModel, ValidationError
from typing_extensions import override

from ragweir.schemas.codec.decoder import Decoder
from ragweir.schemas.evaluation import Source
from ragweir.streams.runtime.agent_parts import Origin, Preparation, Recovery
from ragweir.streams.runtime.records import EventPosition, Record, TopicPartition
from ragweir.streams.services.shared.routing_rows import RowSource

Identities = Callable[[Record], Iterator[tuple[EventPosition, str]]]


class EvaluatePreparation(Preparation):
    """Reads the routing rows and the schemas that decoders need, and asks for the records that have recent ids.

    Args:
        rows: gives the routing rows of applications.
        decoders: the decoders of topics that are not read as JSON.
        horizon: the number of offsets back within which an id makes an event a duplicate.
    """

    def __init__(self, rows: RowSource, decoders: Mapping[str, Decoder], horizon: int) -> None:
        self._rows, self._decoders, self._horizon = rows, decoders, horizon

    @property
    @override
    def reads(self) -> Mapping[str, str]:
        return self._rows.topics

    @override
    def start(self, stopped: Callable[[], bool]) -> None:
        """Read the routing rows, and start the decoders."""
        self._rows.start(stopped)
        for decoder in self._decoders.values():
            decoder.start(stopped)

    @property
    @override
    def warm_up(self) -> int:
        return self._horizon

    @override
    def waiting(self, records: Sequence[Record]) -> list[Record]:
        """Return the records whose schemas are not known yet, each with all later ones of its partition."""
        waiting: list[Record] = []
        partitions: set[TopicPartition] = set()
        for record in records if self._decoders else ():
            # Also behind a record that waits, so that all schemas of a batch are asked for at once.
            decoder = self._decoders.get(record.topic)
            is_ready = decoder is None or decoder.ready(record.value, record.topic_partition)
            if record.topic_partition in partitions or not is_ready:
                partitions.add(record.topic_partition)
                waiting.append(record)
        return waiting


class _Provenance(BaseModel):
    """The fields of an evaluation that identify its event."""

    event_id: str
    source: Source


class EvaluateRecovery(Recovery):
    """Proves by evaluations that their events were handled.

    Args:
        identities: returns the positions and ids of the readable events of a record.
    """

    outputs = ("evaluations",)

    def __init__(self, identities: Identities) -> None:
        self._identities = identities

    @override
    def origins(self, output: Record) -> Iterator[Origin]:
        """Return the source of an evaluation; nothing for another record."""
        with suppress(ValidationError):
            evaluation = _Provenance.model_validate_json(output.value or b"")
            source = evaluation.source
            yield Origin((source.topic, source.partition), (source.offset, source.index), evaluation.event_id)

    @override
    def identities(self, record: Record) -> Iterator[tuple[EventPosition, str]]:
        return self._identities(record)

    @override
    def replay_command(self, topic: str, first: int, end: int) -> str:
        """Return the command that evaluates these offsets of all partitions of a topic in a separate run."""
        return f"ragweir replay --run-id again-{first}-{end} --topic {topic} --from {first} --to {end}"
