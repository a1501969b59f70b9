"""Settings of the connection to Kafka and of ragweir's topics."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints, field_validator

from ragweir.streams.settings.group import SettingsGroup

GUARDED = frozenset(
    """
    acks auto.offset.reset bootstrap.servers enable.auto.commit enable.auto.offset.store enable.idempotence group.id
    group.instance.id group.protocol isolation.level oauth.cb partition.assignment.strategy partitioner transactional.id
    """.split()
)
"""The librdkafka properties that `kafka.client` may not set: the guarantees rest on them, or another setting is one."""


class KafkaSettings(SettingsGroup):
    """The connection to Kafka."""

    bootstrap_servers: str = "127.0.0.1:9092"
    """Addresses of Kafka brokers (host:port), separated by commas."""
    client: dict[str, str | int | float | bool] = {}
    """Properties of librdkafka by name, such as those for TLS, SASL, buffers and timeouts. A property that ragweir's
    guarantees rest on is an error. In the environment, underscores stand for dots: RAGWEIR_KAFKA__CLIENT__SASL_PASSWORD
    sets `sasl.password`."""
    oauth: str | None = None
    """Function, named as `module:function`, that returns a token and its expiry in epoch seconds, for SASL OAUTHBEARER.
    Unset: no token is sent."""

    @field_validator("client", mode="before")
    @classmethod
    def _with_dots(cls, client: object) -> object:
        if not isinstance(client, dict):
            return client
        dotted = {name: value for name, value in client.items() if "_" not in name}
        return dotted | {name.replace("_", "."): value for name, value in client.items() if "_" in name}

    @field_validator("client")
    @classmethod
    def _has_no_guarded(cls, client: dict[str, str | int | float | bool]) -> dict[str, str | int | float | bool]:
        if guarded := sorted(GUARDED & client.keys()):
            raise ValueError(f"{', '.join(guarded)} may not be set here: ragweir's guarantees rest on it")
        return client


class TopicSettings(SettingsGroup):
    """The topics that `ragweir topics create` creates."""

    prefix: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]{0,100}$")] = "rag."
    """Prefix of the names of ragweir's topics, consumer groups and transactional ids. Deployments with different
    prefixes share a cluster without touching each other's records."""
    partitions: Annotated[int, Field(ge=1, le=10_000)] = 12
    """Number of partitions of each topic, which bounds the number of workers of a service. Partitions that are added
    later move keys to other partitions, so create enough at the start."""
    replication_factor: Annotated[int, Field(ge=-1)] = -1
    """Replication factor of each topic. -1 takes the broker's default."""
