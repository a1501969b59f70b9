"""How every part of ragweir reaches Kafka: one place for client properties, identities and what errors mean."""

from __future__ import annotations

import logging
import math
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import stamina
import structlog
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from ragweir.errors import PermanentError, Unreachable
from ragweir.schemas.topics import max_record_bytes
from ragweir.streams.settings import Settings, import_function

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

ASK_TIMEOUT_S = 5.0
SILENCE_S = 5.0
"""A broker that has not answered the same call for so long is lost, even where librdkafka does not say so: its error
callback tells of connections that break, and may have told another client only."""

Client = TypeVar("Client")
Assignor = Literal["roundrobin", "range"]
"""How partitions are dealt out: evenly over all topics, or the same partition of every topic to the same member."""

_SIGN_IN = {KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED, KafkaError._SSL}
"""Errors that waiting does not mend."""
_SETTLING = {
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
}
"""What brokers answer for a while after a start, a topic was made or its leader moved; clients do not ask again."""
_LOST = {KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE}


@dataclass(frozen=True, slots=True)
class Identity:
    """Who a worker is to Kafka. The same slot on the same host is the same member after a restart."""

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
        """The group without members that holds the same offsets; see `ragweir.streams.runtimes.progress_group`."""
        return f"{self.group}.progress"

    @property
    def member(self) -> str:
        """Both the static member id and the transactional id.

        >>> Identity("evaluate", 2, "rag.", "node-1").member
        'rag.evaluate-node-1-2'
        """
        return f"{self.group}-{self.host}-{self.slot}"


class Connection:
    """Whether the broker is within reach, as librdkafka's own errors tell it.

    Args:
        quiet: leave telling it to whoever asks.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self.lost_because = ""
        """Empty while all is well."""
        self.refused_because = ""
        """Set once signing in has failed."""
        self.why = ""
        """What last went wrong with a connection, such as TLS that meets a port without it."""
        self._trouble_at = -math.inf
        """The time of the newest sign that a broker was away, by the monotonic clock."""

    @property
    def quiet_s(self) -> float:
        """The time in seconds since a connection to any broker last failed; infinite if none has.

        >>> connection = Connection(quiet=True)
        >>> connection.quiet_s
        inf
        >>> connection.lost("no broker is up")
        >>> connection.quiet_s < 60
        True
        """
        return time.monotonic() - self._trouble_at

    def on_error(self, error: KafkaError) -> None:
        """What librdkafka's error callback tells. It goes on trying by itself whatever happens here."""
        if error.code() == KafkaError._TRANSPORT:
            self.why = error.str()
            self._trouble_at = time.monotonic()
        if error.code() in _SIGN_IN:
            self.refused_because = error.str()
        elif error.code() in _LOST:
            self.lost(error.str())

    def lost(self, reason: str) -> None:
        """The broker does not answer. Told once, until it is back."""
        if not self.lost_because and not self._quiet:
            log.warning("broker lost; waiting for it", reason=reason)
        self.lost_because = self.lost_because or reason
        self._trouble_at = time.monotonic()

    def back(self) -> None:
        """The broker has answered."""
        if self.lost_because:
            self._trouble_at = time.monotonic()
            if not self._quiet:
                log.info("broker is back")
        self.lost_because = self.refused_because = ""


def _silent(record: logging.LogRecord) -> bool:
    # librdkafka repeats each connection error once a second; `Connection` says it once.
    return record.levelno >= logging.CRITICAL


def _rdkafka_logger() -> logging.Logger:
    logger = logging.getLogger("librdkafka")
    if _silent not in logger.filters:
        logger.addFilter(_silent)
    return logger


def client_properties(settings: Settings, connection: Connection | None = None) -> dict[str, Any]:
    """The properties that all clients share, the user's own among them.

    Raises:
        ConfigurationError: if `kafka.oauth` names no function.
    """
    properties: dict[str, Any] = {
        "bootstrap.servers": settings.kafka.bootstrap_servers,
        "client.id": "ragweir",
        "reconnect.backoff.max.ms": 2_000,
        "logger": _rdkafka_logger(),
        **settings.kafka.client,
    }
    if connection is not None:
        properties["error_cb"] = connection.on_error
    if settings.kafka.oauth:
        properties["oauth_cb"] = _SignIn(settings.kafka.oauth)
    return properties


class _SignIn:
    """The user's function for signing in, and how it failed, which librdkafka does not tell."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._function = import_function(place)
        self.failed = ""

    def __call__(self, _: str) -> Any:
        try:
            return self._function()
        except Exception as error:
            # By its class only: the message may hold what the token was made of.
            self.failed = f"kafka.oauth: {self._place} raised {type(error).__name__}"
            raise


def build(make: Callable[[dict[str, Any]], Client], properties: dict[str, Any]) -> Client:
    """Make a client.

    Raises:
        PermanentError: if librdkafka does not accept a property.
    """
    try:
        return make(properties)
    except KafkaException as error:
        sign_in = properties.get("oauth_cb")
        failed = sign_in.failed if isinstance(sign_in, _SignIn) else ""
        raise PermanentError(failed or f"the Kafka client refuses its settings: {error.args[0].str()}") from None


def consumer_properties(
    settings: Settings, identity: Identity, connection: Connection, assignor: Assignor = "roundrobin"
) -> dict[str, Any]:
    """A worker's consumer: a static member that commits nothing by itself and starts nowhere by itself."""
    return {
        "session.timeout.ms": 10_000,
        "heartbeat.interval.ms": 2_000,
        # Prefetch is memory: by default librdkafka would keep 64 MiB.
        "queued.max.messages.kbytes": 16 * 1024,
        "fetch.wait.max.ms": 50,
        **client_properties(settings, connection),
        "group.id": identity.group,
        "group.instance.id": identity.member,
        "group.protocol": "classic",
        # Not cooperative: a static member that dies between being told to give partitions up and having done so comes
        # back without them and asks for no further rebalance, so that nobody reads them.
        "partition.assignment.strategy": assignor,
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "error",
    }


def producer_properties(settings: Settings, identity: Identity, connection: Connection) -> dict[str, Any]:
    """A worker's transactional producer; keys go where Java's client would put them."""
    return {
        "transaction.timeout.ms": 10_000,
        "message.max.bytes": max_record_bytes(settings.limits.max_event_bytes),
        "queue.buffering.max.kbytes": 64 * 1024,
        "linger.ms": 5,
        "compression.type": "lz4",
        # Only failures are news; each report costs a call.
        "delivery.report.only.error": True,
        **client_properties(settings, connection),
        "transactional.id": identity.member,
        "partitioner": "murmur2_random",
    }


def publisher_properties(settings: Settings, connection: Connection) -> dict[str, Any]:
    """A producer outside any transaction: retried sends neither double nor change their order."""
    return {
        "message.max.bytes": max_record_bytes(settings.limits.max_event_bytes),
        "message.timeout.ms": 30_000,
        "queue.buffering.max.kbytes": 64 * 1024,
        "compression.type": "lz4",
        **client_properties(settings, connection),
        "enable.idempotence": True,
        "partitioner": "murmur2_random",
    }


def reader_properties(settings: Settings) -> dict[str, Any]:
    """A consumer that only looks: it joins no group and commits nothing. Its group id is a formality."""
    return {
        **client_properties(settings),
        "group.id": "ragweir-reader",
        # The end of a partition is told after a fetch that found nothing.
        "fetch.wait.max.ms": 50,
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": "read_committed",
        "auto.offset.reset": "earliest",
    }


def ask(admin: AdminClient, connection: Connection, timeout_s: float = ASK_TIMEOUT_S) -> Mapping[str, int]:
    """All topics with their numbers of partitions.

    Raises:
        Unreachable: if no broker answers in time.
        PermanentError: if signing in failed.
    """
    try:
        # The admin client's own callbacks run only inside poll.
        admin.poll(0)
        topics = admin.list_topics(timeout=timeout_s).topics
    except KafkaException as error:
        admin.poll(0)
        if connection.refused_because:
            raise PermanentError(f"Kafka refuses the connection: {connection.refused_because}") from None
        # Of a connection that is closed without an answer librdkafka says no more than that.
        why = connection.why or f"{error.args[0].str()}; so it looks too where TLS or SASL is expected and not set"
        raise Unreachable(
            f"no broker answers ({why}); is Kafka running, are kafka.bootstrap_servers and kafka.client right?"
        ) from None
    connection.back()
    return {name: len(topic.partitions) for name, topic in topics.items()}


def wait_for_broker(settings: Settings, stopped: Callable[[], bool]) -> Mapping[str, int] | None:
    """Ask until a broker answers, waiting longer each time up to 3 s; None if told to stop meanwhile.

    Raises:
        PermanentError: if signing in failed.
        ConfigurationError: if the settings cannot be used.
    """
    connection = Connection(quiet=True)
    admin = build(AdminClient, client_properties(settings, connection))
    told = False
    for attempt in stamina.retry_context(on=Unreachable, attempts=None, timeout=None, wait_initial=0.2, wait_max=3):
        with attempt:
            if stopped():
                return None
            try:
                return ask(admin, connection, timeout_s=2.0)
            except Unreachable as error:
                if not told:
                    told = True
                    servers = settings.kafka.bootstrap_servers
                    log.warning("no broker answers; waiting for one", servers=servers, reason=str(error))
                raise
    return None


def settling(error: Exception) -> bool:
    """Whether to ask again: leaders and coordinators are just being made known."""
    return isinstance(error, KafkaException) and error.args[0].code() in _SETTLING


def missing_topics(wanted: Iterable[str], present: Mapping[str, int]) -> list[str]:
    """Which of the wanted topics do not exist."""
    return [topic for topic in wanted if topic not in present]
