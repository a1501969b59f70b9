"""Translates the settings of the Kafka connection to Faust's options."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any

from faust.auth import SASLCredentials, SSLCredentials

from ragweir.errors import ConfigurationError
from ragweir.streams.settings import KafkaSettings

_SUPPORTED = {
    "security.protocol",
    "sasl.mechanism",
    "sasl.mechanisms",
    "sasl.username",
    "sasl.password",
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.key.password",
    "session.timeout.ms",
    "heartbeat.interval.ms",
}
"""The librdkafka properties with a counterpart in Faust."""
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


def connection_options(kafka: KafkaSettings) -> dict[str, Any]:
    """Return the Faust options of the connection.

    Raises:
        ConfigurationError: if a property has no counterpart, or a file of TLS cannot be read.
    """
    client = kafka.client
    if others := sorted(client.keys() - _SUPPORTED):
        raise ConfigurationError(
            f"kafka.client sets {', '.join(others)}, which the Faust runtime has no counterpart for"
        )
    if kafka.oauth:
        raise ConfigurationError("kafka.oauth is not for the Faust runtime; use `--runtime kafka`")
    return {
        "broker": [f"kafka://{each.strip()}" for each in kafka.bootstrap_servers.split(",")],
        "broker_client_id": "ragweir",
        "broker_credentials": _credentials(client),
        "broker_session_timeout": float(client.get("session.timeout.ms", 10_000)) / 1000,
        "broker_heartbeat_interval": float(client.get("heartbeat.interval.ms", 2_000)) / 1000,
    }


def _credentials(client: Mapping[str, Any]) -> SASLCredentials | SSLCredentials | None:
    protocol = str(client.get("security.protocol", "plaintext")).upper()
    context = None
    if protocol in ("SSL", "SASL_SSL"):
        try:
            context = ssl.create_default_context(cafile=client.get("ssl.ca.location"))
            if certificate := client.get("ssl.certificate.location"):
                context.load_cert_chain(certificate, client.get("ssl.key.location"), client.get("ssl.key.password"))
        except OSError as error:
            raise ConfigurationError(
                f"a file of kafka.client's ssl properties cannot be used ({error.strerror})"
            ) from None
    match protocol:
        case "PLAINTEXT":
            return None
        case "SSL":
            return SSLCredentials(context)
        case "SASL_PLAINTEXT" | "SASL_SSL":
            mechanism = str(client.get("sasl.mechanism", client.get("sasl.mechanisms", "GSSAPI")))
            if mechanism not in _MECHANISMS:
                known = ", ".join(_MECHANISMS)
                raise ConfigurationError(f"the Faust runtime signs in by sasl.mechanism {known}, not by {mechanism}")
            names = {"username": client.get("sasl.username"), "password": client.get("sasl.password")}
            return SASLCredentials(**names, mechanism=mechanism, ssl_context=context)
    raise ConfigurationError(f"kafka.client's security.protocol is none that there is: {protocol.lower()}")
