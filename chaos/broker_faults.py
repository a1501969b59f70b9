"""Faults of brokers: killed at random or aimed at, frozen, cut off, out of disk, restarted one after the other."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping

from chaos.broker import Broker, Cluster
from chaos.fleet import Fleet
from chaos.schedule import Fault, Kind

_FULL_S = 30.0
"""The time in seconds for which a disk stays full; a broker that finds it full ends at once."""


class BrokerFaults:
    """Hurts one broker at a time, and waits until the cluster is whole before it does so again.

    Args:
        cluster: the brokers.
        fleet: the services.
        prefix: of their topics and groups.
        down_s: how long a broker is down for, beside its own start.
        frozen_s: how long a broker stands still.
        parted_s: how long clients do not reach a broker.
    """

    def __init__(
        self, cluster: Cluster, fleet: Fleet, prefix: str, *, down_s: float, frozen_s: float, parted_s: float
    ) -> None:
        self._cluster, self._fleet, self._prefix = cluster, fleet, prefix
        self._down_s, self._frozen_s, self._parted_s = down_s, frozen_s, parted_s
        self.kinds: Mapping[Kind, Callable[[Fault], bool]] = {
            "broker kill": lambda fault: self._kill(self._any(fault)),
            "leader kill": lambda fault: self._kill(self._leader(fault)),
            "group coordinator kill": lambda fault: self._kill(cluster.coordinator(prefix + fault.service)),
            "transaction coordinator kill": self._kill_transaction_coordinator,
            "broker freeze": self._freeze,
            "broker partition": self._part,
            "rolling brokers": self._roll,
            "full disk": self._fill,
        }

    def _any(self, fault: Fault) -> Broker:
        return self._cluster.brokers[int(fault.lot * len(self._cluster.brokers))]

    def _leader(self, fault: Fault) -> Broker:
        return self._cluster.leader(f"{self._prefix}interactions", int(fault.lot * 2))

    def _kill(self, broker: Broker) -> bool:
        broker.kafka.kill()
        time.sleep(self._down_s)
        broker.kafka.start()
        return self._whole()

    def _kill_transaction_coordinator(self, fault: Fault) -> bool:
        service = fault.service if fault.service != "export" else "evaluate"
        slots = self._fleet.of(service)
        if not slots:
            return False
        return self._kill(self._cluster.transaction_coordinator(slots[int(fault.lot * len(slots))].member))

    def _freeze(self, fault: Fault) -> bool:
        broker = self._any(fault)
        broker.freeze()
        try:
            time.sleep(self._frozen_s)
        finally:
            broker.thaw()
        return self._whole()

    def _part(self, fault: Fault) -> bool:
        """Clients do not reach a broker that all other brokers reach."""
        self._cluster.proxy.part(broker_port=self._any(fault).port)
        time.sleep(self._parted_s)
        self._cluster.proxy.heal()
        return True

    def _roll(self, _: Fault) -> bool:
        for broker in self._cluster.brokers:
            broker.kafka.stop()
            broker.kafka.start()
            self._whole()
        return True

    def _fill(self, _: Fault) -> bool:
        """Let the broker that has a disk of its own run out of it; it is started again when there is room."""
        broker = self._cluster.brokers[-1]
        if broker.disk is None:
            return False
        broker.disk.fill()
        until = time.monotonic() + _FULL_S
        while broker.runs and time.monotonic() < until:
            time.sleep(0.1)
        ended = not broker.runs
        broker.disk.empty()
        if ended:
            broker.kafka.kill()
            broker.kafka.start()
        return self._whole() and ended

    def _whole(self) -> bool:
        """Wait until all is whole again: two brokers that are hurt at once stop the cluster, by its own rules."""
        if not self._cluster.wait_until_whole(self._topics()):
            raise TimeoutError("the brokers do not come to be in sync again")
        return True

    def _topics(self) -> Collection[str]:
        return [f"{self._prefix}interactions", f"{self._prefix}evaluations"]
