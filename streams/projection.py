"""The lifecycle of a projection, which keeps a view of topics outside Kafka."""

from __future__ import annotations

from abc import ABC, abstractmethod

from ragweir.streams.records import Measurements, Record


class Projection(ABC):
    """Reads records of topics, keeps the ones that it needs, and flushes them to a sink.

    The projection runtime reads without a consumer group and commits no offsets. A process that starts reads the last
    `since_s` seconds of each topic again, so a projection sees each committed record at least once, unless Kafka
    deleted it or an outage was longer than `since_s`. A sink that must not hold anything twice needs writes that
    replace those of an earlier process, such as writes by key.

    The runtime calls the methods in this order, all of them from one thread::

        open
        take ... take, drain_metrics                 each batch until every partition was read to its end once
        take ... take, flush, drain_metrics          each batch from then on
        close                                        also after an error

    A batch may hold no records. While there are none, the runtime goes on with empty batches, several times a second.

    `open`, `take` and `flush` may block, together for at most 30 seconds per batch: /healthz fails after 60 seconds
    without a new batch. `close` may block for a few seconds: the supervisor kills a process that does not end within 9
    seconds of being told to stop. All four may raise any error; `close` is called after it. A ConfigurationError or a
    PermanentError ends the service for good. After any other error, the supervisor starts a new process, which reads
    the topics again; a TransientError is logged as one sentence instead of a traceback.
    """

    @property
    @abstractmethod
    def topics(self) -> tuple[str, ...]:
        """The topics to read, by their names in the topic table, without the prefix."""

    @property
    @abstractmethod
    def since_s(self) -> float:
        """The time to go back at the start, in seconds before now; `math.inf` reads the topics from their beginnings.

        Compared with the records' own timestamps.
        """

    def open(self) -> None:
        """Acquire resources, such as a file. Constructors acquire none, since settings are checked by constructing."""

    @abstractmethod
    def take(self, record: Record) -> None:
        """Handle one committed record. Records of one partition arrive in order.

        A record that cannot be used is counted, not raised: after a restart it would be read again.

        Args:
            record: its `topic` is the full name, with the prefix.
        """

    @abstractmethod
    def flush(self, now_s: float) -> None:
        """Bring the sink up to date with the records taken so far.

        Called first when every partition of every topic has been read to its end once, and then after each batch, so
        that a sink never shows a state from the past as the present one.

        Args:
            now_s: wall clock, epoch seconds.
        """

    def drain_metrics(self) -> Measurements:
        """Return the values for the telemetry since the last call. Called after each batch; does not block."""
        return Measurements()

    def exposition(self) -> bytes:
        """Return lines that /metrics shows after the service's own, in a form that is valid in OpenMetrics as well.

        Called by the threads of the telemetry server at any time between construction and `close`; does not block.
        """
        return b""

    def close(self) -> None:
        """Release resources. Called once after `open`, also if it raised."""
