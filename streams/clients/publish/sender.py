"""Sends captured events to Kafka: what runs on a publisher's own thread."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from ragweir.errors import Rejected
from ragweir.streams.clients.publish.backlog import Backlog, CapturedEvent, DropReason
from ragweir.streams.clients.publish.encoding import EncodedEvent, encode
from ragweir.streams.runtime.kafka.properties import build, publisher_properties
from ragweir.streams.runtime.machine import machine
from ragweir.streams.settings import PublisherSettings

log = logging.getLogger("ragweir.publish")

_DEFAULTS: dict[str, Any] = {
    # An outage of some minutes loses nothing while the queues have room.
    "message.timeout.ms": 300_000,
    # The default of other producers is 64 MiB of memory.
    "queue.buffering.max.kbytes": 16 * 1024,
}
_FULL_WAIT_S = 0.1
_PURGE_S = 0.3
_LOST_INTERVAL_S = 60.0
_LOST = {
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._RESOLVE,
    KafkaError._AUTHENTICATION,
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError._SSL,
}


class Sender:
    """Encodes events, sends them and settles each of them in the backlog.

    Raises:
        PermanentError: if librdkafka does not accept a property.
        ConfigurationError: if `kafka.oauth` names no function.
    """

    def __init__(self, settings: PublisherSettings, backlog: Backlog) -> None:
        self._settings = settings
        self._topics = {False: settings.topic, True: f"{settings.topics.prefix}feedback"}
        """The topics of interactions and of feedback."""
        self._backlog = backlog
        self._lost_at = -_LOST_INTERVAL_S
        properties = publisher_properties(settings, self)
        own = {name: value for name, value in _DEFAULTS.items() if name not in settings.kafka.client}
        self._producer = build(Producer, {**properties, **own})
        backlog.reached.clear()

    def on_error(self, error: KafkaError) -> None:
        """Log a lost connection, at most once a minute. librdkafka reconnects by itself."""
        self._backlog.reached.set()
        if error.code() in _LOST and machine.monotonic() - self._lost_at >= _LOST_INTERVAL_S:
            self._lost_at = machine.monotonic()
            with suppress(Exception):  # of the application's handlers and filters
                log.warning("no broker answers at %s: %s", self._settings.kafka.bootstrap_servers, error.str())

    @property
    def in_flight(self) -> bool:
        """True if sent events are not yet acknowledged."""
        return len(self._producer) > 0

    def send(self, event: CapturedEvent) -> None:
        """Encode and send an event. While librdkafka's queue is full it waits, until the backlog is closed."""
        try:
            record = encode(event, self._settings.publish, self._settings.limits.max_event_bytes)
            self._produce(self._topics[event.is_feedback], record)
        except Rejected as error:
            reason: DropReason = "too_large" if error.error_class == "too_large" else "invalid"
            self._backlog.settle(reason, error.message.partition(";")[0])
        except KafkaException as error:
            large = error.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE
            self._backlog.settle("too_large" if large else "not_delivered", error.args[0].str())
        except Exception as error:  # objects of the application are read here, and may raise anything
            self._backlog.settle("invalid", f"reading it raised {type(error).__name__}")

    def _produce(self, topic: str, record: EncodedEvent) -> None:
        while True:
            try:
                self._producer.produce(
                    topic,
                    record.value,
                    record.key,
                    timestamp=record.timestamp_ms,
                    headers=list(record.headers),
                    on_delivery=self._on_delivery,
                )
                break
            except BufferError:
                if self._backlog.stopped:
                    self._backlog.settle("not_delivered", "the process ended before")
                    return
                self._producer.poll(_FULL_WAIT_S)

    def _on_delivery(self, error: KafkaError | None, _: Message) -> None:
        self._backlog.reached.set()
        if error is None:
            self._backlog.settle()
        else:
            self._backlog.settle("not_delivered", error.str())

    def poll(self) -> None:
        """Handle the acknowledgements that have arrived."""
        self._producer.poll(0)

    def stop(self) -> None:
        """Give up what is not acknowledged, which is settled as not delivered, and end the client."""
        self._producer.purge()
        self._producer.flush(_PURGE_S)
        # It has a reference to this object: a collection would end it in another thread, or in a child, which has none
        # of its threads.
        del self._producer
