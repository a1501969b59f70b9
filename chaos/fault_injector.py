"""The fault injector: carries out scheduled faults, and records what was done and how long workers took to recover."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from chaos.broker_faults import BROKER_FAULTS
from chaos.fleet import Slot
from chaos.operator_faults import OPERATOR_FAULTS
from chaos.schedule import Fault, When
from chaos.target import Target
from chaos.transactions import Action, Verdict
from chaos.waiting import wait_for

_TRAP_S = 10.0
"""Time in seconds after which a fault is injected although the worker, perhaps still starting, has not reached the
moment of the fault."""
_START_S = 30.0
_TURN_S = 0.02
_UNTRACKED = ("export", "planner")
"""Services without transactions that the proxy sees by slot: all planners share one transactional id."""
_OUTAGES = ("503", "429", "hang", "cut-connection", "garbage")


@dataclass(frozen=True, slots=True)
class SlotRecovery:
    """The time from a slot's SIGKILL to its next commit."""

    slot: str
    killed: float
    """Epoch seconds."""
    seconds: float
    beside: tuple[str, ...]
    """Kinds of other faults that were active meanwhile, except kills of other slots."""
    own: float
    """The seconds that remained when the last of the other faults had ended."""


@dataclass(slots=True)
class _Active:
    """A fault that lasts."""

    kind: str
    until: float = math.inf


@dataclass(slots=True)
class Injected:
    """Record of the injected faults."""

    faults: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    """Faults without a target, or without a mount, or of a topic that was not processed in time."""
    kills_by_service: Counter[str] = field(default_factory=Counter)
    in_transaction: int = 0
    """SIGKILLs of workers with an open transaction."""
    can_transact: int = 0
    """SIGKILLs of workers that use transactions."""
    zombies_alive: int = 0
    """Replaced zombies that did not end."""
    starved: int = 0
    """Workers that ended because they had no CPU time."""
    recoveries: list[SlotRecovery] = field(default_factory=list)


def _ended_by_watchdog(slot: Slot) -> int:
    return len(slot.logged("a call to Kafka does not come back"))


class FaultInjector:
    """Injects faults into a target."""

    def __init__(self, target: Target) -> None:
        self._target, self._fleet, self._proxy = target, target.fleet, target.cluster.proxy
        self.injected = Injected()
        self._killed: defaultdict[str, list[float]] = defaultdict(list)
        self._active: list[_Active] = []
        self._stopped: set[Slot] = set()
        self._zombies = 0
        self._timers: list[threading.Timer] = []
        self._kinds: Mapping[str, Callable[[Fault], bool]] = {
            **{kind: partial(inject, target) for kind, inject in {**BROKER_FAULTS, **OPERATOR_FAULTS}.items()},
            "kill": self._kill,
            "zombie": self._zombie,
            "starvation": self._starve,
            "rolling restart": self._rolling_restart,
            "outage": self._no_workers,
            "join": self._join,
            "leave": self._leave,
            "delay": self._delay,
            "partition": self._partition,
            "reset": self._reset,
            "judge outage": self._outage,
        }
        lengths = target.lengths
        self._lasts_s = {"zombie": lengths.zombie, "delay": lengths.network, "judge outage": lengths.outage}
        """Durations of the faults that end by themselves."""
        self._proxy.transactions.on_commit = self._committed

    def _committed(self, member: str) -> None:
        now = time.time()
        kills = self._killed.pop(member, [])
        for killed in kills:
            active = [fault for fault in self._active if fault.until > killed]
            beside = {fault.kind for fault in active} | ({"killed again"} if killed != kills[-1] else set())
            alone_since = max([killed, *(fault.until for fault in active if fault.until < now)])
            self.injected.recoveries.append(
                SlotRecovery(member, killed, now - killed, tuple(sorted(beside)), now - alone_since)
            )

    def inject(self, fault: Fault) -> None:
        """Inject one fault, and wait for its end unless it ends by itself."""
        active = _Active(fault.kind)
        if fault.kind != "kill":
            self._active.append(active)
        done = self._kinds[fault.kind](fault)
        active.until = time.time() + self._lasts_s.get(fault.kind, 0.0) if done else 0.0
        (self.injected.faults if done else self.injected.skipped)[fault.kind] += 1

    def settle(self) -> None:
        """Wait for the faults that end by themselves."""
        for timer in self._timers:
            timer.join()

    @property
    def unrecovered(self) -> list[str]:
        """Slots that were killed and have not committed since."""
        return self._proxy.call(lambda: sorted(self._killed))

    def _later(self, seconds: float, act: Callable[[], object]) -> None:
        timer = threading.Timer(seconds, act)
        timer.daemon = True
        timer.start()
        self._timers.append(timer)

    # Workers.

    def _candidates(self, service: str) -> list[Slot]:
        return [slot for slot in self._fleet.of(service) if slot not in self._stopped]

    def _running(self, fault: Fault) -> Slot | None:
        """Return the slot that the fault is aimed at, once its process runs; None if there is none."""
        slots = self._candidates(fault.service)
        slot = fault.choose(slots) if slots else None
        return slot if slot is not None and wait_for(lambda: slot.pid is not None, _START_S, _TURN_S) else None

    def _at(self, slot: Slot, when: When, act: Action) -> None:
        """Act when the worker reaches a moment, or later if it does not reach it."""
        proxy = self._proxy
        if when != "any":
            proxy.trap(slot.member, when, act)
            if wait_for(lambda: not proxy.is_trapped(slot.member), _TRAP_S, _TURN_S) or not proxy.disarm(slot.member):
                return
        proxy.call(act)

    def _kill(self, fault: Fault) -> bool:
        slot = self._running(fault)
        if slot is None:
            return False
        transactional = slot.service not in _UNTRACKED
        opened, injected = self._proxy.transactions.opened, self.injected

        def act() -> Verdict:
            if slot.send(signal.SIGKILL):
                injected.kills_by_service[slot.service] += 1
                injected.can_transact += transactional
                injected.in_transaction += slot.member in opened
                opened.discard(slot.member)
                if transactional:
                    self._killed[slot.member].append(time.time())
            return "drop"

        self._at(slot, fault.when if transactional else "any", act)
        return True

    def _zombie(self, fault: Fault) -> bool:
        """Stop a worker for longer than its session timeout; replace every other one by another process meanwhile."""
        slot = self._running(fault)
        if slot is None:
            return False
        zombie, transactional = slot.process, slot.service not in _UNTRACKED

        def act() -> Verdict:
            slot.send(signal.SIGSTOP)
            return "pass"

        self._stopped.add(slot)
        self._at(slot, "open" if transactional else "any", act)
        replaced = self._zombies % 2 == 0 and transactional
        self._zombies += 1
        if replaced:
            slot.abandon()
            self._stopped.discard(slot)

        def wake() -> None:
            if zombie is not None and zombie.poll() is None:
                zombie.send_signal(signal.SIGCONT)
                # It has to notice that it was replaced.
                if replaced and not wait_for(lambda: zombie.poll() is not None, _START_S):
                    self.injected.zombies_alive += 1
            self._stopped.discard(slot)

        self._later(self._target.lengths.zombie, wake)
        return True

    def _starve(self, fault: Fault) -> bool:
        """Let the workers of a service run for a tenth of the time: none of them may end by that."""
        slots = [slot for slot in self._candidates(fault.service) if slot.pid is not None]
        before, until = sum(map(_ended_by_watchdog, slots)), time.monotonic() + self._target.lengths.outage
        while time.monotonic() < until:
            for sent, seconds in ((signal.SIGSTOP, 0.9), (signal.SIGCONT, 0.1)):
                for slot in slots:
                    slot.send(sent)
                time.sleep(seconds)
        self.injected.starved += sum(map(_ended_by_watchdog, slots)) - before
        return bool(slots)

    def _rolling_restart(self, fault: Fault) -> bool:
        slots = self._candidates(fault.service)
        for slot in slots:
            self._fleet.restart(slot)
            self._running(fault)
        return bool(slots)

    def _no_workers(self, fault: Fault) -> bool:
        """Stop all workers of a service, and start them again later."""
        slots = self._candidates(fault.service)
        for slot in slots:
            self._fleet.leave(slot)
        time.sleep(self._target.lengths.outage)
        for slot in slots:
            slot.wanted = True
        return bool(slots)

    def _leave(self, fault: Fault) -> bool:
        slots = self._candidates("evaluate")
        if len(slots) < 2:
            return False
        self._fleet.leave(fault.choose(slots))
        return True

    def _join(self, _: Fault) -> bool:
        away = [slot for slot in self._fleet.slots if slot.service == "evaluate" and not slot.wanted]
        for slot in away[:1]:
            slot.wanted = True
        return bool(away)

    # The network and the judge.

    def _delay(self, _: Fault) -> bool:
        def end() -> None:
            self._proxy.delay_s = 0.0

        self._proxy.delay_s = self._target.lengths.delay
        self._later(self._target.lengths.network, end)
        return True

    def _partition(self, fault: Fault) -> bool:
        """Cut the network between the brokers and all clients, or one worker."""
        slot = self._running(fault) if fault.draw < 0.5 else None
        self._proxy.cut(slot.client if slot is not None else "")
        time.sleep(self._target.lengths.network)
        self._proxy.heal()
        return True

    def _reset(self, _: Fault) -> bool:
        self._proxy.reset()
        return True

    def _outage(self, fault: Fault) -> bool:
        self._target.judge.set_faults(shares={fault.choose(_OUTAGES): "all"}, seconds=self._target.lengths.outage)
        return True
