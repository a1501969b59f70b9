"""Hurting: does to the services, the broker, the network and the judge what the plan says, and notes what was done."""

from __future__ import annotations

import math
import signal
import subprocess
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from chaos.broker import Cluster
from chaos.fleet import Fleet, Slot
from chaos.schedule import Fault, Kind, When
from chaos.transactions import Verdict

_TRAP_S = 10.0
"""How long a worker, which may only just be starting, is waited for to come to the moment at which it is to be hurt;
then it is hurt at any."""
_START_S = 30.0


class Judge(Protocol):
    """What a simulated judge is told to do."""

    def set_faults(self, **changes: Any) -> object:
        """Misbehave so."""


@dataclass(frozen=True, slots=True)
class Lengths:
    """How long things last, in seconds."""

    zombie: float = 14.0
    """Longer than a session."""
    broker: float = 1.0
    """That it is down for, beside its own start."""
    frozen: float = 14.0
    """That a broker stands still: longer than it is waited for."""
    network: float = 5.0
    outage: float = 10.0
    delay: float = 0.2
    idle: float = 30.0
    """That a partition gets nothing, at most, before its offset is reset."""
    twin: float = 10.0
    clock: float = 20.0
    """That a clock is ahead."""


@dataclass(frozen=True, slots=True)
class Recovery:
    """A slot's way from a SIGKILL to its next commit."""

    slot: str
    killed: float
    """Seconds since 1970."""
    seconds: float
    beside: tuple[str, ...]
    """The kinds of other faults that lasted, or happened, meanwhile. Kills of other slots are not among them."""
    own: float
    """Of the seconds those since the last of the other faults that had an end."""


@dataclass(slots=True)
class _Trouble:
    kind: str
    until: float = math.inf


@dataclass(slots=True)
class Done:
    """What was done."""

    faults: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    """Faults that were left out: nobody was there to be hurt, nothing could be mounted, or the topic did not drain."""
    kills_by_service: Counter[str] = field(default_factory=Counter)
    in_transaction: int = 0
    """SIGKILLs of a worker whose transaction the broker held open."""
    can_transact: int = 0
    """SIGKILLs of workers that have transactions at all."""
    zombies_alive: int = 0
    """Zombies whose place was taken and who did not notice."""
    recoveries: list[Recovery] = field(default_factory=list)


class FaultInjector:
    """Carries faults out.

    Args:
        cluster: the broker and its network.
        fleet: the services.
        judge: the simulated judge.
        lengths: how long things last.
        more: what carries out further kinds of faults.
    """

    def __init__(
        self,
        cluster: Cluster,
        fleet: Fleet,
        judge: Judge,
        lengths: Lengths,
        more: Mapping[Kind, Callable[[Fault], bool]],
    ) -> None:
        self._cluster, self._fleet, self._judge, self._lengths = cluster, fleet, judge, lengths
        self.done = Done()
        self._killed: defaultdict[str, list[float]] = defaultdict(list)
        self._troubles: list[_Trouble] = []
        self._sleeping: set[Slot] = set()
        self._abandoned: list[subprocess.Popen[bytes] | None] = []
        self._number = 0
        self._threads: list[threading.Thread] = []
        self._kinds: Mapping[Kind, Callable[[Fault], bool]] = {
            **more,
            "kill": self._kill,
            "zombie": self._zombie,
            "rolling restart": self._rolling_restart,
            "join": self._join,
            "leave": self._leave,
            "delay": self._delay,
            "partition": self._partition,
            "reset": self._reset,
            "judge outage": self._outage,
        }
        self._passes_s = {"zombie": lengths.zombie, "delay": lengths.network, "judge outage": lengths.outage}
        """Of what passes by itself."""
        cluster.proxy.call(self._listen)

    def _listen(self) -> None:
        self._cluster.proxy.transactions.on_commit = self._committed

    def _committed(self, member: str) -> None:
        now = time.time()
        kills = self._killed.pop(member, [])
        for killed in kills:
            troubles = [trouble for trouble in self._troubles if trouble.until > killed]
            beside = {trouble.kind for trouble in troubles} | ({"killed again"} if killed != kills[-1] else set())
            alone_since = max([killed, *(trouble.until for trouble in troubles if trouble.until < now)])
            self.done.recoveries.append(
                Recovery(member, killed, now - killed, tuple(sorted(beside)), now - alone_since)
            )

    def inject(self, fault: Fault) -> None:
        """Carry one fault out, as far as it is not left to pass by itself."""
        trouble = _Trouble(fault.kind)
        if fault.kind != "kill":
            self._troubles.append(trouble)
        met = self._kinds[fault.kind](fault)
        trouble.until = time.time() + self._passes_s.get(fault.kind, 0.0) if met else 0.0
        (self.done.faults if met else self.done.skipped)[fault.kind] += 1

    def settle(self) -> None:
        """Wait for what passes by itself."""
        for thread in self._threads:
            thread.join()
        self._threads.clear()

    def close(self) -> None:
        """End the zombies whose place was taken and who are still there."""
        for process in self._abandoned:
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()

    @property
    def unrecovered(self) -> list[str]:
        """Slots that were killed and have not committed since."""
        return self._cluster.proxy.call(lambda: sorted(self._killed))

    def _later(self, seconds: float, what: Callable[[], object]) -> None:
        def wait() -> None:
            time.sleep(seconds)
            what()

        self._threads = [thread for thread in self._threads if thread.is_alive()]
        self._threads.append(threading.Thread(target=wait, daemon=True))
        self._threads[-1].start()

    # Workers.

    def _victim(self, fault: Fault) -> Slot | None:
        slots = [slot for slot in self._fleet.of(fault.service) if slot not in self._sleeping]
        if not slots:
            return None
        slot = slots[int(fault.lot * len(slots))]
        until = time.monotonic() + _START_S
        while slot.pid is None and time.monotonic() < until:
            time.sleep(0.02)
        return slot if slot.pid is not None else None

    def _at(self, slot: Slot, when: When, act: Callable[[], Verdict]) -> None:
        """Act when the worker comes to a moment, or after a while without it."""
        proxy = self._cluster.proxy
        if when != "any":
            proxy.trap(slot.member, when, act)
            until = time.monotonic() + _TRAP_S
            while time.monotonic() < until:
                if not proxy.call(lambda: slot.member in proxy.transactions.traps):
                    return
                time.sleep(0.02)
            if not proxy.disarm(slot.member):
                return
        proxy.call(act)

    def _kill(self, fault: Fault) -> bool:
        slot = self._victim(fault)
        if slot is None:
            return False
        transactions = self._cluster.proxy.transactions

        def act() -> Verdict:
            if slot.send(signal.SIGKILL):
                self.done.kills_by_service[slot.service] += 1
                self.done.can_transact += slot.service != "export"
                self.done.in_transaction += slot.member in transactions.opened
                transactions.opened.discard(slot.member)
                if slot.service != "export":
                    self._killed[slot.member].append(time.time())
            return "drop"

        self._at(slot, "any" if slot.service == "export" else fault.when, act)
        return True

    def _zombie(self, fault: Fault) -> bool:
        """Stopped for longer than its session; every other one has another process in its place meanwhile."""
        slot = self._victim(fault)
        if slot is None:
            return False
        zombie = slot.process

        def act() -> Verdict:
            slot.send(signal.SIGSTOP)
            return "pass"

        self._sleeping.add(slot)
        self._at(slot, "open" if slot.service != "export" else "any", act)
        replaced = self._number % 2 == 0 and slot.service != "export"
        self._number += 1
        if replaced:
            slot.abandon()
            self._abandoned.append(zombie)
            self._sleeping.discard(slot)

        def wake() -> None:
            if zombie is not None and zombie.poll() is None:
                zombie.send_signal(signal.SIGCONT)
                if replaced:
                    self._must_end(zombie)
            self._sleeping.discard(slot)

        self._later(self._lengths.zombie, wake)
        return True

    def _must_end(self, zombie: subprocess.Popen[bytes]) -> None:
        """A process whose place was taken must notice it."""
        try:
            zombie.wait(_START_S)
        except subprocess.TimeoutExpired:
            self.done.zombies_alive += 1
            zombie.kill()
            zombie.wait()

    def _rolling_restart(self, fault: Fault) -> bool:
        slots = [slot for slot in self._fleet.of(fault.service) if slot not in self._sleeping]
        for slot in slots:
            self._fleet.restart(slot)
            self._victim(fault)
        return bool(slots)

    def _leave(self, fault: Fault) -> bool:
        slots = [slot for slot in self._fleet.of("evaluate") if slot not in self._sleeping]
        if len(slots) < 2:
            return False
        self._fleet.leave(slots[int(fault.lot * len(slots))])
        return True

    def _join(self, _: Fault) -> bool:
        away = [slot for slot in self._fleet.slots if slot.service == "evaluate" and not slot.wanted]
        for slot in away[:1]:
            self._fleet.join(slot)
        return bool(away)

    # What they depend on.

    def _delay(self, _: Fault) -> bool:
        proxy = self._cluster.proxy
        proxy.delay_s = self._lengths.delay

        def over() -> None:
            proxy.delay_s = 0.0

        self._later(self._lengths.network, over)
        return True

    def _partition(self, fault: Fault) -> bool:
        """Of everybody, or of one worker."""
        slot = self._victim(fault) if fault.lot < 0.5 else None
        self._cluster.proxy.part(slot.client if slot is not None else "")
        time.sleep(self._lengths.network)
        self._cluster.proxy.heal()
        return True

    def _reset(self, _: Fault) -> bool:
        self._cluster.proxy.reset()
        return True

    def _outage(self, fault: Fault) -> bool:
        kinds = ("503", "429", "hang", "cut-connection", "garbage")
        kind = kinds[int(fault.lot * len(kinds))]
        self._judge.set_faults(shares={kind: "all"}, seconds=self._lengths.outage)
        return True
