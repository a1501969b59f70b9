"""The lifecycle of a projection, which keeps a view of topics outside of Kafka."""

from __future__ import annotations

from abc import ABC, abstractmethod

from ragweir.streams.runtime.records import Measurements, Record


class Projection(ABC):
    """Reads records of topics and flushes a view of them to a sink.

    The projection runtime reads without a consumer group and commits no offsets. Each process begins with the last
    `since_s` seconds of each topic, so that a projection gets each committed record at least once, unless Kafka has
    deleted it or an outage was longer than `since_s`. A sink without duplicates needs idempotent writes, such as writes
    by key.

    The runtime calls the methods in this order, all of them from one thread::

        open
        take ... take, drain_metrics                 each batch until every partition was read to its end once
        take ... take, flush, drain_metrics          each batch from then on
        close                                        also after an error

    A batch may hold no records. While there are none, the runtime goes on with empty batches, several times a second.

    `open`, `take` and `flush` may block, together for at most 30 seconds per batch: /healthz fails after 60 seconds
    without a new batch. `close` may block for a few seconds: the supervisor kills a process that does not end within 9
    seconds after SIGTERM. The properties, `drain_metrics` and `exposition` do not block.

    `open`, `take`, `flush`, `drain_metrics` and `close` may raise any error; `close` is called after one of the others
    has raised. A ConfigurationError or a PermanentError ends the service for good. After any other error, the
    supervisor starts a new process, which reads the topics again; a TransientError is logged as one sentence instead of
    a traceback. Constructors and properties raise ConfigurationError only, and `exposition` nothing.
    """

    @property
    @abstractmethod
    def topics(self) -> tuple[str, ...]:
        """The topics to read, by their names in the topic table, without the prefix."""

    @property
    @abstractmethod
    def since_s(self) -> float:
        """The age of the first record to read, in seconds by the records' timestamps; `math.inf` for all records."""

    def open(self) -> None:
        """Acquire resources, such as a file. Constructors acquire none: settings are checked by constructing."""

    @abstractmethod
    def take(self, record: Record) -> None:
        """Handle one committed record. Records of one partition arrive in order.

        Count an unusable record instead of raising: a restart would read it again.
        """

    @abstractmethod
    def flush(self, now_s: float) -> None:
        """Bring the sink up to date with the records taken so far.

        The first call is after every partition of every topic was read to its end once, so that a sink never shows a
        past state as the present one.

        Args:
            now_s: wall clock, epoch seconds.
        """

    def drain_metrics(self) -> Measurements:
        """Return the values for the telemetry since the last call."""
        return Measurements()

    def exposition(self) -> bytes:
        """Return further lines of /metrics, which must be valid in the text format and in OpenMetrics.

        Called by the threads of the telemetry server at any time between construction and `close`.
        """
        return b""

    def close(self) -> None:
        """Release resources. Called once after `open`, also if it raised."""
