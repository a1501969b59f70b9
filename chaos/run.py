"""One run: the brokers, the services, the traffic, the faults and the checker, from the first record to the verdict."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from chaos import money
from chaos.broker import QUICK, Cluster, cluster
from chaos.broker_faults import BrokerFaults
from chaos.checker import Checker, Stall
from chaos.events import Mix, Traffic
from chaos.fault_injector import Done, FaultInjector, Lengths
from chaos.findings import Findings
from chaos.fleet import COMMAND, MUTANT, Fleet, Slot, environment
from chaos.operator_faults import OperatorFaults
from chaos.oracle import Oracle
from chaos.schedule import Fault, Numbers, schedule
from chaos.workload import Workload
from ragweir.metrics.catalogue import everything
from ragweir.streams.judge.probe import SIMULATED
from ragweir.streams.kafka.topics import create_topics
from ragweir.streams.playground.simulated.server import SimulatedJudge, simulated_judge
from ragweir.streams.settings import load

PREFIX = "chaos."
QUICK_CLIENT: Mapping[str, int] = MappingProxyType(
    {"session.timeout.ms": 3_000, "heartbeat.interval.ms": 500, "transaction.timeout.ms": 3_000}
)
"""The services' timeouts on a quick broker. Elsewhere they are the product's own."""
_DISCOVERING: Mapping[str, int] = MappingProxyType({"topic.metadata.refresh.interval.ms": 10_000})
"""Lets clients find new partitions within 10 s instead of 5 minutes, where partitions are added."""
_CHEAP = ("performance", "rubric")
"""The groups of metrics that stay on unless all do."""
_START_S = 60.0
_TURN_S = 0.02
_SCRAPE_S = 0.5
SHOWN = 'ragweir_evaluations_total{stage="scored"}'
"""The series that must not run ahead of what is committed."""


@dataclass(frozen=True, slots=True)
class Options:
    """What a run consists of."""

    events: int
    rate: float
    """Records a second, at most."""
    seed: int
    numbers: Numbers
    mix: Mix = field(default_factory=Mix)
    lengths: Lengths = field(default_factory=Lengths)
    partitions: int = 4
    brokers: int = 1
    """One, or three with three copies of everything."""
    budget_usd: float | None = None
    """The judge's budget of a day in dollars; None for no bound."""
    quick: bool = False
    """With timeouts scaled down, for runs of seconds."""
    all_metrics: bool = False
    mutant: str = ""
    """What is broken in every worker; nothing without one."""
    horizon: int = 10_000
    """Over how many offsets ids are known again; 0 for never."""
    patience_s: float = 60.0
    """How long nothing may come out before what is missing is taken for lost."""
    workers: Mapping[str, int] = field(default_factory=lambda: {"evaluate": 3, "aggregate": 2, "judge": 1, "export": 1})


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a run."""

    options: Options
    seconds: float
    records: int
    repeated: int
    """Ids that were passed over since they were there shortly before."""
    findings: Findings
    done: Done
    statuses: Mapping[str, int]
    refusals: Mapping[str, int]
    unrecovered: list[str]
    stalls: Sequence[Stall] = ()
    bill: int = 0
    """What the judge's endpoint charges, in millionths of a dollar."""
    ledger: int = 0
    """What the ledger counts as spent, likewise."""

    @property
    def healthy(self) -> bool:
        """Whether everything is as it must be."""
        return not self.findings.faults() and not self.refusals and not self.done.zombies_alive


def run(options: Options, folder: Path, say: Callable[[int, str], None] = lambda _, __: None) -> Result:
    """Run it all.

    Args:
        options: what it consists of.
        folder: where the broker's data and the services' logs go.
        say: is told how many records have been sent, and what is being done.

    Raises:
        LocalServerError: if there is no Kafka to be had.
        RuntimeError: if the broker did not take the traffic, or the services did not come up.
        TimeoutError: if the outputs cannot be read to their end.
    """
    say(0, "starting Kafka")
    full_disks = options.numbers.full_disks > 0
    with cluster(folder / "kafka", QUICK if options.quick else {}, options.brokers, full_disks=full_disks) as hurt:
        return run_on(hurt, options, folder, say)


def run_on(
    hurt: Cluster, options: Options, folder: Path, say: Callable[[int, str], None] = lambda _, __: None
) -> Result:
    """Run it all on a broker that is there, as `run` does."""
    with ExitStack() as stack:
        return _Run(options, folder, hurt, stack.enter_context(simulated_judge()), say, stack).go()


class _Run:
    def __init__(
        self,
        options: Options,
        folder: Path,
        hurt: Cluster,
        judge: SimulatedJudge,
        say: Callable[[int, str], None],
        stack: ExitStack,
    ) -> None:
        self._options, self._cluster, self._say = options, hurt, say
        self._settings = environment(
            hurt.proxied,
            PREFIX,
            {**(QUICK_CLIENT if options.quick else {}), **(_DISCOVERING if options.numbers.growths else {})},
            **_judge(judge.base_url, options.budget_usd),
            metrics__off=[] if options.all_metrics else cheap(),
            windows__commit_ms=300 if options.quick else 1_000,
            input__duplicate_horizon=options.horizon,
            judge__slots=options.workers.get("judge", 1),
        )
        topics = {"prefix": PREFIX, "partitions": options.partitions}
        settings = load(None, {"kafka": {"bootstrap_servers": hurt.direct}, "topics": topics})
        create_topics(settings)
        self._judge = judge
        self._fleet = Fleet()
        stack.callback(self._fleet.close)
        command = (*MUTANT, options.mutant) if options.mutant else COMMAND
        for service, number in options.workers.items():
            for each in range(number):
                log = folder / f"{service}-{each}.log"
                self._fleet.add(Slot(service, each, PREFIX, self._settings, log, command))
        budget = None if options.budget_usd is None else round(options.budget_usd * 1_000_000)
        oracle = Oracle(options.horizon)
        self._checker = Checker(hurt.direct, PREFIX, options.partitions, oracle, options.workers, budget)
        traffic = Traffic(options.seed, options.mix, options.events, options.partitions)
        topic = f"{PREFIX}interactions"
        self._workload = Workload(hurt.direct, topic, traffic, self._checker, lambda: create_topics(settings))
        lengths = options.lengths
        brokers = BrokerFaults(
            hurt, self._fleet, PREFIX, down_s=lengths.broker, frozen_s=lengths.frozen, parted_s=lengths.network
        )
        operators = OperatorFaults(
            hurt,
            self._fleet,
            self._workload,
            PREFIX,
            idle_s=lengths.idle,
            twin_s=lengths.twin,
            clock_s=lengths.clock,
        )
        self._hurting = FaultInjector(hurt, self._fleet, judge, lengths, {**brokers.kinds, **operators.kinds})
        stack.callback(self._hurting.close)
        self._plan = schedule(options.seed, options.numbers)
        self._begun = 0
        self._over = threading.Event()
        self._raised: list[Exception] = []

    def go(self) -> Result:
        began = time.monotonic()
        self._say(0, "starting the services")
        self._wait_for_services()
        self._checker.start()
        hurting = threading.Thread(target=self._inflict, name="faults", daemon=True)
        scraping = threading.Thread(target=self._scrape, name="scraping", daemon=True)
        hurting.start()
        scraping.start()
        try:
            self._send()
            self._say(self._workload.sent, "waiting for the last faults to pass")
            hurting.join()
            self._hurting.settle()
            if self._raised:
                raise self._raised[0]
            self._workload.flush()
            self._say(self._workload.sent, "waiting for what is to come out")
            self._patiently(lambda: not self._checker.complete(self._workload.sent))
        finally:
            self._over.set()
            scraping.join()
        unrecovered = self._hurting.unrecovered
        self._say(self._workload.sent, "stopping the services, reading to the end")
        self._fleet.stop()
        self._checker.bill = money.bills(self._judge.calls()["calls"])
        findings = self._checker.finish(self._options.patience_s)
        return Result(
            self._options,
            time.monotonic() - began,
            self._workload.sent,
            self._checker.oracle.repeated,
            findings,
            self._hurting.done,
            self._checker.statuses,
            self._fleet.refusals(),
            unrecovered,
            self._checker.stalls,
            sum(self._checker.bill.values()),
            sum(self._checker.ledger.values()),
        )

    def _wait_for_services(self) -> None:
        until = time.monotonic() + _START_S
        waiting = [slot for slot in self._fleet.slots if slot.service != "export"]
        while waiting := [slot for slot in waiting if not slot.logged("partitions assigned")]:
            if time.monotonic() > until:
                raise RuntimeError(f"{waiting[0].name} does not come up; its log is {waiting[0].log}")
            time.sleep(0.1)

    def _send(self) -> None:
        options = self._options
        due = time.monotonic()
        for number in range(options.events):
            # Later than planned rather than faster: a fault is to meet as much traffic as any other.
            due = max(due, time.monotonic() - 1) + 1 / options.rate
            if (pause := due - time.monotonic()) > 0:
                time.sleep(pause)
            self._workload.send()
            if number % 100 == 0:
                self._say(number, self._plan[self._begun].kind if self._begun < len(self._plan) else "")
                self._patiently(lambda: self._checker.lag > 20 * options.rate)
            while self._waits_for_fault(number):
                time.sleep(_TURN_S)

    def _waits_for_fault(self, number: int) -> bool:
        """Whether a fault that belongs here has not begun, since the one before is not over."""
        begun = self._begun
        return not self._raised and begun < len(self._plan) and self._plan[begun].at < number / self._options.events

    def _inflict(self) -> None:
        try:
            for fault in self._plan:
                self._wait_until(fault)
                self._begun += 1
                self._checker.watch(fault.kind)
                self._hurting.inject(fault)
        except Exception as error:  # It is raised again where somebody looks.
            self._raised.append(error)

    def _wait_until(self, fault: Fault) -> None:
        while self._workload.sent / self._options.events < fault.at:
            time.sleep(_TURN_S)

    def _scrape(self) -> None:
        while not self._over.wait(_SCRAPE_S):
            for slot in self._fleet.of("evaluate"):
                if (sample := slot.sample(SHOWN)) is not None:
                    self._checker.shown[sample[0]] = sample[1]

    def _patiently(self, waiting: Callable[[], bool]) -> None:
        """Wait, as long as something comes out every now and then."""
        progress, until = self._checker.progress, time.monotonic() + self._options.patience_s
        while waiting():
            time.sleep(_TURN_S)
            if self._checker.progress != progress:
                progress, until = self._checker.progress, time.monotonic() + self._options.patience_s
            elif time.monotonic() > until:
                return


def _judge(url: str, budget_usd: float | None) -> dict[str, object]:
    """Settings by which exactly the events that have an expected answer are judged, at once, as far as money goes."""
    price = money.USD_PER_MILLION_TOKENS
    asked = {"name": "asked", "on": "expected", "present": True, "suites": ["rubric"], "probability": 1.0}
    return {
        "judge__base_url": url,
        "judge__api_key": "none",
        "judge__model": SIMULATED,
        "judge__prices": {SIMULATED: {"input_usd": price, "output_usd": price}},
        "judge__daily_budget_usd": "none" if budget_usd is None else budget_usd,
        "judge__breaker_wait_s": 0.5,
        "judge__timeout_s": 3,
        "judge__attempts": 2,
        "judge__retry_delay_s": 2,
        "judge__retries": 100,
        "routing__rules": [asked],
        "routing__floors": {},
    }


def cheap() -> list[str]:
    """The groups of metrics to switch off, so that events cost little."""
    return sorted({metric.group for metric in everything()} - set(_CHEAP))
