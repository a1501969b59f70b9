"""Generated interactions: drawn from a seed, with poison, repeated ids, disorder, late events and wrong clocks."""

from __future__ import annotations

import json
import random
import time
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, Message, Producer

POISON = "poison"
"""Header of a record that cannot be evaluated. The oracle reads it, the product does not."""
_HOUR_MS = 3_600_000
_RECENT = 500
_FLUSH_S = 300.0
_WORDS = "the premium of our policy covers or excludes water damage in basement roof 118 until 9 December 2025".split()
_TEXTS = 200
"""Number of different texts that events are made of."""
_ANSWERS = (
    "It is.",
    "It is a number.",
    "7 is a number. Bananas.",
    "Cats sleep. 7 is a number.",
    "Dogs in Paris.",
)
RISKS = (0, 3, 35, 94)
"""Bins of `unsupported_risk` of these answers; the first has none."""


@dataclass(frozen=True, slots=True)
class Mix:
    """Composition of the workload: shares of all records; `judged` is a share of valid events."""

    poison: float = 0.01
    duplicates: float = 0.05
    disorder: float = 0.1
    late: float = 0.01
    ahead: float = 0.001
    judged: float = 0.01
    span_s: float = 7_200.0
    """Event time that the workload covers, in seconds; it ends when the workload begins."""
    context_sentences: int = 0
    """Sentences of each of five contexts; with 0, events are as short as possible."""
    risks: bool = False
    """True for short answers whose `unsupported_risk` differs."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """One record to send."""

    partition: int
    key: bytes
    value: bytes | None
    poison: bool = False


def interaction(number: int, ended_ms: int, *, judged: bool, **more: object) -> bytes:
    """Return an event whose values follow from its number, so that its evaluation can be checked."""
    event: dict[str, object] = {
        "event_id": f"e{number}",
        "started_at": ended_ms - number % 887,
        "ended_at": ended_ms,
        "application": f"app-{number % 3}",
        "trace_id": f"{number:032x}",
        "query": f"Is {number} even?",
        "response": "It is.",
        "usage": {"input_tokens": number % 997, "output_tokens": number % 89},
    }
    if judged:
        event |= {"expected": "It is.", "contexts": [{"text": f"{number} is a number."}]}
    return json.dumps(event | more).encode()


def _poison(number: int) -> bytes | None:
    kinds = (
        f"not json {number}".encode(),
        json.dumps({"event_id": f"e{number}", "query": "No response?"}).encode(),
        f"[{number}]".encode(),
        b"\xff\xfe" + str(number).encode(),
        b"",
        None,
    )
    return kinds[number % len(kinds)]


def _text(number: int, sentences: int) -> dict[str, object]:
    """Return a response and contexts, which share sentences."""
    rng = random.Random(number)  # noqa: S311 (the same texts in every run)
    contexts = [[f"{' '.join(rng.choices(_WORDS, k=14)).capitalize()}." for _ in range(sentences)] for _ in range(5)]
    response = " ".join(context[0] for context in contexts)
    return {"response": response, "contexts": [{"text": " ".join(context)} for context in contexts]}


class Generator:
    """Draws the records, in order: a function of the seed and of the time at which the workload begins."""

    def __init__(self, seed: int, mix: Mix, events: int, partitions: int) -> None:
        self._random = random.Random(f"traffic {seed}")  # noqa: S311 (the same records for the same seed)
        self._mix = mix
        self._step_ms = mix.span_s * 1_000 / max(1, events)
        self._begin_ms = time.time() * 1_000 - mix.span_s * 1_000
        self._texts = [_text(number, mix.context_sentences) for number in range(_TEXTS if mix.context_sentences else 0)]
        if mix.risks:
            self._texts = [{"response": each, "contexts": [{"text": "7 is a number."}]} for each in _ANSWERS]
        self.number = 0
        """Number of the next record."""
        self.restart(partitions)

    def restart(self, partitions: int) -> None:
        """Go on with an empty topic: repeat no earlier record."""
        self.partitions = partitions
        self.idle: int | None = None
        """Partition that receives nothing."""
        self._recent: defaultdict[int, deque[Drawn]] = defaultdict(lambda: deque(maxlen=_RECENT))

    def draw(self, due_ms: float | None = None) -> Drawn:
        """Return the next record, whose event ends when it is due, by default within the span of the workload."""
        rng, mix, number = self._random, self._mix, self.number
        self.number += 1
        partition = number % self.partitions
        if partition == self.idle:
            partition = (partition + 1) % self.partitions
        draw = rng.random()
        if draw < mix.poison:
            return Drawn(partition, f"e{number}".encode(), _poison(number), poison=True)
        if draw < mix.poison + mix.duplicates and self._recent[partition]:
            return rng.choice(self._recent[partition])
        ended_ms = (self._begin_ms + number * self._step_ms if due_ms is None else due_ms) + self._offset_ms()
        judged = rng.random() < mix.judged
        texts = self._texts[number % len(self._texts)] if self._texts else {}
        value = interaction(number, int(ended_ms), judged=judged, **texts)
        drawn = Drawn(partition, f"e{number}".encode(), value)
        self._recent[partition].append(drawn)
        return drawn

    def _offset_ms(self) -> float:
        """Return the difference of an event's time from when it would have been without disorder."""
        rng, mix = self._random, self._mix
        draw = rng.random()
        if draw < mix.late:
            return -rng.uniform(0.05, 6) * _HOUR_MS
        if draw < mix.late + mix.ahead:
            return rng.uniform(0.2, 24) * _HOUR_MS
        return -rng.uniform(0, 60_000) if draw < mix.late + mix.ahead + mix.disorder else 0.0


class EventSender:
    """Sends records directly to the brokers, and waits for a broker that does not answer."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._bootstrap, self.topic = bootstrap, topic
        self._producer = self._connected()
        self._error: KafkaError | None = None
        self.sent = 0

    def reconnect(self) -> None:
        """Flush, and use a new producer, which has no metadata of the topic."""
        self.flush()
        self._producer = self._connected()

    def _connected(self) -> Producer:
        return Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "enable.idempotence": True,
                "compression.type": "lz4",
                "linger.ms": 20,
                "message.timeout.ms": int(_FLUSH_S * 1_000),
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
            }
        )

    def send(self, drawn: Drawn) -> None:
        """Send one record."""
        headers: list[tuple[str, str | bytes | None]] = [(POISON, b"1")] if drawn.poison else []
        self.produce(self.topic, drawn.value, drawn.key, partition=drawn.partition, headers=headers)

    def produce(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        arrived: Callable[[], object] = lambda: None,
        **more: Any,
    ) -> None:
        """Send a record with more properties; wait while the producer's queue is full."""

        def delivered(error: KafkaError | None, _: Message) -> None:
            self._error = error or self._error
            arrived()

        while True:
            try:
                self._producer.produce(topic, value, key, on_delivery=delivered, **more)
                break
            except BufferError:
                self._producer.poll(0.1)
        self.sent += 1
        self._producer.poll(0)

    def wait_until(self, at: float) -> None:
        """Handle deliveries until a time, in epoch seconds."""
        while (left := at - time.time()) > 0:
            self._producer.poll(left)

    def flush(self) -> None:
        """Wait until the topic has all records.

        Raises:
            RuntimeError: if the brokers did not accept a record.
        """
        left = self._producer.flush(_FLUSH_S)
        if left or self._error is not None:
            raise RuntimeError(f"the brokers did not accept all records: {self._error or f'{left} are left'}")
