"""The files runtime: a JSONL file through an agent, without a broker; the same bytes out whenever it runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from streams.agents.agent import Agent, Mindful, Outcome, Record


def read_lines(file: BinaryIO, max_bytes: int) -> Iterator[tuple[int, bytes]]:
    r"""The lines of a file with their numbers, from 1; blank ones are passed over.

    A line over `max_bytes` comes as its first `max_bytes` + 1 bytes, so that whoever reads it refuses its size
    and memory stays bounded.

    >>> import io
    >>> list(read_lines(io.BytesIO(b"{}\n\n" + b"x" * 9 + b"\n[]"), max_bytes=4))
    [(1, b'{}'), (3, b'xxxxx'), (4, b'[]')]
    """
    number = 0
    while line := file.readline(max_bytes + 2):
        number += 1
        whole = line.endswith(b"\n")
        kept = line.rstrip(b"\r\n")
        while not whole and (rest := file.readline(1024 * 1024)):
            whole = rest.endswith(b"\n")
        if kept.strip():
            yield number, kept[: max_bytes + 1]


def run(agent: Agent, file: BinaryIO, name: str, max_bytes: int) -> Iterator[tuple[Record, Outcome]]:
    """Drive an agent with the lines of a file: each is a record of partition 0 whose offset is its line number.

    Args:
        agent: computes what to emit.
        file: JSON lines.
        name: stands as the records' topic.
        max_bytes: the largest event.
    """
    for number, line in read_lines(file, max_bytes):
        record = Record(topic=name, partition=0, offset=number, key=None, value=line, timestamp_ms=None)
        yield record, agent.handle([record])
        if isinstance(agent, Mindful):
            agent.settled(committed=True)
