"""Poison-record bisection: finds the one record that makes every commit fail, by halving the batch."""

from __future__ import annotations

from collections.abc import Sequence

from confluent_kafka import KafkaError

from ragweir.streams.records import Record

RECORD_FAULTS = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.INVALID_MSG,
        KafkaError.INVALID_MSG_SIZE,
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_TIMESTAMP,
    }
)
"""The broker's errors about a record itself. After any other error, such as a missing permission, no record becomes a
dead letter."""


class PoisonBisection:
    """Limits the size of the next batch and finds the poison record.

    >>> bisection = PoisonBisection(1000)
    >>> records = [Record("t", 0, offset, None, b"", None) for offset in range(4)]
    >>> bisection.on_abort(KafkaError.INVALID_RECORD, "rejected", records)
    >>> bisection.limit
    2
    >>> bisection.on_abort(KafkaError.INVALID_RECORD, "rejected", records[:1])
    >>> bisection.poison == records[0], bisection.reason
    (True, 'rejected')
    """

    def __init__(self, max_records: int) -> None:
        self._max_records = max_records
        self.limit = max_records
        """The number of records that the next transaction may settle."""
        self.poison: Record | None = None
        """The record that is to become a dead letter."""
        self.reason = ""

    def on_abort(self, code: int, reason: str, records: Sequence[Record]) -> None:
        """Halve the batch after an error about a record; a record alone in its batch is the poison record."""
        if code not in RECORD_FAULTS:
            return
        if len(records) == 1:
            self.poison, self.reason = records[0], reason
        self.limit = max(1, len(records) // 2)

    def on_commit(self) -> None:
        """Double the batch up to its maximum."""
        self.poison = None
        self.limit = min(self._max_records, self.limit * 2)
