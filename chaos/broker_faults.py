"""Faults of brokers: killed at random or by role, frozen, cut off, out of disk, restarted one after the other."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import ClassVar

from chaos.broker import Broker
from chaos.schedule import Fault
from chaos.target import Target
from chaos.waiting import wait_for

_IN_SYNC_S = 90.0
_FULL_S = 30.0
"""Time that a disk stays full, in seconds; a broker that finds it full ends at once."""


class BrokerFaults:
    """Injects a fault into one broker at a time, and waits until all replicas are in sync before the next.

    Two brokers that are away at the same time stop the cluster, by Kafka's own rules.
    """

    def __init__(self, target: Target) -> None:
        self._target, self._cluster = target, target.cluster
        self.kinds: Mapping[str, Callable[[Fault], bool]] = {
            kind: partial(inject, self) for kind, inject in self.KINDS.items()
        }

    def _kill_any(self, fault: Fault) -> bool:
        return self._kill(fault.choose(self._cluster.brokers))

    def _kill_leader(self, fault: Fault) -> bool:
        return self._kill(self._cluster.leader(f"{self._target.prefix}interactions", fault.choose((0, 1))))

    def _kill_group_coordinator(self, fault: Fault) -> bool:
        return self._kill(self._cluster.coordinator(self._target.prefix + fault.service))

    def _kill(self, broker: Broker) -> bool:
        broker.kafka.kill()
        time.sleep(self._target.lengths.broker)
        broker.kafka.start()
        return self._in_sync()

    def _kill_transaction_coordinator(self, fault: Fault) -> bool:
        slots = self._target.fleet.of(fault.service if fault.service != "export" else "evaluate")
        return bool(slots) and self._kill(self._cluster.transaction_coordinator(fault.choose(slots).member))

    def _freeze(self, fault: Fault) -> bool:
        broker = fault.choose(self._cluster.brokers)
        broker.send(signal.SIGSTOP)
        try:
            time.sleep(self._target.lengths.frozen)
        finally:
            broker.send(signal.SIGCONT)
        return self._in_sync()

    def _cut_off(self, fault: Fault) -> bool:
        """Cut a broker off from clients; the other brokers reach it."""
        self._cluster.proxy.cut(broker_port=fault.choose(self._cluster.brokers).port)
        time.sleep(self._target.lengths.network)
        self._cluster.proxy.heal()
        return True

    def _restart_all(self, _: Fault) -> bool:
        for broker in self._cluster.brokers:
            broker.kafka.stop()
            broker.kafka.start()
            self._in_sync()
        return True

    def _fill_disk(self, _: Fault) -> bool:
        """Fill the disk of the broker that has one of its own; start the broker again when there is space."""
        broker = self._cluster.brokers[-1]
        if broker.disk is None:
            return False
        broker.disk.fill()
        ended = wait_for(lambda: not broker.is_running, _FULL_S)
        broker.disk.empty()
        if ended:
            broker.kafka.kill()
            broker.kafka.start()
        return self._in_sync() and ended

    def _in_sync(self) -> bool:
        topics = [f"{self._target.prefix}{name}" for name in ("interactions", "evaluations")]
        if not wait_for(lambda: self._cluster.is_in_sync(topics), _IN_SYNC_S):
            raise TimeoutError("the brokers' replicas do not become in sync again")
        return True

    KINDS: ClassVar[Mapping[str, Callable[[BrokerFaults, Fault], bool]]] = MappingProxyType(
        {
            "broker kill": _kill_any,
            "leader kill": _kill_leader,
            "group coordinator kill": _kill_group_coordinator,
            "transaction coordinator kill": _kill_transaction_coordinator,
            "broker freeze": _freeze,
            "broker partition": _cut_off,
            "rolling brokers": _restart_all,
            "full disk": _fill_disk,
        }
    )
