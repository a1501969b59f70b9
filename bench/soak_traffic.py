"""The soak's two ends: events sent at a steady rate, and when what became of each could be read.

Latencies count from when an event was due, not from when it was sent: a sender that falls behind would otherwise hide
the wait that it causes.
"""

from __future__ import annotations

import threading
import time
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import cycle
from math import isnan, nan
from typing import Any

import numpy as np
import orjson
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from typing_extensions import override

from bench.interactions import interactions
from ragweir.streams.kafka.client import Connection, publisher_properties, reader_properties
from ragweir.streams.settings import Settings

Floats = np.ndarray[Any, np.dtype[np.float64]]
_SAMPLES = 500
_AHEAD_S = 0.05
_GROW = 1 << 16
STAGES = ("scored", "judged")


@dataclass(frozen=True, slots=True)
class Waits:
    """When events were due, epoch seconds, and how long each took, seconds."""

    due: Floats
    took_s: Floats

    def quantiles(self, *shares: float) -> list[float]:
        """These shares of how long they took; none without events."""
        return [float(each) for each in np.quantile(self.took_s, shares)] if len(self.took_s) else []

    def over(self, began: float, ended: float, parts: int, share: float) -> list[tuple[float, float]]:
        """One share in each of so many parts of a stretch of time, by when the events were due: minutes, seconds."""
        edges = np.linspace(began, ended, parts + 1)
        part = np.searchsorted(edges, self.due, side="right") - 1
        found = ((number, self.took_s[part == number]) for number in range(parts))
        middles = (edges[:-1] + edges[1:]) / 2
        return [((middles[n] - began) / 60, float(np.quantile(took, share))) for n, took in found if len(took)]


class Sender(threading.Thread):
    """Sends events at a rate that may be changed, each with the present as its time; 0 sends none.

    Args:
        settings: where to.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__(name="sender", daemon=True)
        self.rate = 0.0
        self.due = array("d")
        """When each event was due, epoch seconds, by its number."""
        self.failed = ""
        self._stop_asked = threading.Event()
        self._topic = f"{settings.topics.prefix}interactions"
        self._producer = Producer(publisher_properties(settings, Connection(quiet=True)) | {"linger.ms": 5})

    @property
    def behind_s(self) -> float:
        """How far the last event was sent behind its time."""
        return self._behind_s

    _behind_s = 0.0

    @override
    def run(self) -> None:
        """Send until told to stop."""
        samples = _samples()
        at, rate = time.time(), 0.0
        try:
            while not self._stop_asked.is_set():
                if self.rate != rate:
                    at, rate = time.time(), self.rate
                now = time.time()
                if not rate or at > now:
                    self._producer.poll(min(_AHEAD_S, max(0.001, at - now)) if rate else _AHEAD_S)
                    continue
                self._behind_s = now - at
                self._send(next(samples), at)
                at += 1 / rate
        except (KafkaException, BufferError) as error:
            self.failed = f"the sender failed: {error}"

    def _send(self, sample: dict[str, Any], due: float) -> None:
        number = len(self.due)
        value, key = _event(sample, number, due), f"s{number}".encode()
        self.due.append(due)
        while True:
            try:
                self._producer.produce(self._topic, value, key)
                break
            except BufferError:
                self._producer.poll(0.1)
        self._producer.poll(0)

    def stop(self) -> None:
        """Stop, with all that was sent in the topic."""
        self._stop_asked.set()
        self.join()
        if self._producer.flush(30):
            self.failed = self.failed or "the broker did not take all events"


def _samples() -> Iterator[dict[str, Any]]:
    return cycle([orjson.loads(value) for value in interactions(_SAMPLES)])


def _event(sample: dict[str, Any], number: int, due: float) -> bytes:
    ended = int(due * 1_000)
    later = ended - sample["ended_at"]
    spans = [
        span | {name: span[name] + later for name in ("started_at", "ended_at")} for span in sample.get("spans", ())
    ]
    times = {"started_at": sample["started_at"] + later, "ended_at": ended, "spans": spans}
    return orjson.dumps(sample | times | {"event_id": f"s{number}"})


class Observer(threading.Thread):
    """Reads evaluations as any user may, committed ones only, and notes when each could be read.

    Args:
        settings: where from.
        due: when each event was due.
    """

    def __init__(self, settings: Settings, due: array[float]) -> None:
        super().__init__(name="observer", daemon=True)
        self._due = due
        self._stop_asked = threading.Event()
        self._consumer = Consumer(reader_properties(settings))
        topic = f"{settings.topics.prefix}evaluations"
        self._consumer.assign([TopicPartition(topic, partition, 0) for partition in range(settings.topics.partitions)])
        self.seen_at = {stage: array("d") for stage in STAGES}
        """When each was first read, by its number; NaN until then."""
        self.count = dict.fromkeys(STAGES, 0)
        """Distinct events."""
        self.twice = dict.fromkeys(STAGES, 0)
        self.selected = 0
        """Events of which some suite was selected."""
        self.failed = ""

    @override
    def run(self) -> None:
        """Read until told to stop."""
        try:
            while not self._stop_asked.is_set():
                # One at a time: a call for many waits until it has them.
                message = self._consumer.poll(0.1)
                if message is not None and message.error() is None:
                    self._take(message.key() or b"", message.value() or b"", time.time())
        except KafkaException as error:
            self.failed = f"the observer failed: {error}"
        finally:
            self._consumer.close()

    def _take(self, key: bytes, value: bytes, now: float) -> None:
        stage, number = "judged" if b'"stage":"judged"' in value else "scored", int(key[1:])
        seen = self.seen_at[stage]
        while len(seen) <= number:
            seen.extend([nan] * _GROW)
        if not isnan(seen[number]):
            self.twice[stage] += 1
            return
        seen[number] = now
        self.count[stage] += 1
        if stage == "scored" and b'"status":"selected"' in value:
            self.selected += 1

    def stop(self) -> None:
        """Stop reading."""
        self._stop_asked.set()
        self.join()

    def waits(self, stage: str, since: float, until: float) -> Waits:
        """The events due within this time that have come: when they were due, and the seconds until readable."""
        # A slice is a copy: an array that numpy looks at cannot grow, and the threads go on.
        due = np.array(self._due[:])
        seen = np.array(self.seen_at[stage][: len(due)])
        due = due[: len(seen)]
        chosen = (due >= since) & (due < until) & ~np.isnan(seen)
        return Waits(due[chosen], seen[chosen] - due[chosen])


def window_waits(
    due: array[float], closed_at: Mapping[float, float], size_s: float, since: float, until: float
) -> Waits:
    """Likewise until the event's window was shown as closed, of the events whose window was."""
    at = np.array(due[:])
    at = at[(at >= since) & (at < until)]
    ends = (np.floor(at / size_s) + 1) * size_s
    distinct, place = np.unique(ends, return_inverse=True)
    closed = np.array([closed_at.get(float(end), nan) for end in distinct])
    shown = closed[place] if len(at) else at
    chosen = ~np.isnan(shown)
    return Waits(at[chosen], shown[chosen] - at[chosen])
