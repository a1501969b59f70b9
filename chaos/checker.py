"""The checker: reads every topic, committed records only, and compares with the oracle. It shares no code with ragweir.

It reads while the services are hurt, and once more to the very end when all have ended.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import datetime
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from chaos.findings import Fault, Findings
from chaos.oracle import BURIED, EVALUATED, Oracle, Span, Sums
from chaos.tally import Place, Tally
from chaos.traffic import POISON

FINAL = {"judged", "failed", "expired"}
"""What may have become of an event that was selected."""
_METRICS = {
    "total_latency_ms": ("latency_ms", 887),
    "input_tokens": ("input_tokens", 997),
    "output_tokens": ("output_tokens", 89),
}
"""The metrics that the oracle can tell itself: where it sums them, and what an event's number leaves divided by which.
"""
_SOURCE = "ragweir-source-"


class Checker:
    """Reads the topics of one prefix.

    Args:
        bootstrap: the broker, past the proxy.
        prefix: of the topics.
        partitions: of each.
        oracle: is told the interactions as they are read.
        services: those that are there to do their part.
    """

    def __init__(self, bootstrap: str, prefix: str, partitions: int, oracle: Oracle, services: Collection[str]) -> None:
        self._services = services
        self._prefix, self._partitions = prefix, partitions
        self.oracle = oracle
        self.findings = Findings()
        of = self.findings.of
        self._scored = Tally(of("evaluations"), ordered=True)
        self._buried = Tally(of("dead letters"), ordered=True)
        self._asked = Tally(of("requests to judge"), ordered=True)
        self._judged = Tally(of("judged evaluations"), ordered=False)
        self._letters: dict[Place, bytes | None] = {}
        self.statuses: Counter[str] = Counter()
        self._windows: dict[bytes, tuple[Span, Sums]] = {}
        self.counted = 0
        """Events in windows, as these stand now."""
        self.shown: dict[str, float] = {}
        """What each process showed last in its telemetry as written."""
        self._readers: Mapping[str, Callable[[Message], None]] = {
            "interactions": self._interaction,
            "evaluations": self._evaluation,
            "dead-letter": self._dead_letter,
            "judge.requests": self._request,
            "windows": self._window,
        }
        self._ends: dict[tuple[str, int], int] = {}
        self._bootstrap = bootstrap
        self._consumer = _consumer(bootstrap, "read_committed")
        self._places = [
            TopicPartition(prefix + name, partition, 0) for name in self._readers for partition in range(partitions)
        ]
        self._consumer.assign(self._places)
        self._stop = threading.Event()
        self._raised: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="checker", daemon=True)

    def start(self) -> None:
        """Read from now on, beside everything else."""
        self._thread.start()

    def complete(self, records: int) -> bool:
        """Whether all is there that is to come of so many records. More may be there than should.

        Raises:
            Exception: whatever kept the checker from reading.
        """
        if self._raised is not None:
            raise self._raised
        oracle = self.oracle
        return (
            oracle.read == records
            and self._scored.distinct >= oracle.evaluated
            and self._buried.distinct >= oracle.buried
            and (self._judged.distinct >= oracle.selected or "judge" not in self._services)
            and (self.counted >= oracle.evaluated or "aggregate" not in self._services)
        )

    @property
    def progress(self) -> tuple[int, ...]:
        """Something that changes as long as anything comes out."""
        tallies = (self._scored, self._buried, self._asked, self._judged)
        return (*(each.distinct for each in tallies), self.counted)

    @property
    def came(self) -> int:
        """How many events have an evaluation."""
        return self._scored.distinct

    @property
    def lag(self) -> int:
        """How many records that were read have not come out."""
        return max(0, self.oracle.evaluated + self.oracle.buried - self._scored.distinct - self._buried.distinct)

    def finish(self, within_s: float) -> Findings:
        """Read to the very end, now that nobody writes any more, and compare.

        Args:
            within_s: how long what an open transaction holds back is waited for.

        Raises:
            TimeoutError: if the end is not reached.
        """
        self._stop.set()
        self._thread.join()
        if self._raised is not None:
            raise self._raised
        self._read_to_end(within_s)
        self._consumer.close()
        self._compare()
        return self.findings

    # Reading.

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._turn()
        except Exception as error:  # It is raised again where somebody looks.
            self._raised = error

    def _turn(self) -> None:
        for message in self._consumer.consume(1_000, 0.1):
            topic, partition, offset = message.topic() or "", message.partition() or 0, message.offset() or 0
            error = message.error()
            if error is None:
                self._readers[topic.removeprefix(self._prefix)](message)
            elif error.code() == KafkaError._PARTITION_EOF:
                self._ends[topic, partition] = offset

    def _read_to_end(self, within_s: float) -> None:
        """Up to where all records end, committed or not: where committed ones end may lie before one that is open."""
        until = time.monotonic() + within_s
        looking = _consumer(self._bootstrap, "read_uncommitted")
        ends = {
            (each.topic, each.partition): looking.get_watermark_offsets(each, timeout=within_s)[1]
            for each in self._places
        }
        looking.close()
        while any(self._ends.get(place, 0) < end for place, end in ends.items()):
            if time.monotonic() > until:
                behind = {f"{t}/{p}": end for (t, p), end in ends.items() if self._ends.get((t, p), 0) < end}
                raise TimeoutError(f"an open transaction holds back what stands before {behind}")
            self._turn()

    def _interaction(self, message: Message) -> None:
        poison = POISON in _headers(message)
        self.oracle.tell(message.partition() or 0, message.offset() or 0, message.value(), poison=poison)

    def _evaluation(self, message: Message) -> None:
        evaluation = json.loads(message.value() or b"")
        place, number = self._source(evaluation), int(evaluation["event_id"][1:])
        output = message.partition() or 0
        found = self.findings.of("evaluations" if evaluation["stage"] == "scored" else "judged evaluations")
        if any(evaluation["scores"].get(name) != number % of for name, (_, of) in _METRICS.items()):
            found.add("wrong", f"{place[0]}/{place[1]} has other scores than its event comes to")
        if evaluation["stage"] == "scored":
            self._scored.add(place, output, number)
            return
        self._judged.add(place, output, number)
        for suite in evaluation["decision"]["suites"]:
            if suite["status"] != "not_selected":
                self.statuses[suite["status"]] += 1
                if suite["status"] not in FINAL:
                    found.add("wrong", f"{place[0]}/{place[1]} is {suite['status']}")

    def _source(self, evaluation: Mapping[str, Any]) -> Place:
        source = evaluation["source"]
        return source["partition"], source["offset"]

    def _dead_letter(self, message: Message) -> None:
        said = _headers(message)
        topic = said[f"{_SOURCE}topic"].decode()
        place = int(said[f"{_SOURCE}partition"]), int(said[f"{_SOURCE}offset"])
        if topic != f"{self._prefix}interactions":
            self.findings.of("dead letters").add("wrong", f"{topic} {place[0]}/{place[1]}, a record of our own")
            return
        self._buried.add(place, message.partition() or 0, -1)
        self._letters[place] = message.value()

    def _request(self, message: Message) -> None:
        evaluation = json.loads(message.value() or b"")["evaluation"]
        self._asked.add(self._source(evaluation), message.partition() or 0, int(evaluation["event_id"][1:]))

    def _window(self, message: Message) -> None:
        key, value = message.key() or b"", message.value()
        start, *rest = json.loads(key)
        if start == "progress":
            return
        before = self._windows.pop(key, None)
        self.counted -= before[1].events if before else 0
        if value is None:
            return
        window = json.loads(value)
        span = round(datetime.fromisoformat(start).timestamp() * 1_000), str(rest[0]["application"])
        sums = Sums(window["events"])
        for metric, (field, _) in _METRICS.items():
            summary = window["metrics"].get(metric, {"sum": 0, "count": 0})
            setattr(sums, field, round(float(summary["sum"])))
            if summary["count"] != sums.events:
                # Told as a sum that nothing comes to.
                setattr(sums, field, -1)
        self._windows[key] = span, sums
        self.counted += sums.events

    # Comparing.

    def _compare(self) -> None:
        tallies = [(self._scored, _fate(self.oracle, EVALUATED)), (self._buried, _fate(self.oracle, BURIED))]
        if "judge" in self._services:
            tallies += [(self._asked, _wanted(self.oracle)), (self._judged, _wanted(self.oracle))]
        for tally, expected in tallies:
            tally.compare(expected, self._partitions)
        for (partition, offset), value in self._letters.items():
            if self.oracle.lanes[partition].buried.get(offset) != value:
                self.findings.of("dead letters").add("wrong", f"{partition}/{offset} holds other bytes")
        if "aggregate" in self._services:
            self._compare_windows()
        shown, written = sum(self.shown.values()), self.findings.of("evaluations").found
        telemetry = self.findings.of("telemetry")
        telemetry.expected, telemetry.found = written, round(shown)
        if shown > written:
            telemetry.add("overcounted", f"{shown:.0f} evaluations shown, {written} committed")

    def _compare_windows(self) -> None:
        found = self.findings.of("windows")
        totals: dict[Span, Sums] = {}
        for span, sums in self._windows.values():
            totals.setdefault(span, Sums()).add(sums)
        found.expected, found.found = self.oracle.evaluated, self.counted
        if self.counted != self.oracle.evaluated:
            fault: Fault = "lost" if self.counted < self.oracle.evaluated else "duplicated"
            found.add(fault, f"{self.counted} events in all windows, {self.oracle.evaluated} evaluated")
        for span in sorted(self.oracle.windows.keys() | totals.keys()):
            expected, got = self.oracle.windows.get(span, Sums()), totals.get(span, Sums())
            if expected != got:
                found.add("wrong", f"{span}: {got}, not {expected}")


def _consumer(bootstrap: str, isolation: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "chaos-checker",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 50,
            "reconnect.backoff.max.ms": 500,
            "log_level": 0,
        }
    )


def _headers(message: Message) -> dict[str, bytes]:
    return {name: value for name, value in dict(message.headers() or ()).items() if isinstance(value, bytes)}


def _fate(oracle: Oracle, fate: int) -> Callable[[int], Iterator[tuple[bool, int]]]:
    return lambda partition: (
        (each == fate, number if each == EVALUATED else -1)
        for each, number in zip(oracle.lanes[partition].fates, oracle.lanes[partition].numbers, strict=True)
    )


def _wanted(oracle: Oracle) -> Callable[[int], Iterator[tuple[bool, int]]]:
    return lambda partition: (
        (bool(each), number)
        for each, number in zip(oracle.lanes[partition].wanted, oracle.lanes[partition].numbers, strict=True)
    )
