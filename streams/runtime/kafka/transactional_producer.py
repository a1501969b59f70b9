"""A transactional producer whose transactions are no longer than the brokers allow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import structlog
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from ragweir.errors import PermanentError
from ragweir.streams.runtime.kafka.client import Connection, build, client_properties
from ragweir.streams.runtime.kafka.configurations import broker_limits
from ragweir.streams.settings import Settings

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

TIMEOUT, LIMIT = "transaction.timeout.ms", "transaction.max.timeout.ms"
_SHORTEST_MS = 1_000
"""The shortest transaction timeout of librdkafka."""
_WITHIN = "message.timeout.ms", "socket.timeout.ms"
"""Properties that librdkafka does not accept above the transaction timeout; it adapts them if they are not set."""


class TransactionalProducer:
    """A producer of transactions, which is replaced until the brokers accept its transaction timeout.

    They reject it above their own `transaction.max.timeout.ms`. The next timeout is theirs, or half of the last one if
    the user may not read theirs.

    Args:
        settings: all settings.
        properties: the producer's properties.
    """

    def __init__(self, settings: Settings, properties: Mapping[str, Any]) -> None:
        self._settings, self._properties = settings, dict(properties)
        self.client: Producer = build(Producer, self._properties)

    @property
    def timeout_s(self) -> float:
        """The transaction timeout in seconds."""
        return int(self._properties[TIMEOUT]) / 1_000

    def initialise(self, call: Callable[[], object]) -> None:
        """Call `init_transactions` of the client by `call`, with shorter timeouts while the brokers reject the timeout.

        Raises:
            PermanentError: if they reject the shortest one.
            KafkaException: as `call`.
        """
        given_ms = self._properties[TIMEOUT]
        while True:
            try:
                call()
                break
            except KafkaException as error:
                if error.args[0].code() != KafkaError.INVALID_TRANSACTION_TIMEOUT:
                    raise
            self._shorten()
        if self._properties[TIMEOUT] != given_ms:
            log.warning(
                "the brokers allow no transactions as long as the setting; shorter ones are used",
                setting=f"{TIMEOUT}={given_ms}",
                used_ms=self._properties[TIMEOUT],
                limit=LIMIT,
            )

    def _shorten(self) -> None:
        rejected = int(self._properties[TIMEOUT])
        if rejected <= _SHORTEST_MS:
            raise PermanentError(
                f"the brokers reject transactions of {rejected} ms, the shortest that there are: raise their {LIMIT}"
            )
        limit = broker_limit_ms(build(AdminClient, client_properties(self._settings, Connection(quiet=True))))
        shorter = limit if limit is not None and limit < rejected else rejected // 2
        self._properties[TIMEOUT] = timeout = max(_SHORTEST_MS, shorter)
        for name in _WITHIN:
            if name in self._properties:
                self._properties[name] = min(int(self._properties[name]), timeout)
        self.client = build(Producer, self._properties)


def broker_limit_ms(admin: AdminClient) -> int | None:
    """Return the longest transaction timeout that the brokers accept; None if it cannot be read."""
    limits = broker_limits(admin, LIMIT)
    return None if limits is None else limits[0]
