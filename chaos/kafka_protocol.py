"""The parts of Kafka's protocol that the proxy reads: the beginnings of requests and responses.

The layouts are those of Kafka's protocol guide (https://kafka.apache.org/protocol) in the versions that librdkafka
uses. A later version is rejected.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

ADD_PARTITIONS: Final = 24
ADD_OFFSETS: Final = 25
END: Final = 26
_TRANSACTIONS: Final = {ADD_PARTITIONS, ADD_OFFSETS, END}
_COMPACT_FROM: Final = 3
"""First version with another layout, of all three."""


@dataclass(frozen=True, slots=True)
class RequestHead:
    """Beginning of a request. `member` is the transactional id up to a `~`; empty if it concerns no transaction."""

    key: int
    correlation: int
    client: str
    member: str = ""
    commits: bool = False
    """True if the request ends a transaction with a commit."""


def _text(data: bytes, at: int) -> tuple[str, int]:
    (length,) = struct.unpack_from(">h", data, at)
    at += 2
    return (data[at : at + length].decode(), at + length) if length >= 0 else ("", at)


def request(frame: bytes) -> RequestHead:
    """Parse the beginning of a request, without its size.

    >>> frame = bytes.fromhex("001a 0001 00000007 0001 61 0002 7478 0000000000000005 0000 01")
    >>> request(frame)
    RequestHead(key=26, correlation=7, client='a', member='tx', commits=True)

    Raises:
        ValueError: if it concerns a transaction, in a later version.
    """
    key, version, correlation = struct.unpack_from(">hhi", frame)
    client, at = _text(frame, 8)
    if key not in _TRANSACTIONS:
        return RequestHead(key, correlation, client)
    if version >= _COMPACT_FROM:
        raise ValueError(f"the client uses version {version} of request {key}, which the proxy cannot read")
    member, at = _text(frame, at)
    commits = key == END and frame[at + 10] == 1  # After the producer id (8 bytes) and the epoch (2).
    return RequestHead(key, correlation, client, member.partition("~")[0], commits)


def failed(of: RequestHead, response: bytes) -> bool:
    """Return True if a response (without its size) has an error code; of added partitions, the first one's counts."""
    at = 4 + 4  # Correlation id, throttle time.
    if of.key == ADD_PARTITIONS:
        _, at = _text(response, at + 4)  # The first of the topics,
        at += 4 + 4  # the first of its partitions.
    return bool(struct.unpack_from(">h", response, at)[0])
