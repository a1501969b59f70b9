"""Faults of operators and clocks: recreated and grown topics, reset offsets, two processes in a slot, a wrong clock."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import MappingProxyType

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

from chaos.fleet import Slot
from chaos.schedule import Fault
from chaos.target import Injections, Target
from chaos.waiting import wait_for
from ragweir.streams.runtime.processes.child_python import python_command

AHEAD_S = 4 * 86_400
"""Time in seconds by which a clock is ahead or behind: more than the age at which requests to the judge expire."""
_SHIFTED = ("evaluate", "judge", "aggregate", "export", "key", "join")
"""The services that have a worker with a wrong clock, as far as they run."""
_CALL_S = 30.0
_START_S = 60.0
_DRAIN_S = 120.0
_OTHER_RECORDS = 3_000
_WRITTEN_S = 3.0
"""Time in seconds after which workers that start at a wrong offset have written output."""
_RESET_OFFSETS = 200
"""Number of offsets by which a committed offset is set back."""


@contextmanager
def _assigned_again(slots: Sequence[Slot]) -> Iterator[None]:
    """At the end of a `with` block that restarts slots, wait until they have partitions again, or for a minute."""
    before = {slot: slot.assignments for slot in slots}
    yield
    wait_for(lambda: all(slot.assignments > before[slot] for slot in slots), _START_S)


def _shift_clocks(target: Target, fault: Fault, ahead_s: int) -> bool:
    """Run a worker of each service with its clock ahead, or behind, for a while."""
    slots = [fault.choose(own) for service in _SHIFTED if (own := target.fleet.of(service))]
    usual = {slot: slot.command for slot in slots}
    shifted = dict.fromkeys(slots, tuple(python_command("-m", "chaos.shifted_clock", str(ahead_s))))
    for commands, seconds in ((shifted, target.lengths.clock), (usual, 0.0)):
        with _assigned_again([slot for slot in slots if slot.service != "export"]):
            for slot in slots:
                slot.command = commands[slot]
                target.fleet.restart(slot)
        time.sleep(seconds)
    return bool(slots)


def _reset_offsets(target: Target, fault: Fault) -> bool:
    """Stop evaluate, set the offsets of an idle and of a busy partition back, and start it again."""
    slots, partitions = target.fleet.of("evaluate"), target.workload.generator.partitions
    if not slots or partitions < 2:
        return False
    idle = fault.choose(range(partitions))
    with target.workload.idle(idle):
        # A worker then does not read back as far as the idle partition's last output.
        enough = target.workload.sent + _OTHER_RECORDS
        wait_for(lambda: target.workload.sent >= enough, target.lengths.idle)
        with _assigned_again(slots):
            for slot in slots:
                target.fleet.leave(slot)
            try:
                # The broker rejects it while the group has members, which is until their sessions end.
                done = wait_for(lambda: _set_back(target, [idle, (idle + 1) % partitions]), _START_S)
            finally:
                for slot in slots:
                    slot.wanted = True
        time.sleep(_WRITTEN_S)
    return done


def _set_back(target: Target, partitions: Sequence[int]) -> bool:
    """Set the committed offsets of partitions back; return False if the broker rejects it."""
    group, admin = f"{target.prefix}evaluate", target.cluster.admin()
    asked = ConsumerGroupTopicPartitions(group, [TopicPartition(target.workload.topic, each) for each in partitions])
    found = admin.list_consumer_group_offsets([asked], request_timeout=_CALL_S)[group].result(_CALL_S)
    back = [TopicPartition(at.topic, at.partition, max(0, at.offset - _RESET_OFFSETS)) for at in found.topic_partitions]
    request = ConsumerGroupTopicPartitions(group, back)
    answer = admin.alter_consumer_group_offsets([request], request_timeout=_CALL_S)[group].result(_CALL_S)
    return not any(at.error for at in answer.topic_partitions)


@contextmanager
def _without(target: Target, service: str) -> Iterator[None]:
    """Stop all workers of a service for the length of a `with` block."""
    slots = target.fleet.of(service)
    try:
        for slot in slots:
            target.fleet.leave(slot)
        yield
    finally:
        for slot in slots:
            slot.wanted = True


def _recreate_control(target: Target, _: Fault) -> bool:
    """Delete the topic of routing rows and create it again, while no planner runs."""
    if target.recreate_control is None:
        return False
    with _without(target, "planner"):
        target.recreate_control()
    return True


def _grow_feedback(target: Target, _: Fault) -> bool:
    """Add partitions to the topics of feedback, while match does not run."""
    if target.feedback is None:
        return False
    with _without(target, "match"):
        target.feedback.grow()
    return True


def _lose_store(target: Target, _: Fault) -> bool:
    """Kill match, and delete its store before it starts again."""
    if target.feedback is None:
        return False
    for slot in target.fleet.of("match"):
        slot.send(signal.SIGKILL)
    with _without(target, "match"):
        target.feedback.lose_store()
    return True


def _stop_evaluate(target: Target, _: Fault) -> bool:
    """Run no worker of evaluate for a while: feedback waits for its answers meanwhile."""
    with _without(target, "evaluate"):
        time.sleep(target.lengths.outage)
    return True


def _run_twin(target: Target, fault: Fault) -> bool:
    """Start a second process with a slot's number for a while, as a second deployment with the same names does."""
    slot = target.slot(fault)
    if slot is None:
        return False
    twin = target.fleet.add(slot.twin())
    time.sleep(target.lengths.twin)
    target.fleet.remove(twin)
    return True


OPERATOR_FAULTS: Injections = MappingProxyType(
    {
        "topic recreated": lambda target, _: target.workload.recreate(_DRAIN_S),
        "control recreated": _recreate_control,
        "feedback grown": _grow_feedback,
        "store lost": _lose_store,
        "evaluate outage": _stop_evaluate,
        "topic grown": lambda target, _: target.workload.grow(),
        "source deleted": lambda target, _: (
            target.sources is not None and target.sources.recreate(target.lengths.deleted)
        ),
        "clock ahead": lambda target, fault: _shift_clocks(target, fault, AHEAD_S),
        "clock behind": lambda target, fault: _shift_clocks(target, fault, -AHEAD_S),
        "offset reset": _reset_offsets,
        "twin": _run_twin,
    }
)
