"""The files runtime: drives an agent with the events of a file, without a broker."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ragweir.streams.runtime.agent import Agent
from ragweir.streams.runtime.records import Outcome, Record


def drive(agent: Agent, events: Iterable[tuple[int, bytes]], name: str) -> Iterator[tuple[Record, Outcome]]:
    """Drive an agent with the events of a file: each is a record of partition 0 whose offset is its number.

    Args:
        agent: the agent to drive.
        events: the events as JSON with their numbers, as `ragweir.streams.files.events` reads them.
        name: the topic of the records.
    """
    for number, line in events:
        record = Record(topic=name, partition=0, offset=number, key=None, value=line, timestamp_ms=None)
        yield record, agent.handle([record])
        agent.on_commit()
