"""Settings of topics that decide whether records are lost: replicas, acknowledgements, elections, retention."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from typing_extensions import override

from ragweir.streams.runtime.kafka.client import build, reader_properties
from ragweir.streams.runtime.kafka.client_messages import topic_partition_of
from ragweir.streams.runtime.kafka.configurations import broker_configuration, configurations
from ragweir.streams.runtime.machine import machine
from ragweir.streams.settings import Settings

_TIMEOUT_S = 5.0
_INTERNAL = {
    "__consumer_offsets": ("offsets.topic.replication.factor", "min.insync.replicas"),
    "__transaction_state": ("transaction.state.log.replication.factor", "transaction.state.log.min.isr"),
}
"""Kafka's own topics, and the broker settings with which they are created."""
_ENOUGH = 3
"""Replicas with which one broker may be down while another one fails."""
_UNITS = ((172_800, 86_400, "days"), (7_200, 3_600, "hours"), (120, 60, "minutes"), (-math.inf, 1, "seconds"))
"""For each unit the seconds from which on it is used, its length in seconds, and its name."""
_NEAR = 0.5
"""The share of the retention from which on an unread record is warned of."""


@dataclass(frozen=True, slots=True)
class Durability:
    """The settings of one topic that decide whether an acknowledged record can be lost.

    Args:
        topic: its full name.
        replicas: the replication factor; the lowest of the topic's partitions.
        min_isr: `min.insync.replicas`.
        unclean: `unclean.leader.election.enable`.
    """

    topic: str
    replicas: int
    min_isr: int
    unclean: bool


@dataclass(frozen=True, slots=True)
class DurabilityVerdict:
    """Faults, by which records are lost or cannot be written, and risks, each with the topics that it concerns."""

    wrong: tuple[str, ...] = ()
    risky: tuple[str, ...] = ()


def verdict(topics: Iterable[Durability], brokers: int) -> DurabilityVerdict:
    """Judge the settings of topics on a cluster of so many brokers.

    >>> verdict([Durability("rag.windows", 3, 2, False)], brokers=3)
    DurabilityVerdict(wrong=(), risky=())
    >>> verdict([Durability("rag.windows", 1, 1, False)], brokers=3).wrong
    ('one replica, which is away or lost with its broker (raise the replication factor): rag.windows',)
    """
    wrong: defaultdict[str, list[str]] = defaultdict(list)
    risky: defaultdict[str, list[str]] = defaultdict(list)
    for each in topics:
        for fault in _faults(each, alone=brokers == 1):
            wrong[fault].append(each.topic)
        for risk in _risks(each, alone=brokers == 1):
            risky[risk].append(each.topic)
    if brokers == 1:
        risky["there is one broker, with which everything is lost: fine for development only"] = []
    return DurabilityVerdict(tuple(_listed(wrong)), tuple(_listed(risky)))


def _faults(topic: Durability, *, alone: bool) -> Iterator[str]:
    if topic.min_isr > topic.replicas:
        yield "nothing can be written, as min.insync.replicas is above the replication factor"
    if alone:
        return
    if topic.replicas == 1:
        yield "one replica, which is away or lost with its broker (raise the replication factor)"
    elif topic.min_isr == 1:
        yield "a write that one broker alone holds is acknowledged, and lost with it (set min.insync.replicas to 2)"
    if topic.unclean:
        yield "a replica that lacks acknowledged records may lead (set unclean.leader.election.enable to false)"


def _risks(topic: Durability, *, alone: bool) -> Iterator[str]:
    if alone or topic.replicas == 1:
        return
    if topic.min_isr == topic.replicas:
        yield "no write while one broker is away, as min.insync.replicas is the replication factor"
    elif topic.replicas < _ENOUGH:
        yield f"fewer than {_ENOUGH} replicas"


def _listed(found: Mapping[str, Sequence[str]]) -> Iterator[str]:
    for text, topics in found.items():
        yield f"{text}: {', '.join(sorted(topics))}" if topics else text


def described(admin: AdminClient, topics: Iterable[str]) -> tuple[list[Durability], int]:
    """Ask Kafka for the settings of topics that exist and of Kafka's own, and for the number of brokers.

    Raises:
        KafkaException: if Kafka does not answer, or the user may not describe configurations.
    """
    cluster = admin.list_topics(timeout=_TIMEOUT_S)
    present = [name for name in chain(topics, _INTERNAL) if name in cluster.topics]
    of_topics = configurations(admin, present)
    found = []
    for name in present:
        config = of_topics[name]
        found.append(
            Durability(
                name,
                min(len(partition.replicas) for partition in cluster.topics[name].partitions.values()),
                int(config["min.insync.replicas"]),
                config["unclean.leader.election.enable"] == "true",
            )
        )
    if absent := [name for name in _INTERNAL if name not in cluster.topics]:
        defaults = broker_configuration(admin)
        for name in absent:
            replicas, min_isr = (int(defaults[key]) for key in _INTERNAL[name])
            found.append(Durability(name, replicas, min_isr, defaults["unclean.leader.election.enable"] == "true"))
    return found, len(cluster.brokers)


@dataclass(frozen=True, slots=True)
class Unread:
    """The oldest unread record of a partition, and the time for which its topic keeps records.

    >>> oldest = Unread("rag.windows", 3, age_s=500_000, kept_s=604_800)
    >>> oldest.near, oldest.due, str(oldest)
    (True, False, 'the oldest unread record of rag.windows/3 is 5.8 days old and the topic keeps records for 7 days')
    """

    topic: str
    partition: int
    age_s: float
    kept_s: float

    @property
    def due(self) -> bool:
        """True if Kafka may delete the record at any moment."""
        return self.age_s >= self.kept_s

    @property
    def near(self) -> bool:
        """True if at least half of the retention has passed."""
        return self.age_s >= _NEAR * self.kept_s

    @override
    def __str__(self) -> str:
        where, age, kept = f"{self.topic}/{self.partition}", _duration(self.age_s), _duration(self.kept_s)
        return f"the oldest unread record of {where} is {age} old and the topic keeps records for {kept}"


def _duration(seconds: float) -> str:
    unit_s, unit = next((length, unit) for least, length, unit in _UNITS if seconds >= least)
    return f"{seconds / unit_s:.1f}".removesuffix(".0") + f" {unit}"


def unread(settings: Settings, places: Sequence[TopicPartition], kept_ms: Mapping[str, str]) -> list[Unread]:
    """Return the oldest unread record of each partition that has one, but for topics without a limit by time."""
    limited = [place for place in places if int(kept_ms[place.topic]) >= 0]
    found = []
    with build(Consumer, reader_properties(settings)) as consumer:
        consumer.assign(limited)
        left, until = len(limited), machine.monotonic() + _TIMEOUT_S
        while left and machine.monotonic() < until:
            message = consumer.poll(0.2)
            if message is None:
                continue
            error = message.error()
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                raise KafkaException(error)
            topic, partition = topic_partition_of(message)
            consumer.incremental_unassign([TopicPartition(topic, partition)])
            left -= 1
            if error is None:
                age_s = machine.time() - message.timestamp()[1] / 1_000
                found.append(Unread(topic, partition, age_s, int(kept_ms[topic]) / 1_000))
    return found
