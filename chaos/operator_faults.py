"""Faults of operators and clocks: recreated and grown topics, reset offsets, two processes in a slot, a wrong clock."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

from chaos.fleet import Slot
from chaos.schedule import Fault
from chaos.target import Target
from chaos.waiting import wait_for

AHEAD_S = 4 * 86_400
"""Time in seconds by which a clock is ahead: more than the age at which requests to the judge expire."""
_SHIFTED_CLOCK = (sys.executable, "-m", "chaos.shifted_clock", str(AHEAD_S))
_CALL_S = 30.0
_START_S = 60.0
_DRAIN_S = 120.0
_OTHER_RECORDS = 3_000
_WRITTEN_S = 3.0
"""Time in seconds after which workers that start at a wrong offset have written output."""
_RESET_OFFSETS = 200
"""Number of offsets by which a committed offset is set back."""


class OperatorFaults:
    """Injects what operators do by mistake."""

    def __init__(self, target: Target) -> None:
        self._target, self._fleet, self._workload = target, target.fleet, target.workload
        self.kinds: Mapping[str, Callable[[Fault], bool]] = {
            "topic recreated": lambda _: self._workload.recreate(_DRAIN_S),
            "topic grown": lambda _: self._workload.grow(),
            "clock shift": self._shift_clock,
            "offset reset": self._reset_offsets,
            "twin": self._run_twin,
        }

    def _shift_clock(self, fault: Fault) -> bool:
        """Run a worker of the judge with its clock ahead for a while."""
        slots = self._fleet.of("judge")
        if not slots:
            return False
        slot = fault.choose(slots)
        usual, slot.command = slot.command, _SHIFTED_CLOCK
        self._restart(slot)
        time.sleep(self._target.lengths.clock)
        slot.command = usual
        self._restart(slot)
        return True

    def _restart(self, slot: Slot) -> None:
        with self._assigned_again([slot]):
            self._fleet.restart(slot)

    @contextmanager
    def _assigned_again(self, slots: Sequence[Slot]) -> Iterator[None]:
        """At the end of a `with` block that restarts slots, wait until they have partitions again, or for a minute."""
        before = {slot: slot.assignments for slot in slots}
        yield
        wait_for(lambda: all(slot.assignments > before[slot] for slot in slots), _START_S)

    def _reset_offsets(self, fault: Fault) -> bool:
        """Stop evaluate, set the offsets of an idle and of a busy partition back, and start it again."""
        slots, partitions = self._fleet.of("evaluate"), self._workload.generator.partitions
        if not slots or partitions < 2:
            return False
        idle = fault.choose(range(partitions))
        with self._workload.idle(idle):
            # A worker then does not read back as far as the idle partition's last output.
            enough = self._workload.sent + _OTHER_RECORDS
            wait_for(lambda: self._workload.sent >= enough, self._target.lengths.idle)
            with self._assigned_again(slots):
                for slot in slots:
                    self._fleet.leave(slot)
                try:
                    # The broker rejects it while the group has members, which is until their sessions end.
                    done = wait_for(lambda: self._set_back([idle, (idle + 1) % partitions]), _START_S)
                finally:
                    for slot in slots:
                        slot.wanted = True
            time.sleep(_WRITTEN_S)
        return done

    def _set_back(self, partitions: Sequence[int]) -> bool:
        """Set the committed offsets of partitions back; return False if the broker rejects it."""
        group, admin = f"{self._target.prefix}evaluate", self._target.cluster.admin()
        asked = ConsumerGroupTopicPartitions(group, [TopicPartition(self._workload.topic, each) for each in partitions])
        found = admin.list_consumer_group_offsets([asked], request_timeout=_CALL_S)[group].result(_CALL_S)
        back = [
            TopicPartition(at.topic, at.partition, max(0, at.offset - _RESET_OFFSETS)) for at in found.topic_partitions
        ]
        request = ConsumerGroupTopicPartitions(group, back)
        answer = admin.alter_consumer_group_offsets([request], request_timeout=_CALL_S)[group].result(_CALL_S)
        return not any(at.error for at in answer.topic_partitions)

    def _run_twin(self, fault: Fault) -> bool:
        """Start a second process with a slot's number for a while, as a second deployment with the same names does."""
        slots = self._fleet.of(fault.service if fault.service != "export" else "evaluate")
        if not slots:
            return False
        twin = self._fleet.add(fault.choose(slots).twin())
        time.sleep(self._target.lengths.twin)
        self._fleet.remove(twin)
        return True
