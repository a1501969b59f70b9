"""Poison-record bisection: finds the one record that makes every commit fail, by halving the transaction."""

from __future__ import annotations

from confluent_kafka import KafkaError

from ragweir.streams.runtime.records import Record

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

_MAX_RECORDS = 1_000_000


class PoisonBisection:
    """Limits the records of the next transaction, and finds the poison record.

    A record on which its process dies is found by delivery attempts, which count the first batch of a process only. So
    transactions are short at first, and twice as long after each commit: a new process commits most of what the open
    transaction of a dead one held, and comes to the record in a few steps.

    Args:
        batch: the records of one batch, to which the first transactions are limited.

    >>> bisection = PoisonBisection(1000)
    >>> bisection.on_commit()
    >>> bisection.limit
    2000
    >>> records = [Record("t", 0, offset, None, b"", None) for offset in range(4)]
    >>> bisection.on_abort(KafkaError.INVALID_RECORD, "rejected", 4, records[3])
    >>> bisection.limit
    2
    >>> bisection.on_abort(KafkaError.INVALID_RECORD, "rejected", 1, records[0])
    >>> bisection.poison == records[0], bisection.reason
    (True, 'rejected')
    """

    def __init__(self, batch: int) -> None:
        self._batch = batch
        self.limit = batch
        """The number of records that the next transaction may settle."""
        self.poison: Record | None = None
        """The record that is to become a dead letter."""
        self.reason = ""

    def on_assigned(self) -> None:
        """Shorten transactions to one batch, as another process may have died on the next records."""
        self.limit = min(self.limit, self._batch)

    def on_abort(self, code: int, reason: str, settled: int, last: Record | None) -> None:
        """Halve the transaction after an error about a record; a record alone in it is the poison record.

        Args:
            code: the code of the error.
            reason: the reason for the dead letter.
            settled: the number of records that the transaction settled.
            last: the last one of them.
        """
        if code not in RECORD_FAULTS:
            return
        if settled == 1:
            self.poison, self.reason = last, reason
        self.limit = max(1, settled // 2)

    def on_commit(self) -> None:
        """Double the transaction up to its maximum."""
        self.poison = None
        self.limit = min(max(_MAX_RECORDS, self._batch), self.limit * 2)
