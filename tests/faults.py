"""What fault tests share: traffic whose fate is known in advance, and real `ragweir evaluate` processes to hurt."""

import json
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from conftest import committed, coordinated, create_topic, produce, read_to_end
from row_records import rows_of
from services import eventually, quick

BEHIND = "lies behind what is written already"
"""What a worker logs that was told an offset older than its own output."""

Place = tuple[int, int]
"""A partition of the interactions and an offset in it."""


class Traffic:
    """Interactions and poison in known places, under a prefix of their own.

    A record's id is its place, so that whatever reads them can say which are missing, doubled or out of order.
    """

    def __init__(self, bootstrap: str, prefix: str, partitions: int = 4, *, has_rows: bool = False) -> None:
        self.bootstrap, self.prefix, self.has_rows = bootstrap, prefix, has_rows
        self.topic = f"{prefix}interactions"
        self.reconnect()
        self.published = dict.fromkeys(range(partitions), 0)
        create_topic(bootstrap, self.topic, partitions)
        create_topic(bootstrap, f"{prefix}redrive")
        create_topic(bootstrap, f"{prefix}evaluations", partitions)
        create_topic(bootstrap, f"{prefix}dead-letter", partitions)
        create_topic(bootstrap, f"{prefix}documents", partitions)

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
        found = committed(self.admin, f"{self.prefix}evaluate", 5)
        return {partition: at.offset for (topic, partition), at in found.items() if topic == self.topic}

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
        """The dead letters, likewise."""
        found = []
        for message in read_to_end(self.bootstrap, f"{self.prefix}dead-letter"):
            said = dict(message.headers())
            place = int(said["ragweir-source-partition"]), int(said["ragweir-source-offset"])
            found.append((message.partition(), place))
        return found

    def rows(self) -> list[tuple[int, Place]]:
        """The rows of events, likewise."""
        found = []
        for message in read_to_end(self.bootstrap, f"{self.prefix}documents"):
            found += [(message.partition(), tuple(row["at"][1:3])) for row in rows_of(message.value())]
        return found

    def must_be_settled_exactly_once(self, first: Mapping[int, int] | None = None) -> None:
        """Wait for the end, then account for every record from `first` (an offset per partition) on.

        Nothing lost or doubled, poison and only poison dead, order kept per source and output partition.
        """
        self.settled()
        starts = first or {}
        wanted = {(p, offset) for p, end in self.published.items() for offset in range(starts.get(p, 0), end)}
        poison = {place for place in wanted if self._poison(place[1])}
        evaluated = wanted - poison
        for found, expected in (
            (self.evaluations(), evaluated),
            (self.dead_letters(), poison),
            (self.rows(), evaluated if self.has_rows else set()),
        ):
            places = [place for _, place in found]
            assert sorted(set(places)) == sorted(expected), "lost, or never published"
            assert len(places) == len(expected), "doubled"
            lanes: defaultdict[Place, list[int]] = defaultdict(list)
            for output, (partition, offset) in found:
                lanes[output, partition].append(offset)
            assert all(lane == sorted(lane) for lane in lanes.values()), "out of order"


def environment(traffic: Traffic, **settings: Any) -> dict[str, str]:
    """Settings of a service for this traffic; small batches, so that much is going on at any moment."""
    if traffic.has_rows:
        settings = {"blame__enabled": True, **settings}
    return quick(traffic.bootstrap, traffic.prefix, **{"batch__max_events": 20, **settings})


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
