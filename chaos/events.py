"""The traffic: interactions drawn from a seed, with poison, repeated ids, disorder, late events and wrong clocks."""

from __future__ import annotations

import json
import random
import time
from collections import deque
from dataclasses import dataclass

from confluent_kafka import KafkaError, Message, Producer

POISON = "poison"
"""The header that marks what cannot be evaluated: for the oracle, the product does not look at it."""
_HOUR_MS = 3_600_000
_RECENT = 500
_FLUSH_S = 300.0


@dataclass(frozen=True, slots=True)
class Mix:
    """What the traffic consists of: shares of all records, but for `judged`, which is of good events."""

    poison: float = 0.01
    duplicates: float = 0.05
    disorder: float = 0.1
    late: float = 0.01
    ahead: float = 0.001
    judged: float = 0.01
    span_s: float = 7_200.0
    """Of event time that the whole traffic covers; it ends now."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """One record to send."""

    partition: int
    key: bytes
    value: bytes | None
    poison: bool = False


def interaction(number: int, ended_ms: int, *, judged: bool, **more: object) -> bytes:
    """An event whose numbers follow from its own number, so that whoever reads what became of it can check them."""
    event: dict[str, object] = {
        "event_id": f"e{number}",
        "started_at": ended_ms - number % 887,
        "ended_at": ended_ms,
        "application": f"app-{number % 3}",
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


class Traffic:
    """Draws the records, in order: a function of the seed and of when the traffic begins.

    Args:
        seed: of the draws.
        mix: what it consists of.
        events: how many records there are.
        partitions: of the interactions.
    """

    def __init__(self, seed: int, mix: Mix, events: int, partitions: int) -> None:
        self._random = random.Random(f"traffic {seed}")  # noqa: S311 (the same traffic for the same seed)
        self._mix = mix
        self._step_ms = mix.span_s * 1_000 / max(1, events)
        self._begin_ms = time.time() * 1_000 - mix.span_s * 1_000
        self.number = 0
        """Of the next record."""
        self.begin(partitions)

    def begin(self, partitions: int) -> None:
        """Begin anew on a topic with so many partitions: nothing is repeated of what was drawn before."""
        self.partitions = partitions
        self.idle: int | None = None
        """The partition that gets nothing."""
        self._recent: list[deque[Drawn]] = [deque(maxlen=_RECENT) for _ in range(partitions)]

    def grow(self) -> None:
        """Use one more partition."""
        self.partitions += 1
        self._recent.append(deque(maxlen=_RECENT))

    def draw(self) -> Drawn:
        """The next record."""
        chance, mix, number = self._random, self._mix, self.number
        self.number += 1
        partition = number % self.partitions
        if partition == self.idle:
            partition = (partition + 1) % self.partitions
        lot = chance.random()
        if lot < mix.poison:
            return Drawn(partition, f"e{number}".encode(), _poison(number), poison=True)
        if lot < mix.poison + mix.duplicates and self._recent[partition]:
            return chance.choice(self._recent[partition])
        ended_ms = self._begin_ms + number * self._step_ms + self._wrong_by_ms()
        value = interaction(number, int(ended_ms), judged=chance.random() < mix.judged)
        drawn = Drawn(partition, f"e{number}".encode(), value)
        self._recent[partition].append(drawn)
        return drawn

    def _wrong_by_ms(self) -> float:
        chance, mix = self._random, self._mix
        lot = chance.random()
        if lot < mix.late:
            return -chance.uniform(0.05, 6) * _HOUR_MS
        if lot < mix.late + mix.ahead:
            return chance.uniform(0.2, 24) * _HOUR_MS
        return -chance.uniform(0, 60_000) if lot < mix.late + mix.ahead + mix.disorder else 0.0


class Sender:
    """Sends records past the proxy; a broker that is away is waited for.

    Args:
        bootstrap: the broker.
        topic: the interactions.
    """

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._bootstrap, self._topic = bootstrap, topic
        self._producer = self._connected()
        self._refused: KafkaError | None = None
        self.sent = 0

    def connect_anew(self) -> None:
        """Forget what the topic was like; all that was sent must be in it.

        Raises:
            RuntimeError: if the broker did not take one.
        """
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
        """Send one record; waits while too many are under way."""
        headers: list[tuple[str, str | bytes | None]] = [(POISON, b"1")] if drawn.poison else []
        while True:
            try:
                self._producer.produce(
                    self._topic, drawn.value, drawn.key, drawn.partition, headers=headers, on_delivery=self._delivered
                )
                break
            except BufferError:
                self._producer.poll(0.1)
        self.sent += 1
        self._producer.poll(0)

    def flush(self) -> None:
        """Wait until all are in the topic.

        Raises:
            RuntimeError: if the broker did not take one.
        """
        left = self._producer.flush(_FLUSH_S)
        if left or self._refused is not None:
            raise RuntimeError(f"the broker did not take all of the traffic: {self._refused or f'{left} are left'}")

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        self._refused = error or self._refused
