"""Isolating the one record that makes every commit fail, by halving the batch until it stands alone."""

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
"""What the broker says when a record itself is at fault. All else is mended by waiting or by people, and condemns
no record: a missing permission must not drain a topic into the dead letters."""


class PoisonBisection:
    """How large the next batch may be, and which record is known to be at fault.

    >>> isolation = PoisonBisection(1000)
    >>> records = [Record("t", 0, offset, None, b"", None) for offset in range(4)]
    >>> isolation.aborted(KafkaError.INVALID_RECORD, "refused", records)
    >>> isolation.limit
    2
    >>> isolation.aborted(KafkaError.INVALID_RECORD, "refused", records[:1])
    >>> isolation.condemned == records[0], isolation.reason
    (True, 'refused')
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.limit = most
        """The number of records that the next transaction may settle."""
        self.condemned: Record | None = None
        """The record that is known to be at fault, and is to become a dead letter."""
        self.reason = ""

    def aborted(self, code: int, reason: str, records: Sequence[Record]) -> None:
        """A batch could not be committed: try half of it, or condemn the record that stood alone."""
        if code not in RECORD_FAULTS:
            return
        if len(records) == 1:
            self.condemned, self.reason = records[0], reason
        self.limit = max(1, len(records) // 2)

    def committed(self) -> None:
        """A batch went through: let the next one be larger."""
        self.condemned = None
        self.limit = min(self._most, self.limit * 2)
