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
from typing import Any, NamedTuple

from confluent_kafka import Message

from chaos.findings import Defect, Findings
from chaos.reading import consumer, headers_of, partitions_of, read_partition
from chaos.reference import Reading, joined
from chaos.stalls import Stall
from chaos.truth import Truth, content

_EXTRA_S = 10.0
"""Time beyond `patience_s` for which no further interaction has come in the end, in seconds."""


class _SpansRecord(NamedTuple):
    """A record of `spans`."""

    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]


class TraceChecker:
    """Compares the outputs of join, when services have ended; until then it only looks how many interactions there are.

    Args:
        bootstrap: the brokers.
        prefix: prefix of the topics.
        partitions: number of partitions of each topic with the prefix.
        truth: the traces that were sent.
        settings: the settings `assemble`.
        reading: the functions that read spans, and make interactions of them.
    """

    lag = 0
    stalls: Sequence[Stall] = ()

    def __init__(
        self, bootstrap: str, prefix: str, partitions: int, truth: Truth, settings: Any, reading: Reading
    ) -> None:
        self._bootstrap, self._prefix, self._partitions = bootstrap, prefix, partitions
        self._truth, self._settings, self._reading = truth, settings, reading
        self._watching = consumer(bootstrap)
        self._watching.assign(partitions_of(f"{prefix}interactions", range(partitions)))
        self._seen: set[bytes] = set()
        self._changed = time.monotonic()
        self.findings = Findings()
        self.dead_letters: Counter[str] = Counter()
        """Dead letters by the class of error."""
        self.flags: Counter[str] = Counter()
        """Interactions by flags of their assembly, `whole` for those without."""
        self.span_records = 0
        self.in_time = self.torn_late = 0
        """Traces whose spans came within `settle_s`, and others that were emitted without all of their spans."""

    def start(self) -> None:
        """Do nothing: it reads when it is asked."""

    def watch(self, kind: str) -> None:
        """Measure no stalls."""

    def complete(self, _: int) -> bool:
        """Return True once every trace whose root came has an interaction, and no other has come for long enough."""
        before = len(self._seen)
        self._seen |= {each.key() or b"" for each in self._watching.consume(1_000, 0.5) if each.error() is None}
        if len(self._seen) > before:
            self._changed = time.monotonic()
        enough = len(self._seen) >= len(self._truth.spans) - len(self._truth.orphans)
        return enough and time.monotonic() > self._changed + self._settings.patience_s + _EXTRA_S

    @property
    def progress(self) -> tuple[int, ...]:
        """A value that changes whenever there is new output."""
        return (len(self._seen),)

    def facts(self) -> dict[str, Any]:
        """Return more results as plain data."""
        return {
            "traces": len(self._truth.spans),
            "spans": sum(self._truth.spans),
            "records_of_spans": self.span_records,
            "traces_in_time": self.in_time,
            "late_traces_without_all_spans": self.torn_late,
            "interactions_by_flags": dict(self.flags),
            "dead_letters": dict(self.dead_letters),
        }

    def finish(self, within_s: float) -> Findings:
        """Read all topics, and return what is wrong.

        Raises:
            TimeoutError: if an open transaction hides the end of a topic.
        """
        self._watching.close()
        found: _Found = defaultdict(list)
        letters: Counter[tuple[int, str, bytes]] = Counter()
        for partition in range(self._partitions):
            for message in self._read("interactions", partition, within_s):
                found[message.key() or b""].append(_Output.read(message))
            for message in self._read("dead-letter", partition, within_s):
                headers = {name: value.decode() for name, value in headers_of(message).items()}
                error_class = headers["ragweir-error-class"]
                source = int(headers["ragweir-source-partition"]), f"{error_class} {headers['ragweir-source-offset']}"
                letters[*source, _digest(message.value())] += 1
                self.dead_letters[error_class] += 1
        self._compare_with_reference(found, letters, within_s)
        self._compare_with_truth(found)
        return self.findings

    def _read(self, topic: str, partition: int, within_s: float) -> Iterator[Message]:
        return read_partition(self._bootstrap, self._prefix + topic, partition, within_s)

    def _compare_with_reference(self, found: _Found, letters: Counter[tuple[int, str, bytes]], within_s: float) -> None:
        interactions, dead = self.findings.of("interactions, by the reference"), self.findings.of("dead letters")
        interactions.found, dead.found = sum(map(len, found.values())), letters.total()
        expected: dict[bytes, bytes] = {}
        for partition in range(self._partitions):
            log = [
                _SpansRecord(each.offset() or 0, each.key(), each.value(), tuple(headers_of(each).items()))
                for each in self._read("spans", partition, within_s)
            ]
            self.span_records += sum(record.key is not None for record in log)
            for topic, name, value in joined(log, self._settings, self._reading):
                if topic == "dead-letter":
                    dead.expected += 1
                    letters[partition, name, _digest(value)] -= 1
                else:
                    interactions.expected += 1
                    expected[name.encode()] = _digest(value)
        for key in expected.keys() | found.keys():
            if defect := _defect(found.get(key, []), expected.get(key)):
                interactions.add(defect, f"{key!r}")
        for partition, name, _ in (+letters).elements():
            dead.add("duplicated", f"{name} of partition {partition}, which the reference has not")
        for partition, name, _ in (-letters).elements():
            dead.add("lost", f"{name} of partition {partition}")

    def _compare_with_truth(self, found: _Found) -> None:
        """Compare with what the generator knows. A root that never came has no certain interaction."""
        truth, result = self._truth, self.findings.of("interactions, by the generator")
        outputs: defaultdict[int, list[_Output]] = defaultdict(list)
        for key, values in found.items():
            outputs[int(key.partition(b":")[0], 16) - 1] += values
        for number, count in enumerate(truth.spans):
            in_time = truth.in_time(number, self._settings.settle_s)
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
    spans: int
    """Number of its spans."""
    flags: str
    """Flags of its assembly; `whole` without any."""
    whole: bool
    """True if its id, question, answer and contexts are those that were sent."""

    @classmethod
    def read(cls, message: Message) -> _Output:
        event = json.loads(message.value() or b"")
        assembly = event.get("assembly") or {}
        flags = " ".join(assembly.get("flags") or ()) or "whole"
        return cls(_digest(message.value()), assembly.get("spans", 0), flags, _is_whole(event))


def _defect(outputs: Sequence[_Output], expected: bytes | None) -> Defect | None:
    """Return the defect of the outputs with one key, of which the reference has one with this digest."""
    if not outputs:
        return "lost"
    if len(outputs) > 1:
        return "duplicated"
    return None if outputs[0].digest == expected else "wrong"


_Found = defaultdict[bytes, list[_Output]]
"""The interactions by key."""


def _digest(value: bytes | None) -> bytes:
    return sha256(value or b"").digest()


def _is_whole(event: dict[str, Any]) -> bool:
    sent = content(int(event["event_id"].partition(":")[0], 16) - 1)
    return (
        event["event_id"] == f"{sent.trace_id}:{sent.span_id}"
        and (event.get("query"), event.get("response")) == (sent.query, sent.response)
        and [context.get("text") for context in event.get("contexts") or ()] == sent.contexts
    )
