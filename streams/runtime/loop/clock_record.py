"""The record by which a worker asks for the brokers' time before its first output."""

from __future__ import annotations

from collections.abc import Iterable

import structlog

from ragweir.streams.runtime.agent import Agent
from ragweir.streams.runtime.loop.broker_clock import BrokerClock
from ragweir.streams.runtime.loop.transactions import Transactions
from ragweir.streams.runtime.records import TopicPartition

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


def commit_clock_record(
    agent: Agent, transactions: Transactions, clock: BrokerClock, partitions: Iterable[TopicPartition]
) -> None:
    """Commit a record whose delivery report has the brokers' time, before the agent's first record.

    Args:
        agent: the agent, which may have such a record.
        transactions: the worker's transactions, of which none is open.
        clock: the clock that reads the delivery report.
        partitions: the partitions of the worker, at least one.
    """
    if (record := agent.clock_record) is None:
        return
    if record.topic == agent.changelog:
        _, partition = next(iter(partitions))
        record = record._replace(partition=partition)
    transactions.write([record])
    transactions.commit()  # Without offsets: the first ones of an agent with a changelog go with its state.
    if not clock.is_brokers:
        log.warning(
            "all times follow this machine's clock: the topic does not have the brokers' time",
            topic=record.topic,
            setting="message.timestamp.type=LogAppendTime",
        )
