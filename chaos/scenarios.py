"""Scenarios: the one moment that each mutant cannot stand, set up on purpose. The healthy product stands all."""

from __future__ import annotations

import random
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType

from chaos.broker import Cluster
from chaos.checker import Checker
from chaos.events import Drawn, Sender, interaction
from chaos.fleet import COMMAND, MUTANT, Fleet, Slot, environment
from chaos.oracle import Oracle
from chaos.run import QUICK_CLIENT, SHOWN, cheap
from chaos.transactions import Verdict
from ragweir.streams.kafka.topics import create_topics
from ragweir.streams.settings import KafkaSettings, Settings, TopicSettings

NAIVE = "naive-faust"
"""No mutant of ours: the textbook's way with faust-streaming."""
PARTITIONS = 2
_PATIENCE_S = 40.0
_TURN_S = 0.02
_READ_S = 1.0
"""Within which an idle worker has read an event."""
_SOME = 20
_HELD_BYTES = 10_000
_LARGE = 40_000
_STEP_MS = 7_000
_AGE_MS = 3_600_000


class Stage:
    """A few workers, healthy or mutants, under a prefix of their own, with traffic and a checker.

    Args:
        cluster: shared with others.
        prefix: of the topics.
        folder: for the logs.
        mutant: what is broken in every worker; nothing without one.
        services: what there is to do.
        more: settings.
    """

    def __init__(self, cluster: Cluster, prefix: str, folder: Path, mutant: str, *services: str, **more: Any) -> None:
        self.cluster, self.prefix = cluster, prefix
        self._folder, self._mutant, self._services = folder, mutant, services
        client = {**QUICK_CLIENT, **more.pop("client", {})}
        # Repeated ids are not looked for: they would hide some of what is to be seen.
        chosen = {"metrics__off": cheap(), "windows__commit_ms": 200, "input__duplicate_horizon": 0, **more}
        self._environment = environment(cluster.proxied, prefix, client, **chosen)
        kafka, topics = (
            KafkaSettings(bootstrap_servers=cluster.direct),
            TopicSettings(prefix=prefix, partitions=PARTITIONS),
        )
        # Not from the environment, which changes while scenarios play in threads.
        create_topics(Settings.model_construct(kafka=kafka, topics=topics))
        self.fleet = Fleet()
        oracle = Oracle(0, refused=lambda event: len(str(event["query"])) >= _LARGE)
        self.checker = Checker(cluster.direct, prefix, PARTITIONS, oracle, services)
        topic = f"{prefix}interactions"
        self._sender = Sender(cluster.direct, topic)
        self._inputs = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
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
            kept = self._folder / f"{self.prefix}faust"
            command = (sys.executable, "-m", "chaos.naive_faust", self.cluster.proxied, self.prefix, str(kept))
        elif self._mutant:
            command = (*MUTANT, self._mutant)
        log = self._folder / f"{self.prefix}{service}-{number}.log"
        return self.fleet.add(Slot(service, number, self.prefix, self._environment, log, command))

    def publish(self, number: int, **more: object) -> None:
        """Send so many events, spread over the partitions, some seconds of event time apart."""
        for _ in range(number):
            each = self._sender.sent
            value = interaction(each, int(time.time() * 1_000) - _AGE_MS + each * _STEP_MS, judged=False, **more)
            self._sender.send(Drawn(each % PARTITIONS, f"e{each}".encode(), value))
        self._sender.flush()

    def until(self, what: Callable[[], object], within_s: float = _PATIENCE_S) -> None:
        """Wait for something.

        Raises:
            TimeoutError: if it does not come.
        """
        until = time.monotonic() + within_s
        while not what():
            if time.monotonic() > until:
                raise TimeoutError(f"{self.prefix} waits in vain")
            time.sleep(_TURN_S)

    def settle(self) -> None:
        """Wait until all has come out; of a mutant, until every offset is committed, for more may never come."""
        passes_over = self._mutant and self._services == ("evaluate",)
        self.until(
            lambda: self.checker.complete(self._sender.sent) or (passes_over and self._committed() == self._sender.sent)
        )

    def warm_up(self, number: int) -> None:
        """Publish so many and wait for what comes of them; a mutant may commit the offsets alone first."""
        self.publish(number)
        self.until(lambda: self.checker.complete(self._sender.sent))

    def _committed(self) -> int:
        try:
            places = self._group.committed(self._inputs, timeout=2)
        except KafkaException:
            return -1  # An open transaction holds them back, or the group has no coordinator yet.
        return sum(max(0, place.offset) for place in places)

    def pass_by(self) -> None:
        """Join the group of evaluate until every partition has been dealt out anew, and leave it."""
        other = Consumer({**self._member, "partition.assignment.strategy": "roundrobin", "session.timeout.ms": 6_000})
        other.subscribe([each.topic for each in self._inputs[:1]])
        self.until(lambda: other.poll(_TURN_S) or other.assignment())
        other.close()

    def commits(self, slot: Slot) -> int:
        """How many transactions a slot has committed."""
        return self.cluster.proxy.call(lambda: self.cluster.proxy.transactions.commits[slot.member])

    def at(self, slot: Slot, moment: Any, act: Callable[[], Verdict]) -> Callable[[], bool]:
        """Act when a slot comes to a moment of its transaction; gives whether it has."""
        self.cluster.proxy.trap(slot.member, moment, act)
        return lambda: self.cluster.proxy.call(lambda: slot.member not in self.cluster.proxy.transactions.traps)

    def scrape(self, slot: Slot) -> None:
        """Note what a slot shows."""
        if (sample := slot.sample(SHOWN)) is not None:
            self.checker.shown[sample[0]] = sample[1]

    def verdict(self) -> dict[str, int]:
        """End all, and give what is wrong."""
        try:
            self.fleet.close()
            found = self.checker.finish(_PATIENCE_S)
        finally:
            self.fleet.close()
            self._group.close()
        return {**found.faults(), **{f"{name} refused": times for name, times in self.fleet.refusals().items()}}


def _kill(slot: Slot) -> Verdict:
    slot.send(signal.SIGKILL)
    return "drop"


def killed_behind_a_commit(stage: Stage) -> None:
    """SIGKILL between the broker's commit and the worker's hearing of it."""
    slot = stage.slot()
    stage.warm_up(10)
    sprung = stage.at(slot, "after commit", lambda: _kill(slot))
    stage.publish(20)
    stage.until(sprung)
    stage.settle()


def aborted(stage: Stage) -> None:
    """An evaluation that the broker does not take, so that its transaction is aborted."""
    topic = ConfigResource(ResourceType.TOPIC, f"{stage.prefix}evaluations")
    entry = ConfigEntry("max.message.bytes", str(_HELD_BYTES), incremental_operation=AlterConfigOpType.SET)
    topic.add_incremental_config(entry)
    admin = AdminClient({"bootstrap.servers": stage.cluster.direct, "log_level": 0})
    admin.incremental_alter_configs([topic])[topic].result(30)
    slot = stage.slot()
    stage.warm_up(10)
    noise = random.Random(7).randbytes(_LARGE // 2).hex()  # noqa: S311 (what lz4 cannot shorten)
    stage.publish(1, query=noise)
    stage.publish(9)
    stage.until(lambda: slot.logged("transaction aborted"))
    stage.publish(20)
    stage.settle()


def woken_too_late(stage: Stage) -> None:
    """SIGSTOP with the work written and its offsets not yet sent, until another has done the same; then SIGCONT."""
    slot = stage.slot()
    stage.warm_up(10)

    def stop() -> Verdict:
        slot.send(signal.SIGSTOP)
        return "hold"

    sprung = stage.at(slot, "before offsets", stop)
    stage.publish(20)
    stage.until(sprung)
    other = stage.slot(number=1)
    stage.until(lambda: stage.commits(other))
    before, lived = stage.commits(slot), len(slot.logged("partitions assigned"))
    stage.cluster.proxy.release(slot.client)
    slot.send(signal.SIGCONT)
    # If it ends, its next life ends its transaction, which what it has still written at its last would keep open.
    stage.until(
        lambda: (
            stage.commits(slot) > before
            or slot.logged("transaction aborted")
            or len(slot.logged("partitions assigned")) > lived
        )
    )
    stage.settle()


def joined_by_another(stage: Stage) -> None:
    """Somebody joins the group, and soon leaves it, while the worker holds what it has read and not begun to write."""
    slot = stage.slot()
    stage.publish(PARTITIONS)
    stage.until(lambda: stage.commits(slot))
    stage.publish(1)  # Half a batch: it is held for several seconds.
    time.sleep(_READ_S)
    stage.pass_by()
    stage.publish(PARTITIONS - 1)
    stage.settle()


def restarted(stage: Stage) -> None:
    """A restart in order."""
    slot = stage.slot()
    stage.warm_up(10)
    stage.fleet.restart(slot)
    stage.publish(10)
    stage.settle()


def aggregated(stage: Stage) -> None:
    """Events of an hour ago, to be summed up by their own time."""
    stage.slot()
    stage.slot("aggregate")
    stage.publish(40)
    stage.settle()


def restored_beside_a_transaction(stage: Stage) -> None:
    """SIGKILL of the aggregation while somebody else's transaction in the windows topic is open."""
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
    lived = len(slot.logged("started"))
    sprung = stage.at(slot, "after commit", lambda: _kill(slot))
    stage.publish(20)
    stage.until(sprung)
    stage.until(lambda: len(slot.logged("started")) > lived)
    stage.until(lambda: slot.logged("waiting for an open transaction") or slot.exits[2])
    other.abort_transaction(30)
    stage.publish(10)
    stage.settle()


def killed_before_a_commit(stage: Stage) -> None:
    """SIGKILL while the commit is under way, with the telemetry read just before."""
    slot = stage.slot()
    stage.warm_up(10)
    sprung = stage.at(slot, "before commit", lambda: "hold")
    stage.publish(20)
    stage.until(sprung)
    stage.scrape(slot)
    _kill(slot)
    stage.settle()
    stage.until(lambda: slot.exits.total() and slot.pid)
    stage.scrape(slot)


def killed_amid_traffic(stage: Stage) -> None:
    """SIGKILL at no particular moment, while events come one after the other."""
    slot = stage.slot()
    while stage.checker.received < 2 * _SOME:
        stage.publish(2)
        time.sleep(_TURN_S)
    _kill(slot)
    stage.publish(_SOME)
    stage.settle()


@dataclass(frozen=True, slots=True)
class Scenario:
    """How a mutant is caught: what happens, and the fault that must be found."""

    play: Callable[[Stage], None]
    fault: str
    services: tuple[str, ...] = ("evaluate",)
    settings: Mapping[str, Any] = field(default_factory=dict)


_LONG = MappingProxyType(
    {"client": {"session.timeout.ms": 1_500, "heartbeat.interval.ms": 300, "transaction.timeout.ms": 60_000}}
)
_PAIRS = MappingProxyType({"batch__max_events": PARTITIONS, "batch__max_wait_ms": 5_000})
_WINDOWS = ("evaluate", "aggregate")

SCENARIOS: Mapping[str, Scenario] = MappingProxyType(
    {
        "commit-before-produce": Scenario(killed_behind_a_commit, "evaluations lost"),
        "no-rewind": Scenario(aborted, "evaluations lost", settings={"output__include_text": True}),
        "no-fencing": Scenario(woken_too_late, "evaluations duplicated", settings=_LONG),
        "drop-on-revoke": Scenario(joined_by_another, "evaluations lost", settings=_PAIRS),
        "commit-revoked": Scenario(joined_by_another, "evaluations duplicated", settings=_PAIRS),
        "wall-clock-windows": Scenario(aggregated, "windows wrong", _WINDOWS),
        "offsets-without-one": Scenario(restarted, "evaluations duplicated"),
        "restore-to-stable-end": Scenario(restored_beside_a_transaction, "aggregate 0 refused", _WINDOWS),
        "count-before-commit": Scenario(killed_before_a_commit, "telemetry overcounted"),
        NAIVE: Scenario(killed_amid_traffic, "evaluations duplicated"),
    }
)
"""By the name of the mutant."""


def play(cluster: Cluster, prefix: str, folder: Path, scenario: Scenario, mutant: str = "") -> dict[str, int]:
    """Play a scenario with a mutant, or with the healthy product; gives what is wrong, and how often."""
    stage = Stage(cluster, prefix, folder, mutant, *scenario.services, **scenario.settings)
    try:
        scenario.play(stage)
    finally:
        found = stage.verdict()
    return found
