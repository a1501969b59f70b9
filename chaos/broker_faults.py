"""Faults of brokers: killed at random or by role, frozen, cut off, out of disk, restarted one after the other.

Each waits until all replicas are in sync before the next: two brokers that are away at the same time stop the cluster,
by Kafka's own rules.
"""

from __future__ import annotations

import signal
import time
from types import MappingProxyType

from chaos.broker import Broker
from chaos.schedule import Fault
from chaos.target import Injections, Target
from chaos.waiting import require, wait_for

_IN_SYNC_S = 90.0
_FULL_S = 30.0
"""Time that a disk stays full, in seconds; a broker that finds it full ends at once."""


def _wait_until_in_sync(target: Target) -> bool:
    topics = [f"{target.prefix}{name}" for name in ("interactions", "evaluations")]
    require(lambda: target.cluster.is_in_sync(topics), _IN_SYNC_S, "the brokers' replicas do not become in sync again")
    return True


def _kill(target: Target, broker: Broker) -> bool:
    broker.kafka.kill()
    time.sleep(target.lengths.broker)
    broker.kafka.start()
    return _wait_until_in_sync(target)


def _kill_transaction_coordinator(target: Target, fault: Fault) -> bool:
    slot = target.slot(fault)
    return slot is not None and _kill(target, target.cluster.transaction_coordinator(slot.member))


def _freeze(target: Target, fault: Fault) -> bool:
    broker = fault.choose(target.cluster.brokers)
    broker.send(signal.SIGSTOP)
    try:
        time.sleep(target.lengths.frozen)
    finally:
        broker.send(signal.SIGCONT)
    return _wait_until_in_sync(target)


def _cut_off(target: Target, fault: Fault) -> bool:
    """Cut a broker off from clients; the other brokers reach it."""
    target.cluster.proxy.cut(broker_port=fault.choose(target.cluster.brokers).port)
    time.sleep(target.lengths.network)
    target.cluster.proxy.heal()
    return True


def _restart_all(target: Target, _: Fault) -> bool:
    for broker in target.cluster.brokers:
        broker.kafka.stop()
        broker.kafka.start()
        _wait_until_in_sync(target)
    return True


def _fill_disk(target: Target, _: Fault) -> bool:
    """Fill the mount that one broker has; start the broker again when there is space."""
    broker = target.cluster.brokers[-1]
    if broker.disk is None:
        return False
    broker.disk.fill()
    ended = wait_for(lambda: broker.runner.last_words() is not None, _FULL_S)
    broker.disk.empty()
    if ended:
        broker.kafka.kill()
        broker.kafka.start()
    return _wait_until_in_sync(target) and ended


BROKER_FAULTS: Injections = MappingProxyType(
    {
        "broker kill": lambda target, fault: _kill(target, fault.choose(target.cluster.brokers)),
        "leader kill": lambda target, fault: _kill(
            target, target.cluster.leader(f"{target.prefix}interactions", fault.choose((0, 1)))
        ),
        "group coordinator kill": lambda target, fault: _kill(
            target, target.cluster.coordinator(target.prefix + fault.service)
        ),
        "transaction coordinator kill": _kill_transaction_coordinator,
        "broker freeze": _freeze,
        "broker partition": _cut_off,
        "rolling brokers": _restart_all,
        "full disk": _fill_disk,
    }
)
