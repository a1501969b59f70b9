"""Asks each address of `kafka.bootstrap_servers` alone: clients need one of them, and hide the others that are dead."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial

from confluent_kafka.admin import AdminClient

from ragweir.errors import PermanentError, Unreachable
from ragweir.streams.analysis.checks.context import TIMEOUT_SECONDS
from ragweir.streams.runtime.kafka.client import Connection, build, client_properties, partition_counts
from ragweir.streams.settings import Settings

_AT_ONCE = 16


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
