"""Faults of people and clocks: topics made again and grown, offsets reset, twins of slots, a clock that goes ahead."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from chaos.broker import Cluster
from chaos.fleet import Fleet, Slot
from chaos.schedule import Fault, Kind
from chaos.workload import Workload

AHEAD_S = 4 * 86_400
"""The seconds by which a clock goes ahead: more than the age at which requests of the judge expire."""
SHIFTED = (sys.executable, "-m", "chaos.shifted_clock", str(AHEAD_S))
_CALL_S = 30.0
_START_S = 60.0
_DRAIN_S = 120.0
_PAUSE_S = 0.2
_OTHERS = 3_000
_WRITTEN_S = 3.0
"""The time in seconds after which workers that began at a wrong offset have written what they read there."""
_BACK = 200
"""The number of offsets that a reset goes back."""


class OperatorFaults:
    """Does what operators do by mistake.

    Args:
        cluster: the brokers.
        fleet: the services.
        workload: what is sent, and the topic that it is sent to.
        prefix: of the topics and groups.
        idle_s: how long a partition gets nothing, at most, before its offset is reset.
        twin_s: how long two processes have the same slot.
        clock_s: how long a clock is ahead, from the time at which its process works.
    """

    def __init__(
        self,
        cluster: Cluster,
        fleet: Fleet,
        workload: Workload,
        prefix: str,
        *,
        idle_s: float,
        twin_s: float,
        clock_s: float,
    ) -> None:
        self._cluster, self._fleet, self._workload, self._prefix = cluster, fleet, workload, prefix
        self._idle_s, self._twin_s, self._clock_s = idle_s, twin_s, clock_s
        self.kinds: Mapping[Kind, Callable[[Fault], bool]] = {
            "topic recreated": lambda _: workload.recreate(_DRAIN_S),
            "topic grown": self._grow,
            "clock shift": self._shift,
            "offset reset": self._reset,
            "twin": self._twin,
        }

    def _grow(self, _: Fault) -> bool:
        self._workload.grow()
        return True

    def _shift(self, fault: Fault) -> bool:
        """Let a worker of the judge run with its clock ahead for a while."""
        slots = self._fleet.of("judge")
        if not slots:
            return False
        slot = slots[int(fault.lot * len(slots))]
        with slot.run_by(SHIFTED):
            self._restart(slot)
            time.sleep(self._clock_s)
        self._restart(slot)
        return True

    def _restart(self, slot: Slot) -> None:
        """Restart a slot, and wait until it works, or for a minute."""
        with self._working_again([slot]):
            self._fleet.restart(slot)

    @contextmanager
    def _working_again(self, slots: Sequence[Slot]) -> Iterator[None]:
        """At the end of a `with` block, wait until slots that were restarted in it work, or for a minute."""
        lived = {slot: len(slot.logged("partitions assigned")) for slot in slots}
        yield
        until = time.monotonic() + _START_S
        while any(len(slot.logged("partitions assigned")) == lived[slot] for slot in slots):
            if time.monotonic() > until:
                return
            time.sleep(_PAUSE_S)

    def _reset(self, fault: Fault) -> bool:
        """Stop evaluate, set the offsets of an idle and of a busy partition back, and start it again."""
        slots = self._fleet.of("evaluate")
        partitions = self._workload.partitions
        if not slots or partitions < 2:
            return False
        idle = int(fault.lot * partitions)
        with self._workload.idle(idle):
            self._wait_for_others()
            with self._working_again(slots):
                for slot in slots:
                    self._fleet.leave(slot)
                try:
                    done = self._set_back([idle, (idle + 1) % partitions])
                finally:
                    for slot in slots:
                        self._fleet.join(slot)
            time.sleep(_WRITTEN_S)
        return done

    def _wait_for_others(self) -> None:
        """Wait until so much of other partitions has come that a worker does not look back as far as the idle one."""
        enough, until = self._workload.sent + _OTHERS, time.monotonic() + self._idle_s
        while self._workload.sent < enough and time.monotonic() < until:
            time.sleep(_PAUSE_S)

    def _set_back(self, partitions: Sequence[int]) -> bool:
        """Set the committed offsets of partitions back, once the members' sessions have ended."""
        group = f"{self._prefix}evaluate"
        admin = AdminClient({"bootstrap.servers": self._cluster.direct, "log_level": 0})
        places = [TopicPartition(self._workload.topic, each) for each in partitions]
        until = time.monotonic() + _START_S
        while time.monotonic() < until:
            with suppress(KafkaException):
                asked = [ConsumerGroupTopicPartitions(group, places)]
                found = admin.list_consumer_group_offsets(asked, request_timeout=_CALL_S)[group].result(_CALL_S)
                back = [
                    TopicPartition(at.topic, at.partition, max(0, at.offset - _BACK)) for at in found.topic_partitions
                ]
                wanted = [ConsumerGroupTopicPartitions(group, back)]
                set_ = admin.alter_consumer_group_offsets(wanted, request_timeout=_CALL_S)[group].result(_CALL_S)
                if not any(at.error for at in set_.topic_partitions):
                    return True
            time.sleep(_PAUSE_S)  # The group still has members.
        return False

    def _twin(self, fault: Fault) -> bool:
        """Start a second process with a slot's number for a while: a second deployment that shares names."""
        slots = self._fleet.of(fault.service if fault.service != "export" else "evaluate")
        if not slots:
            return False
        slot = slots[int(fault.lot * len(slots))]
        twin = self._fleet.add(slot.twin())
        time.sleep(self._twin_s)
        self._fleet.remove(twin)
        return True
