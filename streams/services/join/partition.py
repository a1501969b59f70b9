"""The state of `join` in one partition of `spans`: a function of the records before an offset, however they were read.

Records are applied one by one. Before each, and after the last one that has been read, the traces that are due by the
clock, or over a limit, are closed. A closing depends on the records before it alone, so that it does not matter when it
is made between two records. Results wait here until a transaction with them is committed; an abort undoes nothing.

A restore reads the records from the committed offset again. Those before the offset that the ledger names only open
traces again: the marks and closings among them are in the ledger.
"""

from __future__ import annotations

from binascii import Error as HexError
from binascii import unhexlify
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass

from ragweir.errors import Rejected
from ragweir.schemas.assembly import HEADER_TIME
from ragweir.schemas.dead_letter import HEAD_BYTES
from ragweir.streams.runtime.emissions import add_dead_letter
from ragweir.streams.runtime.records import Count, Emission, Outcome, Record, TopicPartition
from ragweir.streams.services.join.closing import SERVICE, ClosingResult, TraceCloser, TraceReader
from ragweir.streams.services.join.join_clock import MAX_TIME_MS, read_mark
from ragweir.streams.services.join.ledger import ClosedTrace, MissedRange, Position, StoredState
from ragweir.streams.services.join.open_traces import Cause, OpenTrace, OpenTraces, TraceTimes
from ragweir.streams.settings import AssembleSettings

_TRACE_ID_DIGITS = 32
_MAX_TIME_DIGITS = 16
_MAX_ENTRY_BYTES = 256 * 1024
"""The size of the closed traces of an entry of the ledger, not counting the last one."""
_MAX_RESULT_BYTES = 16 * 1024 * 1024
"""The size of results from which on no more are made before some are committed."""


@dataclass(slots=True)
class UncommittedResult:
    """A closed trace or a dead letter, until it is committed."""

    closed: ClosingResult
    position: Position
    """The position after it."""
    closing: ClosedTrace | None = None


class PartitionAssembly:
    """Opens, holds and closes the traces of one partition.

    Args:
        at: the partition.
        stored: the state with which it begins.
        start: the offset of the first record that will be read.
        settings: the settings of assemble.
        reader: reads records.
        closer: closes traces.
        max_record_bytes: the size of the largest record that a dead letter holds whole.
    """

    def __init__(
        self,
        at: TopicPartition,
        stored: StoredState,
        start: int,
        settings: AssembleSettings,
        reader: TraceReader,
        closer: TraceCloser,
        max_record_bytes: int,
    ) -> None:
        self.at, self._reader, self._closer = at, reader, closer
        self._max_record_bytes, self._times = max_record_bytes, TraceTimes.of(settings)
        # In base64, and with one more trace, it has to fit in a record.
        self._max_entry_bytes = min(_MAX_ENTRY_BYTES, max_record_bytes)
        self.ledger, self._emitted = stored.ledger, stored.emitted
        self.traces = OpenTraces(settings)
        self.backlog: deque[Record] = deque()
        self.results: deque[UncommittedResult] = deque()
        self.counts: Counter[Count] = Counter()
        self._position = self._committed = stored.position
        self._read = start
        """The offset of the next record to take, which is behind the position during a rebuild."""
        self._closed_to = stored.read_to
        self._rejected: dict[int, str] = {}
        """The records that must not be applied, with the reasons."""
        self._sent = 0
        self._result_bytes = 0

    # Records.

    @property
    def is_rebuilding(self) -> bool:
        """True while the records before the position of the ledger are read again."""
        return self._read < self._position.next

    @property
    def read_to(self) -> int:
        """The offset of the next record that it needs."""
        return self._read

    @property
    def holds_records(self) -> bool:
        """True if it has records that are not settled, or results that are not committed."""
        return bool(self.traces or self.results or self.is_rebuilding)

    @property
    def clock_ms(self) -> int:
        """The clock, in epoch milliseconds."""
        return self._position.clock.time_ms

    @property
    def remembered(self) -> int:
        """The number of emitted traces that are remembered."""
        return len(self._emitted)

    def take(self, record: Record) -> None:
        """Add a record to the backlog."""
        is_after = not self.backlog or self.backlog[-1].offset < record.offset
        self.backlog.append(record)
        if not is_after:
            self.backlog = deque(sorted(self.backlog, key=lambda each: each.offset))

    def advance(self, max_results: int) -> None:
        """Apply records of the backlog, and close what is due, while there are fewer results than a maximum."""
        while self.backlog:
            record = self.backlog[0]
            if record.offset >= self._read:
                if record.offset < self._position.next:
                    self._rebuild(record)
                else:
                    self._end_rebuild()
                    if not self._close_due(max_results) or self._is_full(max_results):
                        return
                    self._apply(record)
                self._read = record.offset + 1
            self.backlog.popleft()
        if not self.is_rebuilding:
            self._close_due(max_results)

    def _rebuild(self, record: Record) -> None:
        if record.key is not None:
            try:
                trace_id, time_ms, value = _span_record(record)
                if self._closed_to.get(trace_id, 0) <= record.offset:
                    heads = list(self._reader.heads(value))
                    self.traces.add(trace_id, record.offset, time_ms, self._position.floor_ms, value, heads)
            except Rejected:
                pass  # Its dead letter is written.
        self.traces.read_bytes += len(record.value or b"")

    def _end_rebuild(self) -> None:
        if self._closed_to:
            self._closed_to = {}

    def _apply(self, record: Record) -> None:
        self.counts["ragweir_events_in_total",] += 1
        position, closed = self._position, ClosingResult(_without_value(record))
        reason = self._rejected.pop(record.offset, None)
        try:
            _check(reason)
            if record.key is None:
                position = self._after_mark(position, record)
            else:
                trace_id, time_ms, value = _span_record(record)
                heads = list(self._reader.heads(value))
                self.traces.add(trace_id, record.offset, time_ms, self.clock_ms, value, heads)
        except Rejected as rejected:
            most = HEAD_BYTES if reason is not None else self._max_record_bytes
            outcome = Outcome()
            add_dead_letter(outcome, SERVICE, record, rejected.error_class, rejected.message, most)
            closed.emissions, closed.counts = outcome.emissions, outcome.counts
        self.traces.read_bytes += len(record.value or b"")
        self._move(position._replace(next=record.offset + 1))
        if closed.emissions:
            self._add(UncommittedResult(closed, self._position))

    def _after_mark(self, position: Position, record: Record) -> Position:
        clock = position.clock.after(read_mark(record.value))
        gap = position.gap
        if gap is not None and gap.until_ms is None and clock.time_ms > position.clock.time_ms:
            gap = MissedRange(gap.end, clock.time_ms + self._times.patience)
        return position._replace(clock=clock, gap=gap)

    # Closing.

    def _close_due(self, max_results: int) -> bool:
        """Close what is due; return False if the maximum of results was reached before the end."""
        while (next_closing := self.traces.next_closing(self.clock_ms)) is not None:
            if self._is_full(max_results):
                return False
            self._close(*next_closing)
        return True

    def _is_full(self, max_results: int) -> bool:
        return len(self.results) >= max_results or self._result_bytes >= _MAX_RESULT_BYTES

    def _close(self, trace: OpenTrace, cause: Cause) -> None:
        gap, position = self._position.gap, self._position
        missed = gap is not None and trace.first_offset >= gap.end
        missed = missed and (gap is None or gap.until_ms is None or trace.first_ms < gap.until_ms)
        before = self._emitted.get(trace.trace_id, trace.first_ms)
        now_ms = max(position.clock.time_ms, trace.last_ms)
        closed = self._closer.close(trace, cause, self.at, now_ms, before, missed=missed)
        self.traces.close(trace)
        if closed.packed:
            self._emitted.add(trace.trace_id, closed.packed)
        self._move(position)
        closing = ClosedTrace(trace.trace_id, position.next, closed.packed)
        self._add(UncommittedResult(closed, self._position, closing))

    def _add(self, result: UncommittedResult) -> None:
        self.results.append(result)
        self._result_bytes += result.closed.size

    def _move(self, position: Position) -> None:
        """Set the position, with what follows from the traces that are open and remembered."""
        oldest, emitted = self.traces.oldest, self._emitted
        floor, floor_ms = position.next, position.clock.time_ms
        if oldest is not None:
            floor, floor_ms = oldest.first_offset, oldest.opened_ms
        if forgotten := emitted.forget(floor_ms):
            self.counts["ragweir_assemble_forgotten_total",] += forgotten
        self._position = Position(
            position.next, floor, floor_ms, position.clock, emitted.count, emitted.first, position.gap
        )

    # Transactions.

    def is_due(self, interval_ms: int) -> bool:
        """Return whether a transaction should have an entry of the partition.

        Args:
            interval_ms: the progress of the clock for which an entry without results is written.
        """
        newest = self.ledger.newest
        if self.results or self.ledger.is_due or newest is None:
            return True
        return self._position.clock.time_ms - newest.clock_ms >= interval_ms

    def send(self, outcome: Outcome, max_results: int, max_bytes: int) -> int:
        """Add results and the ledger's entry to an outcome, and return the size of the emissions.

        At least one result is sent, if there is one and `max_results` allows it. The outcome settles as many records as
        it has results, since an outcome that Kafka does not accept is divided by them.
        """
        size = entry_size = 0
        sent: list[UncommittedResult] = []
        for result in self.results:
            if len(sent) >= max_results or (sent and (size >= max_bytes or entry_size >= self._max_entry_bytes)):
                break
            sent.append(result)
            size += result.closed.size
            entry_size += result.closing.size if result.closing else 0
            outcome.emissions += result.closed.emissions
            outcome.counts += result.closed.counts
        is_all = len(sent) == len(self.results)
        position = self._position if is_all else sent[-1].position if sent else self._committed
        closings = [each.closing for each in sent if each.closing is not None]
        _, partition = self.at
        outcome.emissions.append(
            Emission("assembly", str(partition).encode(), self.ledger.entry(position, closings), (), partition)
        )
        settled = Record(*self.at, position.floor - 1, None, None, None)
        outcome.settled += [settled] * max(1, len(sent))
        outcome.counts += self.counts
        self._sent = len(sent)
        return size

    def reject(self, record: Record, reason: str) -> None:
        """Make a dead letter of the next result, or of a record that has not been applied."""
        if record.value is not None and record.offset >= self._position.next:
            self._rejected[record.offset] = reason
        elif self.results:
            self.results[0].closed.reject(reason)

    def on_commit(self) -> None:
        """Forget the results that were sent, which are committed."""
        committed = self.ledger.commit()
        if committed is None:
            return
        self._committed = committed
        for _ in range(self._sent):
            self._result_bytes -= self.results.popleft().closed.size
        self._sent = 0
        self.counts.clear()

    def resume(self, written: int) -> None:
        """Go on after the partition was given up and came back unchanged; `written` is the end of its changelog."""
        self.on_abort()
        self.ledger.written = written

    def on_abort(self) -> None:
        """Keep the results that were sent, which are not committed."""
        self.ledger.abort()
        self._sent = 0
        self.backlog.clear()


def _check(reason: str | None) -> None:
    """Raise Rejected if there is a reason to reject a record."""
    if reason is not None:
        raise Rejected("refused", reason)


def _span_record(record: Record) -> tuple[bytes, int, bytes]:
    """Return the trace id, the time and the value of a record of spans.

    Raises:
        Rejected: if it has none.
    """
    key, value = record.key or b"", record.value
    if value is None:
        raise Rejected("tombstone", "the record has no value")
    try:
        trace_id = unhexlify(key) if len(key) == _TRACE_ID_DIGITS else b""
    except (HexError, ValueError):
        trace_id = b""
    if not trace_id:
        raise Rejected("invalid", "the key is no trace id of 32 hex digits")
    return trace_id, _time_ms(record.headers), value


def _time_ms(headers: Sequence[tuple[str, bytes | None]]) -> int:
    text = next((value for name, value in headers if name == HEADER_TIME), None) or b""
    if not text.isdigit() or len(text) > _MAX_TIME_DIGITS or int(text) >= MAX_TIME_MS:
        raise Rejected("invalid", f"the record has no header {HEADER_TIME}, which is a time in epoch milliseconds")
    return int(text)


def _without_value(record: Record) -> Record:
    return Record(record.topic, record.partition, record.offset, record.key, None, record.timestamp_ms)
