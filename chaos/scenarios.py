"""Scenarios: the situation in which each mutant fails, set up on purpose. The unchanged product passes all of them."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType

from chaos.broker import QUICK_CLIENT, Cluster
from chaos.checker import Checker
from chaos.courses import COSTLY
from chaos.events import Drawn, EventSender, interaction
from chaos.fleet import COMMAND, MUTANT, Fleet, Slot, environment
from chaos.oracle import Oracle
from chaos.transactions import Action, Moment, Verdict
from chaos.waiting import require
from ragweir.errors import DO_NOT_RESTART
from ragweir.streams.runtime.kafka.topics import create_topics
from ragweir.streams.runtime.processes.child_python import python_command
from ragweir.streams.settings import KafkaSettings, Settings, TopicSettings

NAIVE = "naive-faust"
"""An implementation with faust-streaming as textbooks have it, instead of a mutant of the product."""
PARTITIONS = 2
_PATIENCE_S = 40.0
_TURN_S = 0.02
_BACKLOG, _BATCHES = 500, 50
"""Events that take a worker some seconds, and a number of transactions after which they have several batches."""
_TIMES = 5
"""Number of rebalances, where one may pass without harm."""
_READ_S = 1.0
"""Time within which an idle worker has read an event, in seconds."""
_LIMIT_BYTES = 10_000
_LARGE = 40_000
_STEP_MS = 7_000
_AGE_MS = 3_600_000


class Stage:
    """A few workers, of the product or a mutant, with topics, events and a checker of their own on shared brokers."""

    def __init__(self, cluster: Cluster, prefix: str, folder: Path, mutant: str, *services: str, **more: Any) -> None:
        self.cluster, self.prefix = cluster, prefix
        self._folder, self._mutant, self._services = folder, mutant, services
        client = {**QUICK_CLIENT, **more.pop("client", {})}
        # Skipped ids would hide duplicates.
        chosen = {"metrics__off": COSTLY, "windows__commit_ms": 200, "input__duplicate_horizon": 0, **more}
        self._environment = environment(cluster.proxied, prefix, client, **chosen)
        kafka = KafkaSettings(bootstrap_servers=cluster.direct)
        topics = TopicSettings(prefix=prefix, partitions=PARTITIONS)
        # Without the environment, which changes while scenarios run in threads.
        create_topics(Settings.model_construct(kafka=kafka, topics=topics))
        self.fleet = Fleet()
        oracle = Oracle(0, is_too_large=lambda event: len(str(event["query"])) >= _LARGE)
        self.checker = Checker(cluster.direct, prefix, PARTITIONS, oracle, services)
        self._topic = f"{prefix}interactions"
        self._sender = EventSender(cluster.direct, self._topic)
        self._member = {
            "bootstrap.servers": cluster.direct,
            "group.id": f"{prefix}evaluate",
            "enable.auto.commit": False,
            "log_level": 0,
        }
        self._group = Consumer(self._member)
        self.checker.start()

    def slot(self, service: str = "evaluate", number: int = 0) -> Slot:
        """Start a slot."""
        command: tuple[str, ...] = COMMAND
        if self._mutant == NAIVE:
            data = self._folder / f"{self.prefix}faust"
            command = tuple(python_command("-m", "chaos.naive_faust", self.cluster.proxied, self.prefix, str(data)))
        elif self._mutant:
            command = (*MUTANT, self._mutant)
        log = self._folder / f"{self.prefix}{service}-{number}.log"
        return self.fleet.add(Slot(service, number, self.prefix, self._environment, log, command))

    def publish(self, count: int, **more: object) -> None:
        """Send events, spread over the partitions, some seconds of event time apart."""
        for number in range(self._sender.sent, self._sender.sent + count):
            value = interaction(number, int(time.time() * 1_000) - _AGE_MS + number * _STEP_MS, judged=False, **more)
            self._sender.send(Drawn(number % PARTITIONS, f"e{number}".encode(), value))
        self._sender.flush()

    def until(self, condition: Callable[[], object]) -> None:
        """Wait for a condition, or raise TimeoutError."""
        require(condition, _PATIENCE_S, f"{self.prefix}: a condition did not become true", _TURN_S)

    def settle(self) -> None:
        """Wait for all outputs; of a mutant, until every offset is committed, since outputs may be missing."""
        may_lose = self._mutant and self._services == ("evaluate",)
        self.until(lambda: self._complete() or (may_lose and self._committed() == self._sender.sent))

    def warm_up(self, count: int) -> None:
        """Send events and wait for their outputs; a mutant may commit only the offsets at first."""
        self.publish(count)
        self.until(self._complete)

    def _complete(self) -> bool:
        return self.checker.complete(self._sender.sent)

    def _committed(self) -> int:
        # It raises while an open transaction holds the offsets back, or the group has no coordinator.
        partitions = [TopicPartition(self._topic, partition) for partition in range(PARTITIONS)]
        return sum(max(0, at.offset) for at in self._group.committed(partitions, timeout=2))

    def rebalance(self, meanwhile: Callable[[], object] = lambda: None) -> None:
        """Join the group of evaluate until partitions are assigned, and leave it; call `meanwhile` at each turn."""
        other = Consumer({**self._member, "partition.assignment.strategy": "roundrobin", "session.timeout.ms": 6_000})
        other.subscribe([self._topic])

        def is_assigned() -> object:
            meanwhile()
            return other.poll(_TURN_S) or other.assignment()

        self.until(is_assigned)
        other.close()

    def commits(self, slot: Slot) -> int:
        """Return how many transactions a slot has committed."""
        return self.cluster.proxy.call(lambda: self.cluster.proxy.transactions.commits[slot.member])

    def publish_until(self, slot: Slot, moment: Moment, act: Action) -> None:
        """Send events, act when a slot reaches a moment of its transaction, and return then."""
        self.cluster.proxy.trap(slot.member, moment, act)
        self.publish(20)
        self.until(lambda: not self.cluster.proxy.is_trapped(slot.member))

    def result(self) -> dict[str, int]:
        """Stop everything, and return the defects and how often each was found."""
        try:
            self.fleet.close()
            found = self.checker.finish(_PATIENCE_S)
        finally:
            self.fleet.close()
            self._group.close()
        fatal = {f"{name} fatal": times for name, times in self.fleet.fatal_exits().items()}
        return {**found.defects(), **fatal}


def _kill(slot: Slot) -> Verdict:
    slot.send(signal.SIGKILL)
    return "drop"


def killed_after_commit(stage: Stage) -> None:
    """SIGKILL between the broker's commit and its response to the worker."""
    slot = stage.slot()
    stage.warm_up(10)
    stage.publish_until(slot, "after commit", lambda: _kill(slot))
    stage.settle()


def aborted(stage: Stage) -> None:
    """An evaluation that the broker rejects, so that its transaction is aborted."""
    topic = ConfigResource(ResourceType.TOPIC, f"{stage.prefix}evaluations")
    entry = ConfigEntry("max.message.bytes", str(_LIMIT_BYTES), incremental_operation=AlterConfigOpType.SET)
    topic.add_incremental_config(entry)
    admin = stage.cluster.admin()
    admin.incremental_alter_configs([topic])[topic].result(30)
    slot = stage.slot()
    stage.warm_up(10)
    noise = random.Random(7).randbytes(_LARGE // 2).hex()  # noqa: S311 (lz4 cannot compress it)
    stage.publish(1, query=noise)
    stage.publish(9)
    stage.until(lambda: slot.logged("transaction aborted"))
    stage.publish(20)
    stage.settle()


def resumed_too_late(stage: Stage) -> None:
    """SIGSTOP between writing the outputs and the offsets, until another worker has written both; then SIGCONT."""
    slot = stage.slot()
    stage.warm_up(10)

    def stop() -> Verdict:
        slot.send(signal.SIGSTOP)
        return "hold"

    stage.publish_until(slot, "before offsets", stop)
    other = stage.slot(number=1)
    stage.until(lambda: stage.commits(other))
    commits, assignments = stage.commits(slot), slot.assignments
    stage.cluster.proxy.release(slot.client)
    slot.send(signal.SIGCONT)
    # If it ends, the next process ends its transaction, which its last outputs would keep open.
    stage.until(
        lambda: stage.commits(slot) > commits or slot.logged("transaction aborted") or slot.assignments > assignments
    )
    stage.settle()


def rebalanced(stage: Stage) -> None:
    """A member joins the group and leaves it soon, while the worker holds records without output."""
    slot = stage.slot()
    stage.publish(PARTITIONS)
    stage.until(lambda: stage.commits(slot))
    stage.publish(1)  # Half a batch, which is held for several seconds.
    time.sleep(_READ_S)
    stage.rebalance()
    stage.publish(PARTITIONS - 1)
    stage.settle()


def rebalanced_under_a_backlog(stage: Stage) -> None:
    """The same while a transaction of several batches is open, several times, as not every moment shows a mistake."""
    slot = stage.slot()
    stage.warm_up(10)
    commits = stage.commits(slot)
    stage.publish(_BACKLOG)
    stage.until(lambda: stage.commits(slot) > commits)
    for _ in range(_TIMES):
        stage.rebalance(lambda: stage.publish(_BATCHES))
    stage.settle()


def restarted(stage: Stage) -> None:
    """A restart with SIGTERM."""
    slot = stage.slot()
    stage.warm_up(10)
    stage.fleet.restart(slot)
    stage.publish(10)
    stage.settle()


def aggregated(stage: Stage) -> None:
    """Events of an hour ago, which belong to the windows of their own time."""
    stage.slot()
    stage.slot("aggregate")
    stage.publish(40)
    stage.settle()


def restored_during_a_transaction(stage: Stage) -> None:
    """SIGKILL of aggregate while another producer's transaction in the windows topic is open."""
    stage.slot()
    slot = stage.slot("aggregate")
    stage.warm_up(20)
    other = Producer(
        {"bootstrap.servers": stage.cluster.direct, "transactional.id": f"{stage.prefix}other", "log_level": 0}
    )
    other.init_transactions(30)
    other.begin_transaction()
    for partition in range(PARTITIONS):
        other.produce(f"{stage.prefix}windows", b"{}", b'["none"]', partition)
    other.flush(30)
    starts = len(slot.logged("started"))
    stage.publish_until(slot, "after commit", lambda: _kill(slot))
    stage.until(lambda: len(slot.logged("started")) > starts)
    stage.until(lambda: slot.logged("waiting for an open transaction") or slot.exits[DO_NOT_RESTART])
    other.abort_transaction(30)
    stage.publish(10)
    stage.settle()


def killed_before_commit(stage: Stage) -> None:
    """SIGKILL while the commit is in flight, with the telemetry read just before."""
    slot = stage.slot()
    stage.warm_up(10)
    stage.publish_until(slot, "before commit", lambda: "hold")
    stage.checker.scraped(f"{slot.name} {slot.pid}", slot.samples())
    _kill(slot)
    stage.settle()
    stage.until(lambda: slot.exits.total() and slot.pid)
    stage.checker.scraped(f"{slot.name} {slot.pid}", slot.samples())


def killed_at_any_moment(stage: Stage) -> None:
    """SIGKILL at no particular moment, while events arrive one after the other."""
    slot = stage.slot()
    while stage.checker.received < 40:
        stage.publish(2)
        time.sleep(_TURN_S)
    _kill(slot)
    stage.publish(20)
    stage.settle()


@dataclass(frozen=True, slots=True)
class Scenario:
    """A situation, and the defect by which a mutant is caught in it."""

    play: Callable[[Stage], None]
    defect: str
    services: tuple[str, ...] = ("evaluate",)
    settings: Mapping[str, Any] = field(default_factory=dict)


_LONG = MappingProxyType(
    {"client": {"session.timeout.ms": 1_500, "heartbeat.interval.ms": 300, "transaction.timeout.ms": 60_000}}
)
_PAIRS = MappingProxyType({"batch__max_events": PARTITIONS, "batch__max_wait_ms": 5_000})
_SMALL = MappingProxyType({"batch__max_events": 5, "commit__interval_ms": 2_500})
_WINDOWS = ("evaluate", "aggregate")

SCENARIOS: Mapping[str, Scenario] = MappingProxyType(
    {
        "commit-before-produce": Scenario(killed_after_commit, "evaluations lost"),
        "no-rewind": Scenario(aborted, "evaluations lost", settings={"output__include_text": True}),
        "no-fencing": Scenario(resumed_too_late, "evaluations duplicated", settings=_LONG),
        "drop-on-revoke": Scenario(rebalanced, "evaluations lost", settings=_PAIRS),
        "commit-revoked": Scenario(rebalanced, "evaluations duplicated", settings=_PAIRS),
        "forget-on-revoke": Scenario(rebalanced_under_a_backlog, "evaluations duplicated", settings=_SMALL),
        "wall-clock-windows": Scenario(aggregated, "windows wrong", _WINDOWS),
        "offsets-without-one": Scenario(restarted, "evaluations duplicated"),
        "restore-to-stable-end": Scenario(restored_during_a_transaction, "aggregate 0 fatal", _WINDOWS),
        "count-before-commit": Scenario(killed_before_commit, "telemetry overcounted"),
        NAIVE: Scenario(killed_at_any_moment, "evaluations duplicated"),
    }
)
"""Scenarios by the name of the mutant."""


def play(cluster: Cluster, prefix: str, folder: Path, scenario: Scenario, mutant: str = "") -> dict[str, int]:
    """Play a scenario with a mutant, or with the product; return the defects and how often each was found."""
    stage = Stage(cluster, prefix, folder, mutant, *scenario.services, **scenario.settings)
    try:
        scenario.play(stage)
    finally:
        found = stage.result()
    return found
