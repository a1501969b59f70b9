"""Settings of the Schema Registry."""

from __future__ import annotations

from pathlib import Path

from pydantic import field_validator

from ragweir.schemas.nearest import nearest_hint
from ragweir.streams.settings.group import SettingsGroup

CLIENT_PROPERTIES = (
    "basic.auth.user.info",
    "bearer.auth.token",
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.key.password",
)
"""The names that `registry.client` may have, which are those of Confluent's clients."""


class RegistrySettings(SettingsGroup):
    """A Schema Registry with Confluent's API, for records in Avro, Protobuf or JSON with a schema."""

    url: str | None = None
    """Address of the registry, such as https://registry:8081. Unset: there is none."""
    client: dict[str, str] = {}
    """Properties of the connection by the names that Confluent's clients have: `ssl.ca.location`,
    `ssl.certificate.location`, `ssl.key.location`, `ssl.key.password`, `basic.auth.user.info` (user:password) and
    `bearer.auth.token`. In the environment, underscores stand for dots: RAGWEIR_REGISTRY__CLIENT__BEARER_AUTH_TOKEN."""
    descriptors: Path | None = None
    """File with a Protobuf descriptor set of the messages, as `protoc --include_imports --descriptor_set_out` writes
    it. Needed for `input.format` `protobuf` only."""

    @field_validator("client", mode="before")
    @classmethod
    def _with_dots(cls, client: object) -> object:
        return {name.replace("_", "."): value for name, value in client.items()} if isinstance(client, dict) else client

    @field_validator("client")
    @classmethod
    def _has_known_names(cls, client: dict[str, str]) -> dict[str, str]:
        if unknown := sorted(client.keys() - set(CLIENT_PROPERTIES)):
            near = nearest_hint(unknown[0], CLIENT_PROPERTIES)
            raise ValueError(f"{', '.join(unknown)}: a property is one of {', '.join(CLIENT_PROPERTIES)}{near}")
        return client
