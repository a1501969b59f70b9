"""Facts about the exporter that wrote the records of a topic: their keys, sizes and partitions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ragweir.streams.runtime.records import Record
from ragweir.streams.traces.wire import Slice

_NEAR_BYTES = 750_000
"""Size from which on a record is near the exporter's limit."""
_EXPORTER_LIMIT = 1_000_000
"""The exporter's `producer.max_message_bytes` by default."""


@dataclass(slots=True)
class _Seen:
    records: int = 0
    partitions: set[tuple[str, int]] = field(default_factory=set)
    first_ms: int | None = None
    last_ms: int | None = None


@dataclass(slots=True)
class ExporterFacts:
    """The facts of some records."""

    records: int = 0
    unkeyed: int = 0
    """Records without a key."""
    other_keys: int = 0
    """Records with a key that is not the id of their only trace."""
    mixed: int = 0
    """Records with several traces."""
    largest: int = 0
    """Size of the largest record, in bytes."""
    near_limit: int = 0
    traces: dict[str, _Seen] = field(default_factory=dict)
    """Facts of each trace by its id."""

    def add(self, record: Record, slices: Sequence[Slice]) -> None:
        """Count a record with the slices of its export request."""
        self.records += 1
        ids = {each.trace_id for each in slices}
        self.mixed += len(ids) > 1
        if record.key is None:
            self.unkeyed += 1
        elif {record.key.decode(errors="replace").lower()} != ids and {record.key.hex()} != ids:
            self.other_keys += 1
        size = len(record.value or b"")
        self.largest = max(self.largest, size)
        self.near_limit += size >= _NEAR_BYTES
        for trace_id in ids:
            seen = self.traces.setdefault(trace_id, _Seen())
            seen.records += 1
            seen.partitions.add(record.topic_partition)
            if record.timestamp_ms is not None:
                seen.first_ms = min(seen.first_ms or record.timestamp_ms, record.timestamp_ms)
                seen.last_ms = max(seen.last_ms or record.timestamp_ms, record.timestamp_ms)

    @property
    def spread(self) -> int:
        """The number of traces over several partitions."""
        return sum(len(each.partitions) > 1 for each in self.traces.values())

    def edges(self, begins_ms: int | None, ends_ms: int | None, settle_ms: float) -> frozenset[str]:
        """Return the traces near the edges of a sample, which may lack spans that were not sampled.

        Args:
            begins_ms: time of the first record of the sample; None if no record was left out before it.
            ends_ms: time of its last record; None if nothing can follow it.
            settle_ms: time for which spans of one trace may be apart.
        """
        return frozenset(
            trace_id
            for trace_id, seen in self.traces.items()
            if (begins_ms is not None and seen.first_ms is not None and seen.first_ms < begins_ms + settle_ms)
            or (ends_ms is not None and seen.last_ms is not None and seen.last_ms > ends_ms - settle_ms)
        )

    def warnings(self) -> Iterator[str]:
        """Yield the facts that mean a loss, with the line of the Collector's configuration to change."""
        if self.near_limit:
            yield (
                f"{self.near_limit:,} records have {_NEAR_BYTES:,} bytes or more, the largest {self.largest:,}: the "
                f"exporter drops a batch over `producer.max_message_bytes` ({_EXPORTER_LIMIT:,} by default), and only "
                "its own log says so; let it divide batches (`sending_queue: batch: {sizer: bytes, max_size: "
                "500000}`), or raise it, the topic's max.message.bytes and limits.max_event_bytes"
            )

    def lines(self) -> Iterator[str]:
        """Yield the facts as sentences, with the line of the Collector's configuration to change."""
        if not self.traces:
            return
        each = sum(seen.records for seen in self.traces.values()) / len(self.traces)
        yield (
            f"A trace comes in {each:.1f} records on average; {self.spread:,} of {len(self.traces):,} traces are "
            f"spread over several partitions, and {self.mixed:,} of {self.records:,} records hold several traces."
        )
        if self.unkeyed or self.other_keys:
            kind = "have no key" if self.unkeyed >= self.other_keys else "have a key that is not the id of their trace"
            number = max(self.unkeyed, self.other_keys)
            yield (
                f"{number:,} records {kind}. ragweir orders spans by trace itself, so that nothing is torn; other "
                "readers need `partition_traces_by_id: true` in the Collector's kafka exporter (for log records "
                "`partition_logs_by_trace_id: true`)."
            )
        yield from (f"{each}." for each in self.warnings())
