"""Clients of Kafka: their properties, the identities of workers and the state of the connection."""

from __future__ import annotations

import math
import socket
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import structlog
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from ragweir.errors import PermanentError, Unreachable
from ragweir.schemas.topics import max_record_bytes
from ragweir.streams.runtime.kafka.properties import build, client_properties, publisher_properties
from ragweir.streams.runtime.machine import machine
from ragweir.streams.settings import Settings

__all__ = [
    "SILENCE_SECONDS",
    "Assignor",
    "Connection",
    "Identity",
    "build",
    "client_properties",
    "connected_admin",
    "consumer_properties",
    "is_transient",
    "partition_counts",
    "producer_properties",
    "publisher_properties",
    "reader_properties",
    "wait_for_topics",
]

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

_CALL_SECONDS = 5.0
_PAUSE_SECONDS = 0.2
_NEW_TOPIC_SECONDS = 3.0
"""Time to wait for a missing topic: brokers learn of a new one at different times."""
SILENCE_SECONDS = 5.0
"""Time after which a broker that does not answer a call is lost. The error callback reports broken connections only,
and may have reported one to another client."""

Assignor = Literal["roundrobin", "range"]
"""Assignment strategy: evenly over all topics, or the same partition of every topic to the same member."""

_AUTH_ERRORS = {KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED, KafkaError._SSL}
"""Errors that a retry does not remove."""
_TRANSIENT = {
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
}
"""Errors that brokers answer for a while after a start, a topic's creation or a move of its leader."""
_LOST = {KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE}


@dataclass(frozen=True, slots=True)
class Identity:
    """A worker's names in Kafka. The same slot on the same host is the same member after a restart."""

    service: str
    slot: int
    prefix: str
    host: str = field(default_factory=socket.gethostname)

    @property
    def group(self) -> str:
        """The consumer group, shared by all slots of a service."""
        return f"{self.prefix}{self.service}"

    @property
    def progress_group(self) -> str:
        """The group without members that has the same offsets; see `ragweir.streams.runtime.recovery`."""
        return f"{self.group}.progress"

    @property
    def member(self) -> str:
        """The static member id, which is also the transactional id.

        >>> Identity("evaluate", 2, "rag.", "node-1").member
        'rag.evaluate-node-1-2'
        """
        return f"{self.group}-{self.host}-{self.slot}"


class Connection:
    """The state of the connection to the brokers, from librdkafka's errors.

    Args:
        quiet: true to log nothing.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self.lost_reason = ""
        """The reason why no broker is connected; empty while one is."""
        self.auth_error = ""
        """The error of the last failed authentication; empty without one."""
        self.last_error = ""
        """The last error of a connection, such as one of TLS at a port without it."""
        self._failed_at = -math.inf
        """The monotonic time of the newest failure."""

    @property
    def quiet_s(self) -> float:
        """The time in seconds since a connection to any broker last failed; infinite if none has.

        >>> connection = Connection(quiet=True)
        >>> connection.quiet_s
        inf
        >>> connection.on_lost("no broker is up")
        >>> connection.quiet_s < 60
        True
        """
        return machine.monotonic() - self._failed_at

    def on_error(self, error: KafkaError) -> None:
        """Handle a call of the error callback. librdkafka reconnects by itself."""
        if error.code() == KafkaError._TRANSPORT:
            self.last_error = error.str()
            self._failed_at = machine.monotonic()
        if error.code() in _AUTH_ERRORS:
            self.auth_error = error.str()
        elif error.code() in _LOST:
            self.on_lost(error.str())

    def on_lost(self, reason: str) -> None:
        """Set the connection to lost; log it once until it is back."""
        if not self.lost_reason and not self._quiet:
            log.warning("broker lost; waiting for it", reason=reason)
        self.lost_reason = self.lost_reason or reason
        self._failed_at = machine.monotonic()

    def on_answer(self) -> None:
        """Set the connection to established: a broker has answered."""
        if self.lost_reason:
            self._failed_at = machine.monotonic()
            if not self._quiet:
                log.info("broker is back")
        self.lost_reason = self.auth_error = ""


def consumer_properties(
    settings: Settings, identity: Identity, connection: Connection, assignor: Assignor = "roundrobin"
) -> dict[str, Any]:
    """Return the properties of a worker's consumer: a static member without automatic commits and offset resets."""
    return {
        "session.timeout.ms": 10_000,
        "heartbeat.interval.ms": 2_000,
        # The default is 64 MiB of memory.
        "queued.max.messages.kbytes": 16 * 1024,
        # The default, 1,000 ms, is longer than a worker needs for what is queued: it would wait for the rest.
        "fetch.queue.backoff.ms": 20,
        "fetch.wait.max.ms": 50,
        **client_properties(settings, connection),
        "group.id": identity.group,
        "group.instance.id": identity.member,
        "group.protocol": "classic",
        # Not cooperative: a static member that dies during a revocation comes back without the partitions and without
        # a rebalance, so that no member reads them.
        "partition.assignment.strategy": assignor,
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "error",
    }


def producer_properties(settings: Settings, identity: Identity, connection: Connection) -> dict[str, Any]:
    """Return the properties of a worker's transactional producer, with the partitioner of Java's client."""
    return {
        "transaction.timeout.ms": 10_000,
        "message.max.bytes": max_record_bytes(settings.limits.max_event_bytes),
        "queue.buffering.max.kbytes": 64 * 1024,
        "linger.ms": 5,
        "compression.type": "lz4",
        # Each report costs a call.
        "delivery.report.only.error": True,
        **client_properties(settings, connection),
        "transactional.id": identity.member,
        "partitioner": "murmur2_random",
    }


def reader_properties(settings: Settings) -> dict[str, Any]:
    """Return the properties of a consumer that joins no group and commits nothing; Kafka requires the group id."""
    return {
        **client_properties(settings),
        "group.id": "ragweir-reader",
        # The end of a partition is reported after an empty fetch.
        "fetch.wait.max.ms": 50,
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": "read_committed",
        "auto.offset.reset": "earliest",
    }


def partition_counts(admin: AdminClient, connection: Connection, timeout_s: float = _CALL_SECONDS) -> Mapping[str, int]:
    """Return the partition counts of all topics.

    Raises:
        Unreachable: if no broker answers in time.
        PermanentError: if authentication failed.
    """
    try:
        # The admin client's callbacks run inside poll only.
        admin.poll(0)
        topics = admin.list_topics(timeout=timeout_s).topics
    except KafkaException as error:
        admin.poll(0)
        if connection.auth_error:
            raise PermanentError(_failed_authentication(connection.auth_error)) from None
        # A connection that is closed without an answer has no better error.
        reason = (
            connection.last_error or f"{error.args[0].str()}; a broker that expects TLS or SASL gives the same error"
        )
        raise Unreachable(
            f"no broker answers ({reason}); is Kafka running, are kafka.bootstrap_servers and kafka.client right?"
        ) from None
    connection.on_answer()
    return {name: len(topic.partitions) for name, topic in topics.items()}


def _failed_authentication(reason: str) -> str:
    """Return a failed authentication as a message; librdkafka gives one error for all faults of a certificate."""
    if "certificate verify failed" not in reason:
        return f"Kafka rejects the connection: {reason}"
    return (
        'Kafka\'s certificate is not accepted: set kafka.client with "ssl.ca.location" to the file of its CA, and use '
        f"host names in kafka.bootstrap_servers that the certificate has ({reason})"
    )


def connected_admin(settings: Settings) -> tuple[AdminClient, Mapping[str, int]]:
    """Return an admin client and the partition counts of all topics; may raise what `partition_counts` raises."""
    connection = Connection(quiet=True)
    admin = build(AdminClient, client_properties(settings, connection))
    return admin, partition_counts(admin, connection)


def wait_for_topics(
    settings: Settings, wanted: Collection[str], stopped: Callable[[], bool], *, needs_all: bool = True
) -> Mapping[str, int] | None:
    """Wait for a broker and for topics; return the partition counts of all topics, or None once stopped.

    Args:
        settings: all settings.
        wanted: the full names of the topics.
        stopped: returns true once the worker is to stop.
        needs_all: false if some of the topics are sufficient once others were missing for some seconds.

    Raises:
        PermanentError: if a wanted topic is missing for some seconds, or authentication failed.
        ConfigurationError: if the settings cannot be used.
    """
    connection = Connection(quiet=True)
    admin = build(AdminClient, client_properties(settings, connection))
    missing_until: float | None = None
    logged = False
    while not stopped():
        try:
            present = partition_counts(admin, connection, timeout_s=2.0)
        except Unreachable as error:
            if not logged:
                servers = settings.kafka.bootstrap_servers
                log.warning("no broker answers; waiting for one", servers=servers, reason=str(error))
            logged = True
        else:
            if not (missing := [topic for topic in wanted if topic not in present]):
                return present
            missing_until = missing_until or machine.monotonic() + _NEW_TOPIC_SECONDS
            if machine.monotonic() > missing_until:
                if not needs_all and len(missing) < len(wanted):
                    return present
                raise PermanentError(
                    f"there is no topic {', '.join(missing)}, or it may not be seen; `ragweir topics create` makes ours"
                )
        machine.sleep(_PAUSE_SECONDS)
    return None


def is_transient(error: Exception) -> bool:
    """Return whether an error passes by itself, as leaders and coordinators are being elected."""
    return isinstance(error, KafkaException) and error.args[0].code() in _TRANSIENT
