"""Finds bootstrap servers that expect TLS; librdkafka does not report why a plaintext connection is closed."""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Iterator

_TIMEOUT_S = 2.0
_MAX_SERVERS = 3
"""Servers that are tried; each one may take the whole timeout."""
_SERVER = re.compile(r"(?:\w+://)?(?:\[(?P<six>[0-9a-fA-F:.]+)\]|(?P<host>[^:/\[\]]+)):(?P<port>\d{1,5})", re.ASCII)


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
        f"{host}:{port}" for host, port in list(addresses(bootstrap_servers))[:_MAX_SERVERS] if _expects_tls(host, port)
    ]


def _expects_tls(host: str, port: int) -> bool:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with (
            socket.create_connection((host, port), _TIMEOUT_S) as plain,
            context.wrap_socket(plain, server_hostname=host),
        ):
            return True
    except ssl.SSLError as error:
        return "ALERT" in (error.reason or "")  # A TLS alert, such as for a missing client certificate.
    except (OSError, ValueError):
        return False
