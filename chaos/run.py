"""One run: the brokers, the services, the workload, the faults and the checker, from the first record to the result."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from chaos.broker import QUICK, QUICK_CLIENT, Cluster, cluster
from chaos.checker import Checker
from chaos.control import ABORTS
from chaos.courses import course_of
from chaos.fault_injector import FaultInjector, Injected
from chaos.findings import Findings
from chaos.fleet import Fleet, Slot, environment
from chaos.options import Options
from chaos.schedule import Fault, schedule
from chaos.soak import BROKER, JUDGE_MS, Soak
from chaos.target import Target
from chaos.trace_checker import TraceChecker
from chaos.waiting import wait_for
from chaos.workload import Workload
from ragweir.streams.playground.simulated.server import SimulatedJudge, simulated_judge
from ragweir.streams.settings import load

_START_S = 180.0
_TURN_S = 0.02
_BACKLOG_S = 20
"""Sending pauses while more than the records of this time, in seconds, have no output."""


@dataclass(frozen=True, slots=True)
class Result:
    """Result of a run."""

    options: Options
    seconds: float
    records: int
    checker: Checker | TraceChecker
    findings: Findings
    injected: Injected
    fatal_exits: Mapping[str, int]
    unrecovered: list[str]
    soak: Soak | None

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

    Progress is called with the number of records sent, or of spans, and with the present activity.

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
        self._options, self._progress, self._judge = options, progress, judge
        topics = {"prefix": options.prefix, "partitions": options.partitions}
        admin = load(None, {"kafka": {"bootstrap_servers": brokers.direct}, "topics": topics})
        self._fleet = Fleet()
        stack.callback(self._fleet.close)
        self._course = course = course_of(options, admin, brokers, judge, self._fleet, folder)
        own = environment(
            brokers.direct if options.soak else brokers.proxied,
            options.prefix,
            {**(QUICK_CLIENT if options.quick else {}), **course.client},
            kernel__use=options.kernel,
            **course.settings,
        )
        self._slots = [
            Slot(service, each, options.prefix, own, folder / f"{service}-{each}.log", course.command)
            for service, number in course.workers.items()
            for each in range(number)
        ]
        # Faults of the interactions' topic are not scheduled over traces, nor those of sources over interactions.
        workload = cast("Workload", course.workload)
        self._injector = FaultInjector(
            Target(
                brokers,
                self._fleet,
                judge,
                workload,
                options.prefix,
                options.lengths,
                course.recreate_control,
                course.sources,
                course.feedback,
            )
        )
        self._checker = course.checker
        self._soak = Soak(self._fleet, cast("Checker", course.checker), options.rate) if options.soak else None
        self._schedule = schedule(options.seed, options.numbers, course.aims)
        self._begun = 0
        self._over = threading.Event()

    def go(self) -> Result:
        began, workload = time.monotonic(), self._course.workload
        self._progress(0, "writing the backlog")
        self._course.before()
        self._progress(0, "starting the services")
        for slot in self._slots:
            self._fleet.add(slot)
        waiting = [slot for slot in self._slots if slot.service not in ("export", "planner")]
        if not wait_for(lambda: all(slot.assignments for slot in waiting), _START_S):
            logs = ", ".join(str(slot.log) for slot in waiting if not slot.assignments)
            raise RuntimeError(f"services did not start; their logs are {logs}")
        self._checker.start()
        with ThreadPoolExecutor() as pool:
            try:
                injecting = pool.submit(self._inject)
                beside = [pool.submit(each, self._over) for each in self._course.beside]
                if self._soak is not None:
                    self._judge.set_faults(latency_ms=JUDGE_MS)
                    self._soak.start()
                self._send(injecting)
                self._say("waiting for the last faults to end")
                injecting.result()
                self._injector.settle()
                workload.flush()
                if self._soak is not None:
                    self._soak.stop()
                self._say("waiting for the outputs")
                self._wait_while(lambda: not self._checker.complete(workload.sent))
            finally:
                self._over.set()
        for ended in beside:
            ended.result()
        unrecovered = self._injector.unrecovered
        self._say("stopping the services, reading to the end")
        self._fleet.close()
        findings = self._checker.finish(self._options.patience_s)
        return Result(
            self._options,
            time.monotonic() - began,
            workload.sent,
            self._checker,
            findings,
            self._injector.injected,
            self._fleet.fatal_exits(),
            unrecovered,
            self._soak,
        )

    def _say(self, activity: str) -> None:
        self._progress(self._course.position(), activity)

    def _send(self, injecting: Future[None]) -> None:
        options, start = self._options, time.time()
        for number, at_s in enumerate(self._course.dues):
            if not options.soak:
                # Later than planned rather than faster, so that every fault meets as many records.
                start = max(start, time.time() - 1 - at_s)
            self._course.workload.wait_until(start + at_s)
            self._course.workload.send_next((start + at_s) * 1_000 if options.soak or options.rows else None)
            if number % 100 == 0:
                self._say(fault.kind if (fault := self._next_fault()) else "")
                self._wait_while(lambda: self._checker.lag > _BACKLOG_S * options.rate)
            # The next fault is due while the one before is not over.
            while (
                self._course.pauses and (fault := self._next_fault()) and self._is_due(fault) and not injecting.done()
            ):
                time.sleep(_TURN_S)

    def _next_fault(self) -> Fault | None:
        return self._schedule[self._begun] if self._begun < len(self._schedule) else None

    def _is_due(self, fault: Fault) -> bool:
        before = self._course.backlog
        return self._course.position() / self._options.events > before + (1 - before) * fault.at

    def _inject(self) -> None:
        for fault in self._schedule:
            while not self._is_due(fault):
                if self._over.wait(_TURN_S):
                    return
            self._begun += 1
            self._checker.watch(fault.kind)
            self._injector.inject(fault)

    def _wait_while(self, waiting: Callable[[], bool]) -> None:
        """Wait, as long as there is some output within the time limit."""
        while waiting():
            before = self._checker.progress
            moved = lambda before=before: not waiting() or self._checker.progress != before  # noqa: E731
            if not wait_for(moved, self._options.patience_s, _TURN_S):
                return
