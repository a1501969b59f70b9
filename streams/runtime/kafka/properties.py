"""Properties that all clients share, and those of a producer for applications; it imports no logging framework."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from confluent_kafka import KafkaError, KafkaException

from ragweir.errors import PermanentError
from ragweir.schemas.topics import max_record_bytes
from ragweir.streams.settings import KafkaSettings, LimitSettings, import_function

_LIBRDKAFKA_LOG = logging.getLogger("librdkafka")
_LIBRDKAFKA_LOG.setLevel(logging.CRITICAL)  # It repeats each connection error once a second; `Connection` logs it once.

Client = TypeVar("Client")


class ConnectionSettings(Protocol):
    """Settings that a connection to Kafka depends on."""

    @property
    def kafka(self) -> KafkaSettings:
        """The connection to Kafka."""

    @property
    def limits(self) -> LimitSettings:
        """Limits on events, which bound the size of records."""


class ErrorListener(Protocol):
    """Receives the errors of a client that are of no single record."""

    def on_error(self, error: KafkaError) -> None:
        """Handle a call of the error callback."""


def client_properties(settings: ConnectionSettings, connection: ErrorListener | None = None) -> dict[str, Any]:
    """Return the properties that all clients share, with those of the user.

    Raises:
        ConfigurationError: if `kafka.oauth` names no function.
    """
    properties: dict[str, Any] = {
        "bootstrap.servers": settings.kafka.bootstrap_servers,
        "client.id": "ragweir",
        "reconnect.backoff.max.ms": 2_000,
        "logger": _LIBRDKAFKA_LOG,
        **settings.kafka.client,
    }
    if connection is not None:
        properties["error_cb"] = connection.on_error
    if settings.kafka.oauth:
        properties["oauth_cb"] = _OauthCallback(settings.kafka.oauth)
    return properties


class _OauthCallback:
    """The user's function for OAuth tokens, and its last error, which librdkafka does not report."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._function = import_function(name)
        self.failed = ""

    def __call__(self, _: str) -> Any:
        try:
            return self._function()
        except Exception as error:
            # The class only: the message may have parts of the token.
            self.failed = f"kafka.oauth: {self._name} raised {type(error).__name__}"
            raise


def build(make: Callable[[dict[str, Any]], Client], properties: dict[str, Any]) -> Client:
    """Make a client.

    Raises:
        PermanentError: if librdkafka does not accept a property.
    """
    try:
        return make(properties)
    except KafkaException as error:
        callback = properties.get("oauth_cb")
        failed = callback.failed if isinstance(callback, _OauthCallback) else ""
        raise PermanentError(failed or f"the Kafka client rejects its settings: {error.args[0].str()}") from None


def publisher_properties(settings: ConnectionSettings, connection: ErrorListener | None) -> dict[str, Any]:
    """Return the properties of an idempotent producer without transactions."""
    return {
        "message.max.bytes": max_record_bytes(settings.limits.max_event_bytes),
        "message.timeout.ms": 30_000,
        "queue.buffering.max.kbytes": 64 * 1024,
        "compression.type": "lz4",
        **client_properties(settings, connection),
        "enable.idempotence": True,
        "partitioner": "murmur2_random",
    }
