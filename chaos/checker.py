"""The checker: reads every topic, committed records only, and compares with the oracle. It shares no code with ragweir.

It reads while the services are hurt, and once more to the very end when all have ended. Interactions are read through a
consumer of their own, which is replaced when their topic is deleted and made again.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from chaos import money
from chaos.events import POISON
from chaos.findings import Fault, Findings
from chaos.oracle import BURIED, EVALUATED, Oracle, Span, Sums
from chaos.tally import Place, Tally

FINAL = {"judged", "failed"}
"""The statuses that a selected event may end with: in a run of hours no request waits long enough to expire."""
_METRICS = {
    "total_latency_ms": ("latency_ms", 887),
    "input_tokens": ("input_tokens", 997),
    "output_tokens": ("output_tokens", 89),
}
"""The metrics that the oracle can tell itself: where it sums them, and what an event's number leaves divided by which.
"""
_SOURCE = "ragweir-source-"


@dataclass(slots=True)
class Stall:
    """The time from a fault's beginning until the next record of every partition has come out."""

    kind: str
    began: float
    """By a monotonic clock, as seconds."""
    targets: dict[int, int]
    """The offset of the next record of each lane whose next record has not come out."""
    seconds: float | None = None
    """None until it is over."""

    def look(self, reached: Mapping[int, int]) -> None:
        """End it if every record that it waits for, or a later one, has come out."""
        if self.seconds is None:
            for lane in [lane for lane, offset in self.targets.items() if reached.get(lane, -1) >= offset]:
                del self.targets[lane]
            if not self.targets:
                self.seconds = time.monotonic() - self.began

    def move(self, lanes: Iterable[int]) -> None:
        """Wait for the first records of these lanes instead: the topic was deleted and made again."""
        if self.seconds is None:
            self.targets = dict.fromkeys(lanes, 0)


class Checker:
    """Reads the topics of one prefix.

    Args:
        bootstrap: the broker, past the proxy.
        prefix: of the topics.
        partitions: of each.
        oracle: is told the interactions as they are read.
        services: those that are there to do their part.
        budget: of the judge for a day, in millionths of a dollar; None where it has none.
    """

    def __init__(
        self,
        bootstrap: str,
        prefix: str,
        partitions: int,
        oracle: Oracle,
        services: Collection[str],
        budget: int | None = None,
    ) -> None:
        self._services, self._budget = services, budget
        self._prefix = prefix
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
        self.stalls: list[Stall] = []
        """The stalls that faults caused; guarded by the lock."""
        self.bill: Mapping[str, int] = {}
        """The endpoint's own bill, by day; it has to be set before `finish`."""
        self.ledger: dict[str, int] = {}
        """The amounts that the ledger counts as spent, by day, once all of it is read."""
        self._reached: dict[int, int] = {}
        """The highest offset of each lane that has an evaluation or a dead letter."""
        self._accounts: dict[tuple[str, ...], int] = {}
        self._deferred: set[Place] = set()
        self._readers: Mapping[str, Callable[[Message], None]] = {
            "interactions": self._interaction,
            "evaluations": self._evaluation,
            "dead-letter": self._dead_letter,
            "judge.requests": self._request,
            "judge.deferred": self._put_off,
            "judge.ledger": self._account,
            "windows": self._window,
        }
        self._ends: dict[tuple[str, int], int] = {}
        self._bootstrap = bootstrap
        self._lock = threading.Lock()
        self._consumer = _consumer(bootstrap, "read_committed")
        self._places = [
            TopicPartition(prefix + name, partition, 0)
            for name in self._readers
            if name != "interactions"
            for partition in range(partitions)
        ]
        self._consumer.assign(self._places)
        self._inputs, self._interactions = self._reading(range(partitions))
        self._stop = threading.Event()
        self._raised: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="checker", daemon=True)

    def start(self) -> None:
        """Read from now on, beside everything else."""
        self._thread.start()

    def _reading(self, partitions: Iterable[int]) -> tuple[Consumer, list[TopicPartition]]:
        consumer = _consumer(self._bootstrap, "read_committed")
        places = [TopicPartition(f"{self._prefix}interactions", partition, 0) for partition in partitions]
        consumer.assign(places)
        return consumer, places

    def recreated(self, number: int, partitions: int) -> None:
        """Begin to read a new incarnation of the interactions; all of the one before has come out.

        Args:
            number: of the first event of the new one.
            partitions: of the new one.
        """
        with self._lock:
            self._inputs.close()
            self.oracle.recreated(number)
            for place in self._interactions:
                self._ends.pop((place.topic, place.partition), None)
            self._inputs, self._interactions = self._reading(range(partitions))
            for stall in self.stalls:
                stall.move([self.oracle.newest_lane(partition) for partition in range(partitions)])

    def grown(self, partitions: int) -> None:
        """Read the partitions as well that were added to the interactions.

        Args:
            partitions: how many there are now.
        """
        with self._lock:
            new = [
                TopicPartition(f"{self._prefix}interactions", partition, 0)
                for partition in range(len(self._interactions), partitions)
            ]
            self._inputs.incremental_assign(new)
            self._interactions += new

    def watch(self, kind: str) -> None:
        """Note from now on how long it takes until the next record of every partition has come out."""
        with self._lock:
            lanes = [self.oracle.newest_lane(place.partition) for place in self._interactions]
            targets = {lane: len(self.oracle.lanes[lane].fates) for lane in lanes}
            self.stalls.append(Stall(kind, time.monotonic(), targets))

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
            and (self._judged.distinct + self.deferred >= oracle.selected or "judge" not in self._services)
            and (self.counted >= oracle.evaluated or "aggregate" not in self._services)
        )

    @property
    def progress(self) -> tuple[int, ...]:
        """Something that changes as long as anything comes out."""
        tallies = (self._scored, self._buried, self._asked, self._judged)
        return (*(each.distinct for each in tallies), self.counted, len(self._deferred))

    @property
    def deferred(self) -> int:
        """The number of requests that wait for the budget of another day."""
        return sum(not self._judged.holds(place) for place in tuple(self._deferred))

    @property
    def received(self) -> int:
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
        self._inputs.close()
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
        with self._lock:
            self._take(self._inputs.consume(1_000, 0.02))
        self._take(self._consumer.consume(1_000, 0.1))
        with self._lock:
            for stall in self.stalls:
                stall.look(self._reached)

    def _take(self, messages: Iterable[Message]) -> None:
        for message in messages:
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
            for each in [*self._places, *self._interactions]
        }
        looking.close()
        while any(self._ends.get(place, 0) < end for place, end in ends.items()):
            if time.monotonic() > until:
                behind = {f"{t}/{p}": end for (t, p), end in ends.items() if self._ends.get((t, p), 0) < end}
                raise TimeoutError(f"an open transaction holds back what stands before {behind}")
            self._turn()

    def _interaction(self, message: Message) -> None:
        poison = POISON in _headers(message)
        self.oracle.record(message.partition() or 0, message.offset() or 0, message.value(), poison=poison)

    def _evaluation(self, message: Message) -> None:
        evaluation = json.loads(message.value() or b"")
        place, number = self._source(evaluation), int(evaluation["event_id"][1:])
        self._reach(place)
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
        return self.oracle.lane(source["partition"], int(evaluation["event_id"][1:])), source["offset"]

    def _reach(self, place: Place) -> None:
        lane, offset = place
        self._reached[lane] = max(offset, self._reached.get(lane, -1))

    def _dead_letter(self, message: Message) -> None:
        said = _headers(message)
        topic = said[f"{_SOURCE}topic"].decode()
        number = int((message.key() or b"e0")[1:])
        place = self.oracle.lane(int(said[f"{_SOURCE}partition"]), number), int(said[f"{_SOURCE}offset"])
        if topic != f"{self._prefix}interactions":
            self.findings.of("dead letters").add("wrong", f"{topic} {place[0]}/{place[1]}, a record of our own")
            return
        self._reach(place)
        self._buried.add(place, message.partition() or 0, -1)
        self._letters[place] = message.value()

    def _request(self, message: Message) -> None:
        evaluation = json.loads(message.value() or b"")["evaluation"]
        self._asked.add(self._source(evaluation), message.partition() or 0, int(evaluation["event_id"][1:]))

    def _put_off(self, message: Message) -> None:
        self._deferred.add(self._source(json.loads(message.value() or b"")["evaluation"]))

    def _account(self, message: Message) -> None:
        """An amount that a crash leaves reserved counts as spent."""
        match json.loads(message.key() or b"null"):
            case [str(day), str(application), str(tenant), int(partition)]:
                entry = json.loads(message.value() or b"{}")
                amount = entry.get("spent", 0) + entry.get("reserved", 0)
                self._accounts[day, application, tenant, str(partition)] = amount

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
            waiting = {place for place in self._deferred if not self._judged.holds(place)}
            self.statuses["deferred"] += len(waiting)
            tallies += [(self._asked, _wanted(self.oracle)), (self._judged, _wanted(self.oracle, waiting))]
            self._compare_money()
        for tally, expected in tallies:
            tally.compare(expected, list(self.oracle.lanes))
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

    def _compare_money(self) -> None:
        for (day, *_), amount in self._accounts.items():
            self.ledger[day] = self.ledger.get(day, 0) + amount
        if self._budget is not None:
            money.compare(self.findings.of("bill, of a day's budget"), self.bill, self.ledger, self._budget)

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


def _wanted(oracle: Oracle, waiting: Collection[Place] = ()) -> Callable[[int], Iterator[tuple[bool, int]]]:
    return lambda partition: (
        (bool(wanted) and (partition, offset) not in waiting, number)
        for offset, (wanted, number) in enumerate(
            zip(oracle.lanes[partition].wanted, oracle.lanes[partition].numbers, strict=True)
        )
    )
