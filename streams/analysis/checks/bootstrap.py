"""Asks each address of `kafka.bootstrap_servers` alone, for what the clients do not report.

They need one of them, and hide the others that are dead; librdkafka does not report why a plaintext connection is
closed by a server that expects TLS.
"""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from confluent_kafka.admin import AdminClient

from ragweir.errors import PermanentError, Unreachable
from ragweir.streams.analysis.checks.context import TIMEOUT_SECONDS
from ragweir.streams.runtime.kafka.client import Connection, build, client_properties, partition_counts
from ragweir.streams.settings import Settings

_AT_ONCE = 16
_TLS_TIMEOUT_S = 2.0
_MAX_TLS_SERVERS = 3
"""Servers whose TLS is tried; each one may take the whole timeout."""
_SERVER = re.compile(r"(?:\w+://)?(?:\[(?P<six>[0-9a-fA-F:.]+)\]|(?P<host>[^:/\[\]]+)):(?P<port>\d{1,5})", re.ASCII)


def dead_addresses(settings: Settings) -> list[str]:
    """Return the addresses that do not answer, each with the reason; nothing if there is one address in total.

    All are asked at once, with the settings of every other client; each answer has a time limit.
    """
    addresses = list(dict.fromkeys(filter(None, map(str.strip, settings.kafka.bootstrap_servers.split(",")))))
    if len(addresses) < 2:
        return []
    with ThreadPoolExecutor(min(len(addresses), _AT_ONCE), "bootstrap") as pool:
        reasons = pool.map(partial(_reason, settings), addresses)
        return [f"{address} ({reason})" for address, reason in zip(addresses, reasons, strict=True) if reason]


def _reason(settings: Settings, address: str) -> str:
    """Return why an address does not answer; nothing if it does."""
    kafka = settings.kafka.model_copy(update={"bootstrap_servers": address})
    connection = Connection(quiet=True)
    admin = build(AdminClient, client_properties(settings.model_copy(update={"kafka": kafka}), connection))
    try:
        partition_counts(admin, connection, TIMEOUT_SECONDS)
    except (Unreachable, PermanentError):
        late = f"no answer in {TIMEOUT_SECONDS:g} s"
        return connection.auth_error or connection.last_error or connection.lost_reason or late
    return ""


def addresses(bootstrap_servers: str) -> Iterator[tuple[str, int]]:
    """Yield the host and port of each server in a list.

    >>> list(addresses("kafka-1:9092, PLAINTEXT://[::1]:9093,nonsense"))
    [('kafka-1', 9092), ('::1', 9093)]
    """
    for text in bootstrap_servers.split(","):
        if found := _SERVER.fullmatch(text.strip()):
            yield found["six"] or found["host"], int(found["port"])


def tls_ports(bootstrap_servers: str) -> list[str]:
    """Return the servers that take part in a TLS handshake, as host:port. No certificate is verified."""
    return [
        f"{host}:{port}"
        for host, port in list(addresses(bootstrap_servers))[:_MAX_TLS_SERVERS]
        if _expects_tls(host, port)
    ]


def _expects_tls(host: str, port: int) -> bool:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with (
            socket.create_connection((host, port), _TLS_TIMEOUT_S) as plain,
            context.wrap_socket(plain, server_hostname=host),
        ):
            return True
    except ssl.SSLError as error:
        return "ALERT" in (error.reason or "")  # A TLS alert, such as for a missing client certificate.
    except (OSError, ValueError):
        return False
