"""What passes between clients and a broker, as far as transactions show in it: the heads of requests and answers.

Bodies pass by. The layouts are those of Kafka's protocol guide (https://kafka.apache.org/protocol) in the versions that
librdkafka speaks; a client that spoke a later one would be told so rather than misread.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

ADD_PARTITIONS: Final = 24
ADD_OFFSETS: Final = 25
END: Final = 26
_TRANSACTIONS: Final = {ADD_PARTITIONS, ADD_OFFSETS, END}
_COMPACT_FROM: Final = 3
"""The version from which on all of them have another layout."""


@dataclass(frozen=True, slots=True)
class Request:
    """The head of one request. `member` is the transactional id, empty where the request is about no transaction."""

    key: int
    correlation: int
    client: str
    member: str = ""
    commits: bool = False
    """Of the end of a transaction: whether it is to be committed, rather than aborted."""


def _text(data: bytes, at: int) -> tuple[str, int]:
    (length,) = struct.unpack_from(">h", data, at)
    at += 2
    return (data[at : at + length].decode(), at + length) if length >= 0 else ("", at)


def request(frame: bytes) -> Request:
    """Read the head of a request, without its size.

    >>> frame = bytes.fromhex("001a 0001 00000007 0001 61 0002 7478 0000000000000005 0000 01")
    >>> request(frame)
    Request(key=26, correlation=7, client='a', member='tx', commits=True)

    Raises:
        ValueError: if it is about a transaction in a layout that is not known here.
    """
    key, version, correlation = struct.unpack_from(">hhi", frame)
    client, at = _text(frame, 8)
    if key not in _TRANSACTIONS:
        return Request(key, correlation, client)
    if version >= _COMPACT_FROM:
        raise ValueError(f"the client speaks version {version} of request {key}, which the proxy cannot read")
    member, at = _text(frame, at)
    commits = key == END and frame[at + 10] == 1  # Behind producer id (8 bytes) and epoch (2).
    return Request(key, correlation, client, member, commits)


def failed(of: Request, answer: bytes) -> bool:
    """Whether an answer (without its size) names an error; for partitions that are added, the first one's."""
    at = 4 + 4  # Correlation id, throttle time.
    if of.key == ADD_PARTITIONS:
        _, at = _text(answer, at + 4)  # The first of the topics,
        at += 4 + 4  # the first of its partitions.
    return bool(struct.unpack_from(">h", answer, at)[0])


class Frames:
    r"""Cuts a stream into pieces to be passed on: a frame's head as soon as enough of it is there, then what follows.

    >>> frames = Frames(enough=2)
    >>> list(frames.feed(bytes.fromhex("00000003aabbcc 00000001")))
    [(b'\x00\x00\x00\x03\xaa\xbb', True), (b'\xcc', False)]
    >>> list(frames.feed(b"!"))
    [(b'\x00\x00\x00\x01!', True)]
    """

    def __init__(self, enough: int) -> None:
        self._enough = enough
        self._begun = b""
        self._left = 0

    def feed(self, data: bytes) -> Iterator[tuple[bytes, bool]]:
        """Give what can be passed on, and whether it begins with a head."""
        data = self._begun + data
        self._begun = b""
        while data:
            if self._left:
                piece, data = data[: self._left], data[self._left :]
                self._left -= len(piece)
                yield piece, False
                continue
            size = int.from_bytes(data[:4])
            head = 4 + min(size, self._enough)
            if len(data) < max(4, head):
                self._begun = data
                return
            piece, data = data[:head], data[head:]
            self._left = 4 + size - head
            yield piece, True
