"""The lifecycle of a projection, which keeps a view of topics outside of Kafka."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import MappingProxyType

from ragweir.streams.runtime.records import Measurements, Record

_NOWHERE: Mapping[int, int] = MappingProxyType({})


class Projection(ABC):
    """Reads records of topics and flushes a view of them to a sink.

    The projection runtime reads without a consumer group and commits no offsets. Each process begins with the last
    `since_s` seconds of each partition, or at the offset that `resume` gives, so that a projection gets each committed
    record at least once, unless Kafka has deleted it or an outage was longer than `since_s`. A sink without duplicates
    needs idempotent writes, such as writes by key, or stores the next offset of each partition, with the topic's id, in
    the same transaction as what it keeps of the records before it.

    The runtime calls the methods in this order, all of them from one thread::

        open
        resume                                       each topic
        take ... take, drain_metrics                 each batch until every partition was read to its end once,
                                                     with `flush` in one batch a second
        take ... take, flush, drain_metrics          each batch from then on
        close                                        also after an error

    A batch may hold no records. While there are none, the runtime goes on with empty batches, several times a second.
    A topic that is deleted and created again ends the process, and the next one calls `resume` with the new id. Records
    of the new topic may be taken before, under the old id.

    `open`, `resume`, `take` and `flush` may block, together for at most 30 seconds per batch: /healthz fails after 60
    seconds without a new batch. `close` may block for a few seconds: the supervisor kills a process that does not end
    within 9 seconds after SIGTERM. The properties, `drain_metrics` and `exposition` do not block.

    `open`, `resume`, `take`, `flush`, `drain_metrics` and `close` may raise any error; `close` is called after one of
    the others has raised. A ConfigurationError or a PermanentError ends the service for good. After any other error,
    the supervisor starts a new process, which reads the topics again; a TransientError is logged as one sentence
    instead of a traceback. Constructors and properties raise ConfigurationError only, and `exposition` nothing.
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

    def resume(self, topic: str, topic_id: str) -> Mapping[int, int]:  # noqa: ARG002
        """Return the offsets from which partitions of a topic are to be read; the others start `since_s` back.

        Of records that Kafka has deleted since, the next one is read. An offset after the end of its partition is not
        used: the partition starts `since_s` back.

        Args:
            topic: its full name.
            topic_id: Kafka's id of the topic. Offsets that were stored with another id belong to a deleted topic.
        """
        return _NOWHERE

    @abstractmethod
    def take(self, record: Record) -> None:
        """Handle one committed record. Records of one partition arrive in order.

        Count an unusable record instead of raising: a restart would read it again.
        """

    @abstractmethod
    def flush(self, now_s: float, *, caught_up: bool) -> None:
        """Bring the sink up to date with the records taken so far.

        Args:
            now_s: wall clock, epoch seconds.
            caught_up: true once every partition of every topic was read to its end. Until then a sink has a past state,
                which it must not show as the present one.
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
