"""The checker: reads every topic, committed records only, and compares with the oracle. It shares no code with ragweir.

It reads while faults are injected, and to the very end once all services have ended. Interactions have a consumer of
their own, which is replaced when their topic is recreated.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, Message

from chaos import money
from chaos.document_rows import DocumentRowChecker
from chaos.events import POISON
from chaos.feedback_checker import GROWING, FeedbackChecker
from chaos.feedback_checker import TOPICS as FEEDBACK_TOPICS
from chaos.findings import Findings
from chaos.oracle import DEAD_LETTER, EVALUATED, METRICS, Oracle
from chaos.reading import Ends, consumer, ends, headers_of, partitions_of
from chaos.rows import FLOOR_SHARE, RowChecker
from chaos.stalls import Stall
from chaos.tally import Source, Tally
from chaos.waiting import require
from chaos.window_tally import WindowTally

_FINAL = {"judged", "failed"}
"""Statuses that a selected event may end with: in a run of hours no request waits long enough to expire."""
_ROWS_S = 30.0
_SOURCE = "ragweir-source-"
_SHOWN = 'ragweir_evaluations_total{stage="scored"}'


class Checker:
    """Reads the topics of one prefix, past the proxy, and compares with what the running services have to write.

    The judge's budget is per day and in millionths of a dollar; None for no limit. With `rows`, the events to judge are
    those that the rows of `control` select. `bill` returns what the endpoint charges in the end, by day. With
    `feedback`, its topics are read, too, and the results of anchors; with `documents`, the rows of that topic.
    """

    def __init__(
        self,
        bootstrap: str,
        prefix: str,
        partitions: int,
        oracle: Oracle,
        services: Collection[str],
        budget: int | None = None,
        rows: RowChecker | None = None,
        bill: Callable[[], Mapping[str, int]] = dict,
        feedback: FeedbackChecker | None = None,
        *,
        documents: bool = False,
    ) -> None:
        self._bootstrap, self._prefix = bootstrap, prefix
        self._services, self._budget, self.rows, self.feedback = services, budget, rows, feedback
        self.oracle = oracle
        self.findings = Findings()
        of = self.findings.of
        self._scored = Tally(of("evaluations"), ordered=True)
        self._dead = Tally(of("dead letters"), ordered=True)
        self._requested = Tally(of("requests to judge"), ordered=True)
        self._judged = Tally(of("judged evaluations"), ordered=False)
        self._documents = DocumentRowChecker(self.findings, oracle, f"{prefix}interactions") if documents else None
        self._dead_letters: dict[Source, bytes | None] = {}
        self.statuses: Counter[str] = Counter()
        self._windows = WindowTally()
        self._shown: dict[str, float] = {}
        """The value that each process last showed in its telemetry."""
        self.stalls: list[Stall] = []
        """Stalls caused by faults; guarded by the lock."""
        self._bill = bill
        self.bill: Mapping[str, int] = {}
        """The endpoint's bill by day, once all is read."""
        self.ledger = money.LedgerAmounts()
        self.on_evaluation: Callable[[Mapping[str, Any]], None] = lambda _: None
        """Called with each evaluation that is read."""
        self._reached: dict[int, int] = {}
        """Highest offset of each log that has an evaluation or a dead letter."""
        self._deferred: set[Source] = set()
        self._readers: Mapping[str, Callable[[Message], None]] = {
            "evaluations": self._read_evaluation,
            "dead-letter": self._read_dead_letter,
            "judge.requests": self._read_request,
            "judge.deferred": self._read_deferred,
            "judge.ledger": lambda message: self.ledger.read(message.key(), message.value()),
            "windows": self._windows.read,
            "interactions": self._read_interaction,
            **({"control": self._read_row} if rows is not None else {}),
            **({"documents": self._documents.read} if self._documents is not None else {}),
            **({name: partial(feedback.take, name) for name in FEEDBACK_TOPICS} if feedback is not None else {}),
        }
        self._ends: Ends = {}
        self._lock = threading.Lock()
        self._outputs = consumer(bootstrap)
        self._output_partitions = [
            each
            for name in self._readers
            if name != "interactions"
            for each in partitions_of(prefix + name, range(partitions))
        ]
        self._outputs.assign(self._output_partitions)
        self._read_inputs(partitions)
        self._stop = threading.Event()
        self._raised: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="checker", daemon=True)

    def _read_inputs(self, partitions: int) -> None:
        self._inputs = consumer(self._bootstrap)
        self._input_partitions = partitions_of(f"{self._prefix}interactions", range(partitions))
        self._inputs.assign(self._input_partitions)

    def start(self) -> None:
        """Begin to read, on a thread."""
        self._thread.start()

    def recreated(self, number: int, partitions: int) -> None:
        """Begin to read the recreated topic, whose first event has this number; all earlier records have output."""
        with self._lock:
            self._inputs.close()
            self.oracle.recreated(number)
            for each in self._input_partitions:
                self._ends.pop((each.topic, each.partition), None)
            self._read_inputs(partitions)
            for stall in self.stalls:
                stall.targets = {self.oracle.newest_log(partition): 0 for partition in range(partitions)}

    def grown(self, partitions: int) -> None:
        """Begin to read the partitions that were added to the interactions, which are this many now."""
        with self._lock:
            new = partitions_of(f"{self._prefix}interactions", range(len(self._input_partitions), partitions))
            self._inputs.incremental_assign(new)
            self._input_partitions += new

    def feedback_grown(self, partitions: int) -> None:
        """Begin to read the partition that was added last to the topics of feedback that grow."""
        new = [at for name in GROWING for at in partitions_of(self._prefix + name, [partitions - 1])]
        with self._lock:
            self._outputs.incremental_assign(new)
            self._output_partitions += new

    @contextmanager
    def other_rows(self) -> Iterator[None]:
        """Read all rows, none for the length of a `with` block that makes their topic again, and the new ones after."""
        own = [each for each in self._output_partitions if each.topic == f"{self._prefix}control"]
        written = ends(self._bootstrap, "read_committed", own, _ROWS_S)
        require(lambda: not self._behind(written), _ROWS_S, "an open transaction hides rows")
        self._outputs.incremental_unassign(own)
        deleted_ms = time.time() * 1_000
        yield
        for at in own:
            self._ends.pop((at.topic, at.partition), None)
        if self.rows is not None:
            self.rows.recreated(deleted_ms)
        self._outputs.incremental_assign(own)

    def _behind(self, written: Ends) -> Ends:
        """Return the ends that were not read up to."""
        return {at: end for at, end in written.items() if self._ends.get(at, 0) < end}

    def watch(self, kind: str) -> None:
        """Begin to measure the time until the next record of every partition has output."""
        with self._lock:
            logs = [self.oracle.newest_log(each.partition) for each in self._input_partitions]
            targets = {log: len(self.oracle.logs[log].outcomes) for log in logs}
            self.stalls.append(Stall(kind, time.monotonic(), targets))

    def scraped(self, process: str, samples: Mapping[str, float]) -> None:
        """Note how many evaluations a process shows in its telemetry, which must not be more than are committed."""
        if samples:
            self._shown[process] = samples.get(_SHOWN, 0.0)

    def complete(self, records: int) -> bool:
        """Return True if this number of records has all outputs that they must have, and perhaps more.

        Raises:
            Exception: the error that ended the reading.
        """
        if self._raised is not None:
            raise self._raised
        oracle = self.oracle
        return (
            oracle.read == records
            and self._scored.distinct >= oracle.evaluated
            and self._dead.distinct >= oracle.dead_letters
            and self._judged.distinct >= (judged := self._to_be_judged())
            and ("aggregate" not in self._services or self._windows.events >= oracle.evaluated)
            and (self.feedback is None or self.feedback.complete())
            and (self._documents is None or self._documents.complete(oracle.evaluated, judged))
        )

    def _to_be_judged(self) -> int:
        selected = self.oracle.selected if self.rows is None else len(self.rows.selected)
        return selected - len(self._waiting()) if "judge" in self._services else 0

    @property
    def progress(self) -> tuple[int, ...]:
        """A value that changes whenever there is new output."""
        tallies = (self._scored, self._dead, self._requested, self._judged)
        more = [each.progress for each in (self.feedback, self._documents) if each is not None]
        return (*(each.distinct for each in tallies), self._windows.events, len(self._deferred), *more)

    def _waiting(self) -> set[Source]:
        """Return the requests that wait for the budget of another day."""
        return {source for source in tuple(self._deferred) if not self._judged.has(source)}

    @property
    def received(self) -> int:
        """Number of events that have an evaluation."""
        return self._scored.distinct

    @property
    def lag(self) -> int:
        """Number of records that were read and have no output."""
        return max(0, self.oracle.evaluated + self.oracle.dead_letters - self._scored.distinct - self._dead.distinct)

    def finish(self, within_s: float) -> Findings:
        """Read to the very end, once nothing writes any more, and compare.

        Raises:
            TimeoutError: if the records are not read within the time, perhaps because of an open transaction.
        """
        self._stop.set()
        self._thread.join()
        if self._raised is not None:
            raise self._raised
        self._read_to_end(within_s)
        self._outputs.close()
        self._inputs.close()
        self.bill = self._bill()
        self._compare()
        return self.findings

    def facts(self) -> dict[str, Any]:
        """Return more results as plain data."""
        return {
            "bill_microdollars": sum(self.bill.values()),
            "ledger_microdollars": self.ledger.days().total(),
            "budget_microdollars": self._budget,
            "repeated_ids_passed_over": self.oracle.repeated,
            "judged_statuses": dict(self.statuses),
            "rows": None if self.rows is None else self.rows.facts(),
            "feedback": None if self.feedback is None else self.feedback.facts(),
        }

    # Reading.

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._read()
        except Exception as error:  # It is raised again by `complete` and `finish`.
            self._raised = error

    def _read(self) -> None:
        with self._lock:
            self._take(self._inputs.consume(1_000, 0.02))
        with self._lock:
            self._take(self._outputs.consume(1_000, 0.1))
            for stall in self.stalls:
                stall.update(self._reached)

    def _take(self, messages: Iterable[Message]) -> None:
        for message in messages:
            topic, error = message.topic() or "", message.error()
            if error is None:
                self._readers[topic.removeprefix(self._prefix)](message)
            elif error.code() == KafkaError._PARTITION_EOF:
                self._ends[topic, message.partition() or 0] = message.offset() or 0

    def _read_to_end(self, within_s: float) -> None:
        """Read up to the high watermarks: committed records may end before them at an open transaction."""
        until = time.monotonic() + within_s
        partitions = [*self._output_partitions, *self._input_partitions]
        written = ends(self._bootstrap, "read_uncommitted", partitions, within_s)
        while behind := self._behind(written):
            if time.monotonic() > until:
                stable = ends(self._bootstrap, "read_committed", partitions, within_s)
                told = (
                    f"{topic}/{partition} is read to {self._ends.get((topic, partition), 0)} of {end},"
                    f" and its last stable offset is {stable[topic, partition]}"
                    for (topic, partition), end in behind.items()
                )
                raise TimeoutError("; ".join(told))
            self._read()

    def _read_interaction(self, message: Message) -> None:
        poison = POISON in headers_of(message)
        self.oracle.record(message.partition() or 0, message.offset() or 0, message.value(), poison=poison)

    def _read_evaluation(self, message: Message) -> None:
        evaluation = json.loads(message.value() or b"")
        self.on_evaluation(evaluation)
        source, number = self._source(evaluation), int(evaluation["event_id"][1:])
        self._reach(source)
        scored = evaluation["stage"] == "scored"
        found = self.findings.of("evaluations" if scored else "judged evaluations")
        if any(evaluation["scores"].get(name) != number % divisor for name, divisor in METRICS.items()):
            found.add("wrong", f"{source[0]}/{source[1]} has scores of another event")
        if scored and self.rows is not None:
            self.rows.evaluation(source, evaluation, message.timestamp()[1])
        if self.feedback is not None:
            self.feedback.evaluation(evaluation, message.timestamp()[1])
        if self._documents is not None:
            self._documents.evaluation(source, evaluation)
        (self._scored if scored else self._judged).add(source, message.partition() or 0, number)
        for suite in () if scored else evaluation["decision"]["suites"]:
            if suite["status"] != "not_selected":
                self.statuses[suite["status"]] += 1
                if suite["status"] not in _FINAL:
                    found.add("wrong", f"{source[0]}/{source[1]} is {suite['status']}")

    def _source(self, evaluation: Mapping[str, Any]) -> Source:
        source = evaluation["source"]
        return self.oracle.log_of(source["partition"], int(evaluation["event_id"][1:])), source["offset"]

    def _reach(self, source: Source) -> None:
        log, offset = source
        self._reached[log] = max(offset, self._reached.get(log, -1))

    def _read_dead_letter(self, message: Message) -> None:
        headers = headers_of(message)
        topic = headers[f"{_SOURCE}topic"].decode()
        number = int((message.key() or b"e0")[1:])
        log = self.oracle.log_of(int(headers[f"{_SOURCE}partition"]), number)
        source = log, int(headers[f"{_SOURCE}offset"])
        if topic != f"{self._prefix}interactions":
            self.findings.of("dead letters").add("wrong", f"{topic} {source[0]}/{source[1]}, a record of ragweir")
            return
        self._reach(source)
        self._dead.add(source, message.partition() or 0, -1)
        self._dead_letters[source] = message.value()

    def _read_request(self, message: Message) -> None:
        evaluation = json.loads(message.value() or b"")["evaluation"]
        self._requested.add(self._source(evaluation), message.partition() or 0, int(evaluation["event_id"][1:]))

    def _read_deferred(self, message: Message) -> None:
        request = json.loads(message.value() or b"")
        if request.get("anchor") is None:
            self._deferred.add(self._source(request["evaluation"]))
        elif self.feedback is not None:
            self.feedback.anchors.defer(request["anchor"])

    def _read_row(self, message: Message) -> None:
        if self.rows is not None:
            self.rows.control(message.key() or b"", message.value(), message.timestamp()[1])

    # Comparing.

    def _compare(self) -> None:
        oracle, logs = self.oracle, list(self.oracle.logs)
        self._scored.compare(partial(oracle.expect, EVALUATED), logs)
        self._dead.compare(partial(oracle.expect, DEAD_LETTER), logs)
        if self._documents is not None:
            self._documents.compare()
        if "judge" in self._services:
            self._compare_judged(logs)
        for (log, offset), value in self._dead_letters.items():
            if oracle.logs[log].dead_letters.get(offset) != value:
                self.findings.of("dead letters").add("wrong", f"{log}/{offset} has other bytes")
        if "aggregate" in self._services:
            self._windows.compare(oracle.windows, oracle.evaluated, self.findings.of("windows"))
        if self.feedback is not None:
            self.feedback.compare(self.findings)
        shown, committed = sum(self._shown.values()), self.findings.of("evaluations").found
        telemetry = self.findings.of("telemetry")
        telemetry.expected, telemetry.found = committed, round(shown)
        if shown > committed:
            telemetry.add("overcounted", f"{shown:.0f} evaluations shown, {committed} committed")

    def _compare_judged(self, logs: list[int]) -> None:
        oracle, waiting = self.oracle, self._waiting()
        self.statuses["deferred"] += len(waiting)
        if self.rows is not None:
            self.rows.compare(self.findings.of("decisions"), self.findings.of("rows"))
            for log, offset in self.rows.selected:
                oracle.logs[log].selected[offset] = 1
        self._requested.compare(oracle.expect_judged, logs)
        self._judged.compare(partial(oracle.expect_judged, deferred=waiting), logs)
        if self._documents is not None:
            self._documents.compare_judged(waiting)
        if self._budget is not None:
            found = self.findings.of("bill, of a day's budget")
            money.compare(found, self.bill, self.ledger.days(), self._budget)
            if self.rows is not None:
                money.compare_risk(found, self.ledger.by_risk, self._budget, FLOOR_SHARE)
