"""The checker of traces: reads `spans` and the outputs of join to their ends, and compares them.

The interactions have to be those of a batch reference over the same log, byte for byte, and those that the generator
knows of: none lost, none doubled, and none torn whose spans came within `settle_s`.
"""

from __future__ import annotations

import json
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition

from chaos.findings import Defect, Findings
from chaos.trace_events import Truth, interaction
from chaos.trace_reference import TraceTimes, joined
from ragweir.streams.runtime.kafka.client_messages import record_of
from ragweir.streams.runtime.records import Record

_POLL_S = 0.5


def read_topic(bootstrap: str, topic: str, partition: int, within_s: float = 60.0) -> Iterator[Record]:
    """Yield the committed records of a partition.

    Raises:
        TimeoutError: if an open transaction hides its end.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "chaos-traces",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )
    try:
        at = TopicPartition(topic, partition, 0)
        end = consumer.get_watermark_offsets(at, timeout=within_s)[1]
        consumer.assign([at])
        reached, until = 0, time.monotonic() + within_s
        while reached < end:
            for message in consumer.consume(1_000, _POLL_S):
                error = message.error()
                if error is None:
                    until = time.monotonic() + within_s
                    yield record_of(message)
                elif error.code() == KafkaError._PARTITION_EOF:
                    reached = message.offset() or 0
            if time.monotonic() > until:
                raise TimeoutError(f"an open transaction hides the end of {topic}/{partition}")
    finally:
        consumer.close()


class TraceChecker:
    """Compares the outputs of join.

    Args:
        bootstrap: the brokers.
        prefix: prefix of the topics.
        partitions: number of partitions of each topic with the prefix.
        truth: the traces that were sent.
        times: the settings of assemble.
    """

    def __init__(self, bootstrap: str, prefix: str, partitions: int, truth: Truth, times: TraceTimes) -> None:
        self._bootstrap, self._prefix, self._partitions = bootstrap, prefix, partitions
        self._truth, self._times = truth, times
        self.findings = Findings()
        self.dead_letters: Counter[str] = Counter()
        """Dead letters by the class of error."""
        self.flags: Counter[str] = Counter()
        """Interactions by flags of their assembly, `whole` for those without."""
        self.span_records = 0
        self.in_time = self.torn_late = 0
        """Traces whose spans came within `settle_s`, and others that were emitted without all of their spans."""

    def compare(self) -> Findings:
        """Read all topics, and return what is wrong.

        Raises:
            TimeoutError: if an open transaction hides the end of a topic.
        """
        found: _Found = defaultdict(list)
        letters: Counter[bytes] = Counter()
        for partition in range(self._partitions):
            for record in self._read("interactions", partition):
                found[record.key or b""].append(_Output.read(record))
            for record in self._read("dead-letter", partition):
                letters[_digest(record.key, record.value)] += 1
                headers = dict(record.headers)
                self.dead_letters[(headers.get("ragweir-error-class") or b"").decode()] += 1
        self._compare_with_reference(found, letters)
        self._compare_with_truth(found)
        return self.findings

    def _read(self, topic: str, partition: int) -> Iterator[Record]:
        return read_topic(self._bootstrap, self._prefix + topic, partition)

    def _compare_with_reference(self, found: _Found, letters: Counter[bytes]) -> None:
        interactions, dead = self.findings.of("interactions, by the reference"), self.findings.of("dead letters")
        interactions.found, dead.found = sum(map(len, found.values())), letters.total()
        expected: dict[bytes, bytes] = {}
        for partition in range(self._partitions):
            records = list(self._read("spans", partition))
            self.span_records += sum(record.key is not None for record in records)
            for emission in joined(records, self._times):
                digest = _digest(emission.key, emission.value)
                if emission.topic == "dead-letter":
                    dead.expected += 1
                    letters[digest] -= 1
                elif emission.topic == "interactions":
                    interactions.expected += 1
                    expected[emission.key or b""] = digest
        for key in expected.keys() | found.keys():
            if defect := _defect(found.get(key, []), expected.get(key)):
                interactions.add(defect, f"{key!r}")
        for _ in (+letters).elements():
            dead.add("duplicated", "a dead letter that the reference has not")
        for _ in (-letters).elements():
            dead.add("lost", "a dead letter of the reference")

    def _compare_with_truth(self, found: _Found) -> None:
        """Compare with what the generator knows. A root that never came has no certain interaction."""
        truth, result = self._truth, self.findings.of("interactions, by the generator")
        outputs: defaultdict[int, list[_Output]] = defaultdict(list)
        for key, values in found.items():
            outputs[int(key.partition(b":")[0], 16) - 1] += values
        for number, count in enumerate(truth.spans):
            in_time = truth.in_time(number, self._times.settle_s)
            self.in_time += in_time
            if number in truth.orphans:
                continue
            result.expected += 1
            mine = outputs.pop(number, [])
            result.found += len(mine)
            if len(mine) != 1:
                result.add("duplicated" if mine else "lost", f"trace {number}, {len(mine)} times")
                continue
            self.flags[mine[0].flags] += 1
            torn = mine[0].spans != count or not mine[0].whole
            self.torn_late += torn and not in_time
            if torn and in_time:
                result.add("wrong", f"trace {number} is torn: {mine[0].spans} spans of {count}")
        for number in outputs.keys() - truth.orphans:
            result.add("wrong", f"trace {number} was never sent")


@dataclass(frozen=True, slots=True)
class _Output:
    """One interaction."""

    digest: bytes
    """Digest of its key and value."""
    spans: int
    """Number of its spans."""
    flags: str
    """Flags of its assembly; `whole` without any."""
    whole: bool
    """True if its id, question, answer and contexts are those that were sent."""

    @classmethod
    def read(cls, record: Record) -> _Output:
        event = json.loads(record.value or b"")
        assembly = event.get("assembly") or {}
        flags = " ".join(assembly.get("flags") or ()) or "whole"
        return cls(_digest(record.key, record.value), assembly.get("spans", 0), flags, _is_whole(event))


def _defect(outputs: Sequence[_Output], expected: bytes | None) -> Defect | None:
    """Return the defect of the outputs with one key, of which the reference has one with this digest."""
    if not outputs:
        return "lost"
    if len(outputs) > 1:
        return "duplicated"
    return None if outputs[0].digest == expected else "wrong"


_Found = defaultdict[bytes, list[_Output]]
"""The interactions by key."""


def _digest(key: bytes | None, value: bytes | None) -> bytes:
    return sha256(repr((key or b"", value or b"")).encode()).digest()


def _is_whole(event: dict[str, Any]) -> bool:
    asked = interaction(int(event["event_id"].partition(":")[0], 16) - 1)
    texts = [context.text for context in asked.contexts or ()]
    return (
        event["event_id"] == f"{asked.trace_id}:{asked.span_id}"
        and (event.get("query"), event.get("response")) == (asked.query, asked.response)
        and [context.get("text") for context in event.get("contexts") or ()] == texts
    )
