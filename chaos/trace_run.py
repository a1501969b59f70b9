"""One run over traces: brokers, key and join, the workload, the faults and the checker; then its report."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, cast

from confluent_kafka import Consumer, TopicPartition

from chaos.broker import QUICK, Cluster, cluster
from chaos.fault_injector import FaultInjector, Injected
from chaos.fleet import COMMAND, MUTANT, Fleet, Slot, environment
from chaos.run import QUICK_CLIENT
from chaos.schedule import schedule
from chaos.target import Lengths, Target
from chaos.trace_checker import TraceChecker
from chaos.trace_events import Sending, TraceGenerator, TraceMix
from chaos.trace_reference import TraceTimes
from chaos.trace_sources import TraceSources
from chaos.waiting import wait_for
from chaos.workload import Workload
from ragweir.streams.playground.simulated.server import SimulatedJudge
from ragweir.streams.runtime.kafka.topics import create_topics
from ragweir.streams.settings import load

SERVICES = ("key", "join", "join")
"""The services that faults are aimed at, in turn."""
_START_S = 60.0
_TURN_S = 0.02
_EXTRA_S = 10.0
"""Time beyond `patience_s` that a trace without a root is waited for, in seconds."""


@dataclass(frozen=True, slots=True)
class TraceOptions:
    """Options of a run."""

    spans: int
    rate: float
    """Spans per second, at most, of the traces that are sent while the services run."""
    seed: int = 1
    numbers: Mapping[str, int] = field(default_factory=dict)
    """Numbers of faults, by the names in `chaos.schedule.KINDS`."""
    mix: TraceMix = field(default_factory=TraceMix)
    lengths: Lengths = field(default_factory=Lengths)
    backlog: float = 0.2
    """Share of the spans that have been written when key starts, as after an outage of it."""
    backlog_s: float = 600.0
    """Time over which these were written, by their timestamps."""
    partitions: int = 4
    sources: tuple[int, int] = 5, 3
    """Numbers of partitions of the source of traces without keys, and of that of traces with keys."""
    prefix: str = "traces."
    """Prefix of all topics."""
    workers: Mapping[str, int] = field(default_factory=lambda: {"key": 2, "join": 2})
    settle_s: float = 6.0
    patience_s: float = 30.0
    deadline_s: float = 300.0
    quick: bool = False
    """True for shorter timeouts of the brokers and the clients, for runs of minutes."""
    mutant: str = ""
    """Rule that is broken in every worker; none if empty."""
    quiet_s: float = 90.0
    """Time without any output after which missing output counts as lost, in seconds."""


@dataclass(frozen=True, slots=True)
class TraceResult:
    """Result of a run."""

    options: TraceOptions
    seconds: float
    traces: int
    spans: int
    records: int
    checker: TraceChecker
    injected: Injected
    unrecovered: list[str]
    fatal_exits: Mapping[str, int]

    @property
    def healthy(self) -> bool:
        """True if nothing is wrong."""
        injected = self.injected.zombies_alive or self.injected.starved
        return not (self.checker.findings.defects() or self.fatal_exits or injected)

    def as_json(self) -> dict[str, Any]:
        """Return the result as plain data."""
        injected, checker = self.injected, self.checker
        seconds = sorted(each.seconds for each in injected.recoveries)
        return {
            "healthy": self.healthy,
            "seconds": round(self.seconds, 1),
            "traces": self.traces,
            "spans": self.spans,
            "records_of_sources": self.records,
            "records_of_spans": checker.span_records,
            "traces_in_time": checker.in_time,
            "late_traces_without_all_spans": checker.torn_late,
            "interactions_by_flags": dict(checker.flags),
            "dead_letters": dict(checker.dead_letters),
            "faults_done": dict(injected.faults),
            "faults_left_out": dict(injected.skipped),
            "kills_by_service": dict(injected.kills_by_service),
            "starved_workers_that_ended": injected.starved,
            "kills_in_an_open_transaction": injected.in_transaction,
            "killed_and_idle_since": self.unrecovered,
            "recovery_s": {"p50": _at(seconds, 0.5), "p99": _at(seconds, 0.99), "most": _at(seconds, 1.0)},
            "refused_to_start": dict(self.fatal_exits),
            "outputs": {name: asdict(found) for name, found in checker.findings.outputs.items()},
            "options": asdict(self.options),
        }


def _at(ordered: list[float], share: float) -> float | None:
    """Return the quantile of ordered values; None without any.

    >>> _at([1.0, 2.0, 9.0], 0.5)
    2.0
    """
    return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))], 2) if ordered else None


def run_traces(
    options: TraceOptions,
    folder: Path,
    progress: Callable[[int, str], None] = lambda _, __: None,
    brokers: Cluster | None = None,
) -> TraceResult:
    """Run key and join, workload, faults and checker, on a new broker unless one is given.

    Progress is called with the number of spans sent, and with the present activity.

    Raises:
        LocalServerError: if there is no Kafka.
        RuntimeError: if the broker did not accept the records, or the services do not start.
        TimeoutError: if the outputs cannot be read to their end.
    """
    progress(0, "starting Kafka")
    with ExitStack() as stack:
        own = cluster(folder / "kafka", QUICK if options.quick else {})
        return _TraceRun(options, folder, brokers or stack.enter_context(own), progress, stack).go()


class _TraceRun:
    def __init__(
        self,
        options: TraceOptions,
        folder: Path,
        brokers: Cluster,
        progress: Callable[[int, str], None],
        stack: ExitStack,
    ) -> None:
        self._options, self._progress, self._brokers = options, progress, brokers
        topics = {"prefix": options.prefix, "partitions": options.partitions}
        create_topics(load(None, {"kafka": {"bootstrap_servers": brokers.direct}, "topics": topics}))
        unkeyed, keyed = (f"{options.prefix}otlp-{name}" for name in ("unkeyed", "keyed"))
        counts = dict(zip((unkeyed, keyed), options.sources, strict=True))
        self._sources = TraceSources(brokers.direct, unkeyed, keyed, counts, f"{options.prefix}key")
        stack.callback(self._sources.close)
        own = environment(
            brokers.proxied,
            options.prefix,
            QUICK_CLIENT if options.quick else {},
            input__format="otlp",
            input__topic=unkeyed,
            assemble__topics=[keyed],
            assemble__settle_s=options.settle_s,
            assemble__patience_s=options.patience_s,
            assemble__deadline_s=options.deadline_s,
        )
        self._fleet = Fleet()
        stack.callback(self._fleet.close)
        command = (*MUTANT, options.mutant) if options.mutant else COMMAND
        self._slots = [
            Slot(service, each, options.prefix, own, folder / f"{service}-{each}.log", command)
            for service, number in options.workers.items()
            for each in range(number)
        ]
        self._generator = TraceGenerator(
            options.seed,
            options.mix,
            options.spans,
            options.rate,
            options.settle_s,
            (1.2 * options.settle_s, 0.8 * options.patience_s),
            backlog=(round(options.backlog * options.spans), options.backlog_s),
        )
        self._truth = self._generator.truth
        times = TraceTimes(options.settle_s, options.patience_s, options.deadline_s)
        self._checker = TraceChecker(brokers.direct, options.prefix, options.partitions, self._truth, times)
        # Faults of the judge and of the interactions' topic are not scheduled.
        absent = cast("SimulatedJudge", None), cast("Workload", None)
        target = Target(brokers, self._fleet, *absent, options.prefix, options.lengths, None, self._sources)
        self._injector = FaultInjector(target)
        self._watching = Consumer(
            {
                "bootstrap.servers": brokers.direct,
                "group.id": "chaos-ends",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
            }
        )
        stack.callback(self._watching.close)
        self._watching.assign(
            [TopicPartition(f"{options.prefix}interactions", each, 0) for each in range(options.partitions)]
        )
        self._records = self._sent_spans = 0
        self._over = threading.Event()

    def go(self) -> TraceResult:
        options, began = self._options, time.monotonic()
        sendings = iter(self._generator)
        self._progress(0, "writing the backlog")
        # By their timestamps, the records of the backlog end now.
        start = time.time() - options.backlog_s
        last: Sending | None = None
        for sending in sendings:
            if sending.at_s >= options.backlog_s or not options.backlog:
                last = sending
                break
            self._send(sending, start + sending.at_s)
        self._sources.flush()
        self._progress(0, "starting the services")
        for slot in self._slots:
            self._fleet.add(slot)
        if not wait_for(lambda: all(slot.assignments for slot in self._slots), _START_S):
            raise RuntimeError(f"services did not start; their logs are in {self._slots[0].log.parent}")
        with ThreadPoolExecutor() as pool:
            try:
                injecting = pool.submit(self._inject)
                due = time.time() - (last.at_s if last is not None else 0)
                while last is not None:
                    now = time.time()
                    # Later than planned rather than faster, so that every fault meets as many records.
                    due = max(due, now - 1 - last.at_s)
                    if (pause := due + last.at_s - now) > 0:
                        self._sources.poll(pause)
                        time.sleep(max(0.0, due + last.at_s - time.time()))
                    self._send(last)
                    last = next(sendings, None)
                injecting.result()
                self._injector.settle()
                self._sources.flush()
                self._progress(self._sent_spans, "waiting for the outputs")
                self._wait()
            finally:
                self._over.set()
        self._progress(self._sent_spans, "stopping the services, reading to the end")
        unrecovered = self._injector.unrecovered
        self._fleet.close()
        self._checker.compare()
        return TraceResult(
            options,
            time.monotonic() - began,
            len(self._truth.spans),
            self._generator.spans,
            self._records,
            self._checker,
            self._injector.injected,
            unrecovered,
            self._fleet.fatal_exits(),
        )

    def _send(self, sending: Sending, at_s: float | None = None) -> None:
        """Send a record now; or one that has arrived at a time of the past, with that timestamp."""
        sent, arrived = partial(self._truth.sent, sending), partial(self._truth.arrived, sending)
        self._sources.send(sending.key, sending.value, sent, arrived, at_s)
        self._records += 1
        self._sent_spans = self._generator.spans
        if self._records % 100 == 0:
            self._progress(self._sent_spans, "")

    def _inject(self) -> None:
        first = self._options.backlog
        for fault in schedule(self._options.seed, self._options.numbers, SERVICES):
            while self._sent_spans / self._options.spans < first + (1 - first) * fault.at:
                if self._over.wait(_TURN_S):
                    return
            self._injector.inject(fault)

    def _wait(self) -> None:
        """Wait until every trace whose root came has an interaction, or none follows; then for others to follow."""
        expected = len(self._truth.spans) - len(self._truth.orphans)
        seen: set[bytes] = set()
        self._read_on(seen, self._options.quiet_s, lambda: len(seen) >= expected)
        self._read_on(seen, self._options.patience_s + _EXTRA_S, lambda: False)

    def _read_on(self, seen: set[bytes], silence_s: float, enough: Callable[[], bool]) -> None:
        """Read the keys of interactions until there are enough, or none has come for some time."""
        until = time.monotonic() + silence_s
        while not enough() and time.monotonic() < until:
            before = len(seen)
            seen |= {each.key() or b"" for each in self._watching.consume(1_000, 0.5) if each.error() is None}
            if len(seen) > before:
                until = time.monotonic() + silence_s
