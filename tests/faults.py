"""What fault tests share: traffic whose fate is known in advance, and real `ragweir evaluate` processes to hurt."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from conftest import coordinated, create_topic, produce, read_to_end

ROOT = Path(__file__).parent.parent
QUICK_CLIENT = {"session.timeout.ms": 3_000, "heartbeat.interval.ms": 500, "transaction.timeout.ms": 3_000}
"""Kafka's timeouts, scaled down; what is proved does not depend on them."""
BEHIND = "lies behind what is written already"
"""What a worker logs that was told an offset older than its own output."""
_PATIENCE_S = 60.0

Place = tuple[int, int]
"""A partition of the interactions and an offset in it."""
Answer = TypeVar("Answer")


def eventually(ask: Callable[[], Answer], what: str) -> Answer:
    """Ask until the answer is true, and give it; fail when it never is. A broker that cannot tell is asked again."""
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        with contextlib.suppress(KafkaException):
            if answer := ask():
                return answer
        time.sleep(0.02)
    pytest.fail(f"in {_PATIENCE_S:.0f} s it never came to this: {what}")


class Traffic:
    """Interactions and poison in known places, under a prefix of their own.

    A record's id is its place, so that whatever reads them can say which are missing, doubled or out of order.
    """

    def __init__(self, bootstrap: str, prefix: str, partitions: int = 4) -> None:
        self.bootstrap, self.prefix = bootstrap, prefix
        self.topic = f"{prefix}interactions"
        self.reconnect()
        self.published = dict.fromkeys(range(partitions), 0)
        create_topic(bootstrap, self.topic, partitions)
        create_topic(bootstrap, f"{prefix}redrive")
        create_topic(bootstrap, f"{prefix}evaluations", partitions)
        create_topic(bootstrap, f"{prefix}dead-letter", partitions)

    def reconnect(self) -> None:
        """Ask through a new client: one that saw the broker go can be a minute without an answer about groups."""
        coordinated(self.bootstrap, f"{self.prefix}evaluate")
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    @staticmethod
    def _poison(offset: int) -> bool:
        return offset % 50 == 7

    def publish(self, number: int) -> None:
        """Append so many records to each partition."""
        for partition, first in self.published.items():
            values = [
                b"not json"
                if self._poison(offset)
                else json.dumps({"event_id": f"{partition}/{offset}", "query": "Is it?", "response": "It is."}).encode()
                for offset in range(first, first + number)
            ]
            produce(self.bootstrap, self.topic, values, partition=partition)
            self.published[partition] = first + number

    def committed(self) -> dict[int, int]:
        """The group's committed offset of each partition of the interactions that has one."""
        group = f"{self.prefix}evaluate"
        asked = self.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)], request_timeout=5)[group]
        return {at.partition: at.offset for at in asked.result().topic_partitions if at.topic == self.topic}

    def left(self) -> int:
        """How many records are not yet committed."""
        return sum(self.published.values()) - sum(self.committed().values())

    def held(self) -> dict[int, set[int]]:
        """The partitions of the interactions that each slot holds by the broker's account."""
        group = f"{self.prefix}evaluate"
        described = self.admin.describe_consumer_groups([group], request_timeout=5)[group].result()
        return {
            int(member.group_instance_id.rpartition("-")[2]): {
                at.partition for at in member.assignment.topic_partitions if at.topic == self.topic
            }
            for member in described.members
        }

    def settled(self) -> None:
        """Wait until everything published is committed."""
        eventually(lambda: self.left() == 0, "all records are committed")

    def evaluations(self, isolation: str = "read_committed") -> list[tuple[int, Place]]:
        """What was evaluated: the output partition and the source's place, in the output's order."""
        found = []
        for message in read_to_end(self.bootstrap, f"{self.prefix}evaluations", isolation):
            source = json.loads(message.value())["source"]
            assert message.key().decode() == f"{source['partition']}/{source['offset']}"
            found.append((message.partition(), (source["partition"], source["offset"])))
        return found

    def dead_letters(self) -> list[tuple[int, Place]]:
        """What was buried, likewise."""
        found = []
        for message in read_to_end(self.bootstrap, f"{self.prefix}dead-letter"):
            said = dict(message.headers())
            place = int(said["ragweir-source-partition"]), int(said["ragweir-source-offset"])
            found.append((message.partition(), place))
        return found

    def must_be_settled_exactly_once(self, first: Mapping[int, int] | None = None) -> None:
        """Wait for the end, then account for every record from `first` (an offset per partition) on.

        Nothing lost or doubled, poison and only poison dead, order kept per source and output partition.
        """
        self.settled()
        starts = first or {}
        wanted = {(p, offset) for p, end in self.published.items() for offset in range(starts.get(p, 0), end)}
        poison = {place for place in wanted if self._poison(place[1])}
        for found, expected in ((self.evaluations(), wanted - poison), (self.dead_letters(), poison)):
            places = [place for _, place in found]
            assert sorted(set(places)) == sorted(expected), "lost, or never published"
            assert len(places) == len(expected), "doubled"
            lanes: defaultdict[Place, list[int]] = defaultdict(list)
            for output, (partition, offset) in found:
                lanes[output, partition].append(offset)
            assert all(lane == sorted(lane) for lane in lanes.values()), "out of order"


class Service:
    """A process that runs `ragweir evaluate`, supervised (`--workers`) or one slot of it, and what it logs."""

    def __init__(self, arguments: list[str], log: Path, environment: Mapping[str, str]) -> None:
        self.log = log
        with log.open("ab") as stderr:
            self.process = subprocess.Popen(
                [sys.executable, *arguments], cwd=ROOT, stderr=stderr, env={**os.environ, **environment}
            )

    def logged(self, event: str = "", **having: Any) -> list[dict[str, Any]]:
        """The log lines with this text in their event, and these fields."""
        whole, _, _ = self.log.read_text().rpartition("\n")  # The last line may be half written.
        lines = [json.loads(line) for line in whole.splitlines() if line.startswith("{")]
        return [line for line in lines if event in line["event"] and having.items() <= line.items()]

    def pid(self, slot: int) -> int:
        """The process of a slot, once it has started anew."""
        return int(eventually(lambda: self.logged("started", slot=slot), f"slot {slot} started")[-1]["pid"])

    def send(self, what: signal.Signals) -> None:
        """Send a signal to the process itself."""
        self.process.send_signal(what)

    def ended(self, within_s: float = _PATIENCE_S) -> int:
        """Wait for its end; gives the exit status."""
        return self.process.wait(within_s)

    def stop(self, within_s: float = _PATIENCE_S) -> int:
        """SIGTERM, and wait for its end."""
        self.send(signal.SIGTERM)
        return self.ended(within_s)

    def asked(self, path: str, slot: int = 0) -> tuple[int, str]:
        """The status and text of a path of a slot's telemetry; (0, "") while nothing listens."""
        started = self.logged("started", slot=slot)
        if not started:
            return 0, ""
        try:
            with urllib.request.urlopen(started[-1]["telemetry"] + path, timeout=10) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def sample(self, series: str, slot: int = 0) -> float:
        """The value of one series of a slot's telemetry; 0 when it is not there."""
        lines = [line.rpartition(" ") for line in self.asked("/metrics", slot)[1].splitlines()]
        return next((float(value) for name, _, value in lines if name == series), 0.0)


def end_all(services: Sequence[Service]) -> None:
    """End every service, also one that is stopped or does not listen, and print what each logged last."""
    running = [service for service in services if service.process.poll() is None]
    for service in running:
        service.send(signal.SIGCONT)
        service.send(signal.SIGTERM)
    for number, service in enumerate(services):
        try:
            service.ended(15)
        except subprocess.TimeoutExpired:
            service.process.kill()
            service.ended()
        print(f"-- log of service {number}", service.log.read_text()[-6000:], sep="\n")


def environment(traffic: Traffic, **settings: Any) -> dict[str, str]:
    """Settings of a service for this traffic; small batches, so that much is going on at any moment."""
    chosen = {
        "kafka__bootstrap_servers": traffic.bootstrap,
        "kafka__client": QUICK_CLIENT,
        "topics__prefix": traffic.prefix,
        "telemetry__port": 0,
        "batch__max_events": 20,
        **settings,
    }
    return {
        f"RAGWEIR_{name.upper()}": value if isinstance(value, str) else json.dumps(value)
        for name, value in chosen.items()
    }


def delete_before(traffic: Traffic, partition: int, offset: int) -> None:
    """Delete records as retention does."""
    asked = traffic.admin.delete_records([TopicPartition(traffic.topic, partition, offset)])
    for future in asked.values():
        future.result(30)


def set_offset(bootstrap: str, group: str, topic: str, partition: int, offset: int) -> None:
    """Commit an offset for a group that does not work, once the broker has let its members' sessions end."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0})

    def done() -> bool:
        consumer.commit(offsets=[TopicPartition(topic, partition, offset)], asynchronous=False)
        return True

    eventually(done, "the offset is set")
    consumer.close()


def forget(admin: AdminClient, group: str) -> None:
    """Make Kafka answer that a group has committed nothing, once its members' sessions have ended."""
    eventually(lambda: admin.delete_consumer_groups([group])[group].result(30) is None, "the group is deleted")


def gone(pid: int) -> bool:
    """Whether a process that is not our child has ended."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state == "Z"
