"""Settings of the connection to Kafka and of ragweir's topics."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints, field_validator

from ragweir.streams.settings.group import SettingsGroup

GUARDED = frozenset(
    {
        "acks",
        "auto.offset.reset",
        "bootstrap.servers",
        "enable.auto.commit",
        "enable.auto.offset.store",
        "enable.idempotence",
        "group.id",
        "group.instance.id",
        "group.protocol",
        "isolation.level",
        "oauth.cb",
        "partition.assignment.strategy",
        "partitioner",
        "transactional.id",
    }
)
"""The librdkafka properties that carry the guarantees, or have a setting of their own."""


class KafkaSettings(SettingsGroup):
    """How to reach Kafka."""

    bootstrap_servers: str = "127.0.0.1:9092"
    """Kafka's address, or several separated by commas."""
    client: dict[str, str | int | float | bool] = {}
    """Any librdkafka property (TLS, SASL, buffers, timeouts) but the guarded ones.

    Environment variables have no dots in their names, so that RAGWEIR_KAFKA__CLIENT__SASL_PASSWORD is `sasl.password`.
    """
    oauth: str | None = None
    """`module:function` that gives (token, expiry in epoch seconds), for token sign-in."""

    @field_validator("client", mode="before")
    @classmethod
    def _take_names_from_the_environment(cls, client: object) -> object:
        if not isinstance(client, dict):
            return client
        dotted = {name: value for name, value in client.items() if "_" not in name}
        return dotted | {name.replace("_", "."): value for name, value in client.items() if "_" in name}

    @field_validator("client")
    @classmethod
    def _leave_the_guarantees(cls, client: dict[str, str | int | float | bool]) -> dict[str, str | int | float | bool]:
        if refused := sorted(GUARDED & client.keys()):
            raise ValueError(f"{', '.join(refused)} may not be set here: ragweir's guarantees rest on it")
        return client


class TopicSettings(SettingsGroup):
    """Our topics."""

    prefix: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]{0,100}$")] = "rag."
    """What the names of our topics and groups begin with."""
    partitions: Annotated[int, Field(ge=1, le=10_000)] = 12
    """Of each topic; adding some later moves keys, so ask for enough at the start."""
    replication_factor: Annotated[int, Field(ge=-1)] = -1
    """-1 leaves it to the broker."""
