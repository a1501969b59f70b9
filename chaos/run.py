"""One run: the brokers, the services, the workload, the faults and the checker, from the first record to the result."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType

from chaos import money
from chaos.broker import QUICK, Cluster, cluster
from chaos.checker import Checker
from chaos.events import Generator, Mix
from chaos.fault_injector import FaultInjector, Injected
from chaos.findings import Findings
from chaos.fleet import COMMAND, MUTANT, Fleet, Slot, environment, judge_settings
from chaos.oracle import Oracle
from chaos.rows import ABORTS, PLANNERS, QUICK_ROWS, RISK, ROUTING, SHORT_TRANSACTIONS, Control, RowChecker
from chaos.schedule import SERVICES, Fault, schedule
from chaos.soak import BROKER, JUDGE_MS, SETTINGS, Soak
from chaos.target import Lengths, Target
from chaos.waiting import wait_for
from chaos.workload import Workload
from ragweir.metrics.catalogue import everything
from ragweir.schemas.topics import TOPICS
from ragweir.streams.playground.simulated.server import SimulatedJudge, simulated_judge
from ragweir.streams.runtime.kafka.configurations import give_broker_time
from ragweir.streams.runtime.kafka.topics import create_topics
from ragweir.streams.settings import load

QUICK_CLIENT: Mapping[str, int] = MappingProxyType(
    {"session.timeout.ms": 3_000, "heartbeat.interval.ms": 500, "transaction.timeout.ms": 3_000}
)
"""Timeouts of the services on a quick broker. On others they are the product's own."""
_REFRESH: Mapping[str, int] = MappingProxyType({"topic.metadata.refresh.interval.ms": 10_000})
"""Lets clients find added partitions within 10 s instead of 5 minutes."""
COSTLY = sorted({metric.group for metric in everything()} - {"performance", "rubric"})
"""Groups of metrics that are off unless all metrics are on."""
_JUDGE: Mapping[str, object] = MappingProxyType(
    {
        "judge__breaker_wait_s": 0.5,
        "judge__timeout_s": 3,
        "judge__attempts": 2,
        "judge__retry_delay_s": 2,
        "judge__retries": 100,
        "routing__rules": [
            {"name": "asked", "on": "expected", "present": True, "suites": ["rubric"], "probability": 1.0}
        ],
        "routing__floors": {},
    }
)
"""Settings by which exactly the events with an expected answer are judged."""
_LONG_TRANSACTIONS: Mapping[str, int] = MappingProxyType({"batch__max_events": 50, "commit__interval_ms": 2_500})
"""Settings by which a transaction has several batches even at the rates of a run."""
_START_S = 60.0
_TURN_S = 0.02
_SCRAPE_S = 0.5
_BACKLOG_S = 20
"""Sending pauses while more than the records of this time, in seconds, have no output."""


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a run."""

    events: int
    rate: float
    """Records per second, at most."""
    seed: int
    numbers: Mapping[str, int] = field(default_factory=dict)
    """Numbers of faults, by the names in `chaos.schedule.KINDS`."""
    mix: Mix = field(default_factory=Mix)
    lengths: Lengths = field(default_factory=Lengths)
    partitions: int = 4
    brokers: int = 1
    """One, or three with three replicas of everything."""
    budget_usd: float | None = None
    """The judge's budget per day in dollars; None for no limit."""
    quick: bool = False
    """True for shorter timeouts, for runs of seconds."""
    all_metrics: bool = False
    mutant: str = ""
    """Rule of the runtime that is broken in every worker; none if empty."""
    kernel: str = "auto"
    """Use of the kernel in every worker: the setting `kernel.use`."""
    horizon: int = 10_000
    """Offsets within which a repeated id is skipped; 0 to skip none."""
    patience_s: float = 60.0
    """Time without any output after which missing output counts as lost, in seconds."""
    workers: Mapping[str, int] = field(default_factory=lambda: {"evaluate": 3, "aggregate": 2, "judge": 1, "export": 1})
    prefix: str = "chaos."
    """Prefix of the topics."""
    rows: bool = False
    """True to select events by routing rows, which planners write meanwhile."""
    soak: bool = False
    """True to measure memory, handles, lag and latency; without faults, a proxy or pauses of sending."""


@dataclass(frozen=True, slots=True)
class Result:
    """Result of a run."""

    options: Options
    seconds: float
    records: int
    checker: Checker
    findings: Findings
    injected: Injected
    fatal_exits: Mapping[str, int]
    unrecovered: list[str]
    soak: Soak | None

    @property
    def bill(self) -> int:
        """Amount that the judge's endpoint charges, in millionths of a dollar."""
        return sum(self.checker.bill.values())

    @property
    def ledger(self) -> int:
        """Amount that the ledger counts as spent, in millionths of a dollar."""
        return sum(self.checker.ledger.values())

    @property
    def healthy(self) -> bool:
        """True if nothing is wrong."""
        growth = self.soak.growth() if self.soak is not None else []
        injected = self.injected.zombies_alive or self.injected.starved
        return not (self.findings.defects() or self.fatal_exits or injected or growth)


def run(
    options: Options,
    folder: Path,
    progress: Callable[[int, str], None] = lambda _, __: None,
    brokers: Cluster | None = None,
) -> Result:
    """Run services, workload, faults and checker, on new brokers unless some are given; keep data and logs in a folder.

    Progress is called with the number of records sent, and with the present activity.

    Raises:
        LocalServerError: if there is no Kafka.
        RuntimeError: if the brokers did not accept the records, or the services do not start.
        TimeoutError: if the outputs cannot be read to their end.
    """
    progress(0, "starting Kafka")
    properties = QUICK if options.quick else BROKER if options.soak else ABORTS if options.rows else {}
    full_disks = options.numbers.get("full_disks", 0) > 0
    with ExitStack() as stack:
        own = cluster(folder / "kafka", properties, options.brokers, full_disks=full_disks)
        judge = stack.enter_context(simulated_judge())
        return _Run(options, folder, brokers or stack.enter_context(own), judge, progress, stack).go()


class _Run:
    def __init__(
        self,
        options: Options,
        folder: Path,
        brokers: Cluster,
        judge: SimulatedJudge,
        progress: Callable[[int, str], None],
        stack: ExitStack,
    ) -> None:
        self._options, self._progress, self._judge, prefix = options, progress, judge, options.prefix
        client = {**(QUICK_CLIENT if options.quick else {}), **(_REFRESH if options.numbers.get("growths") else {})}
        client |= SHORT_TRANSACTIONS if options.rows else {}
        settings = {
            **judge_settings(judge.base_url, **{**_JUDGE, **(ROUTING if options.rows else {})}),
            "judge__daily_budget_usd": "none" if options.budget_usd is None else options.budget_usd,
            "metrics__off": [] if options.all_metrics else sorted({*COSTLY} - ({RISK} if options.rows else set())),
            "windows__commit_ms": 300 if options.quick else 1_000,
            "input__duplicate_horizon": options.horizon,
            "kernel__use": options.kernel,
            "judge__slots": options.workers.get("judge", 1),
            **(SETTINGS if options.soak else _LONG_TRANSACTIONS),
        }
        own = environment(brokers.direct if options.soak else brokers.proxied, prefix, client, **settings)
        topics = {"prefix": prefix, "partitions": options.partitions}
        admin_settings = load(None, {"kafka": {"bootstrap_servers": brokers.direct}, "topics": topics})
        create_control = partial(create_topics, admin_settings, [TOPICS["control"]])
        self._control = Control(brokers.direct, f"{prefix}control", options.seed, create_control)
        begin_ms = time.time() * 1_000
        if options.rows:
            # Of the hours before the run, so that their writer's clock has to stamp them.
            create_topics(admin_settings, [replace(TOPICS["control"], config=())])
            self._control.send_history(begin_ms)
            give_broker_time(brokers.admin(), self._control.topic)
        create_topics(admin_settings)
        self._fleet = Fleet()
        stack.callback(self._fleet.close)
        command = (*MUTANT, options.mutant) if options.mutant else COMMAND
        if options.rows:
            command = (*QUICK_ROWS, options.mutant or "-")
        for service, number in {**options.workers, "planner": len(PLANNERS) * options.rows}.items():
            for each in range(number):
                self._fleet.add(Slot(service, each, prefix, own, folder / f"{service}-{each}.log", command))
        budget = None if options.budget_usd is None else round(options.budget_usd * 1_000_000)
        oracle = Oracle(options.horizon)
        rows = RowChecker(begin_ms) if options.rows else None
        self._checker = Checker(brokers.direct, prefix, options.partitions, oracle, options.workers, budget, rows)
        generator = Generator(options.seed, options.mix, options.events, options.partitions)
        create = partial(create_topics, admin_settings)
        self._workload = Workload(brokers.direct, f"{prefix}interactions", generator, self._checker, create)
        control = partial(self._control.recreate, self._checker.other_rows) if options.rows else None
        target = Target(brokers, self._fleet, judge, self._workload, prefix, options.lengths, control)
        self._injector = FaultInjector(target)
        self._soak = Soak(self._fleet, self._checker, options.rate) if options.soak else None
        self._schedule = schedule(options.seed, options.numbers, SERVICES + PLANNERS * options.rows)
        self._begun = 0
        self._over = threading.Event()

    def go(self) -> Result:
        began = time.monotonic()
        self._progress(0, "starting the services")
        waiting = [slot for slot in self._fleet.slots if slot.service not in ("export", "planner")]
        if not wait_for(lambda: all(slot.assignments for slot in waiting), _START_S):
            logs = ", ".join(str(slot.log) for slot in waiting if not slot.assignments)
            raise RuntimeError(f"services did not start; their logs are {logs}")
        self._checker.start()
        with ThreadPoolExecutor() as pool:
            try:
                injecting = pool.submit(self._inject)
                pool.submit(self._scrape)
                if self._options.rows:
                    pool.submit(self._control.send_late, self._over)
                if self._soak is not None:
                    self._judge.set_faults(latency_ms=JUDGE_MS)
                    self._soak.start()
                self._send(injecting)
                self._progress(self._workload.sent, "waiting for the last faults to end")
                injecting.result()
                self._injector.settle()
                self._workload.flush()
                if self._soak is not None:
                    self._soak.stop()
                self._progress(self._workload.sent, "waiting for the outputs")
                self._wait_while(lambda: not self._checker.complete(self._workload.sent))
            finally:
                self._over.set()
        unrecovered = self._injector.unrecovered
        self._progress(self._workload.sent, "stopping the services, reading to the end")
        self._fleet.close()
        self._checker.bill = money.bills(self._judge.calls()["calls"])
        findings = self._checker.finish(self._options.patience_s)
        return Result(
            self._options,
            time.monotonic() - began,
            self._workload.sent,
            self._checker,
            findings,
            self._injector.injected,
            self._fleet.fatal_exits(),
            unrecovered,
            self._soak,
        )

    def _send(self, injecting: Future[None]) -> None:
        options, due = self._options, time.time()
        for number in range(options.events):
            if not options.soak:
                # Later than planned rather than faster, so that every fault meets as many records.
                due = max(due, time.time() - 1)
            due += 1 / options.rate
            if (pause := due - time.time()) > 0:
                time.sleep(pause)
            self._workload.send_next(due * 1_000 if options.soak or options.rows else None)
            if number % 100 == 0:
                self._progress(number, fault.kind if (fault := self._next_fault()) else "")
                self._wait_while(lambda: self._checker.lag > _BACKLOG_S * options.rate)
            # The next fault is due while the one before is not over.
            while (fault := self._next_fault()) and fault.at < number / options.events and not injecting.done():
                time.sleep(_TURN_S)

    def _next_fault(self) -> Fault | None:
        return self._schedule[self._begun] if self._begun < len(self._schedule) else None

    def _inject(self) -> None:
        for fault in self._schedule:
            while self._workload.sent / self._options.events < fault.at:
                if self._over.wait(_TURN_S):
                    return
            self._begun += 1
            self._checker.watch(fault.kind)
            self._injector.inject(fault)

    def _scrape(self) -> None:
        while not self._over.wait(_SCRAPE_S):
            for slot in self._fleet.of("evaluate"):
                self._checker.scraped(f"{slot.name} {slot.pid}", slot.samples())

    def _wait_while(self, waiting: Callable[[], bool]) -> None:
        """Wait, as long as there is some output within the time limit."""
        while waiting():
            before = self._checker.progress
            moved = lambda before=before: not waiting() or self._checker.progress != before  # noqa: E731
            if not wait_for(moved, self._options.patience_s, _TURN_S):
                return
