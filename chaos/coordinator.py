"""`python -m chaos.coordinator`: does Kafka's group coordinator forget offsets when its broker is killed?

Nothing of ragweir is at work, but for starting Kafka: a plain consumer commits, the broker is killed and started, and
plain consumers ask what is committed. The broker is set so that loading the group's partition takes longer than losing
and regaining its leader, which shows a race that other settings meet seldom: see
`ragweir.streams.runtimes.offset_recovery`.
Exits with 1 if an answer was older than what had been confirmed.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from rich.console import Console
from typing_extensions import override

from ragweir.streams.playground.local.kafka import local_kafka

SLOW_TO_LOAD = {
    "broker.session.timeout.ms": "1000",
    "broker.heartbeat.interval.ms": "100",
    "offsets.load.buffer.size": str(64 * 1024 * 1024),
}
GROUP, TOPIC, PARTITIONS = "group", "topic", 300
_COMMITS = 3_000
"""Of all partitions each: 900,000 records to load."""
_LOOKING_S = 6.0


class _Looking(threading.Thread):
    """Asks for the committed offset of partition 0 all the time."""

    def __init__(self, bootstrap: str, confirmed: int) -> None:
        super().__init__(daemon=True)
        self._own = {"bootstrap.servers": bootstrap, "group.id": GROUP, "log_level": 0}
        self._confirmed = confirmed
        self.over = threading.Event()
        self.older: list[int] = []
        self.right = 0

    @override
    def run(self) -> None:
        while not self.over.is_set():
            consumer = Consumer(self._own)  # A new one each time: one that saw the broker go is slow to come back.
            try:
                for _ in range(100):
                    (answer,) = consumer.committed([TopicPartition(TOPIC, 0)], timeout=2)
                    if answer.offset < self._confirmed:
                        self.older.append(answer.offset)
                    else:
                        self.right += 1
                    time.sleep(0.02)
            except KafkaException:
                continue  # The broker is away.
            finally:
                consumer.close()


def main() -> int:
    """Kill the broker so many times, and say what was answered; gives the exit status."""
    parser = argparse.ArgumentParser(prog="python -m chaos.coordinator", description=__doc__)
    parser.add_argument("--kills", type=int, default=6, help="SIGKILLs of the broker")
    kills = parser.parse_args().kills
    out, forgot = Console(), 0
    with local_kafka(properties=SLOW_TO_LOAD) as kafka:
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(30)
        committing = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": GROUP, "log_level": 0})
        for offset in range(1, _COMMITS + 1):
            committing.commit(
                offsets=[TopicPartition(TOPIC, each, offset) for each in range(PARTITIONS)], asynchronous=False
            )
        committing.close()
        for number in range(1, kills + 1):
            looking = _Looking(kafka.bootstrap, _COMMITS)
            looking.start()
            kafka.kill()
            kafka.start()
            time.sleep(_LOOKING_S)
            looking.over.set()
            looking.join()
            forgot += bool(looking.older)
            told = "nothing" if looking.older and max(looking.older) < 0 else str(max(looking.older, default=""))
            wrong = f"{len(looking.older)} answers of {told}, " if looking.older else ""
            out.print(f"SIGKILL {number}: {wrong}{looking.right} of {_COMMITS:,}, which is right", highlight=False)
    out.print(f"{forgot} of {kills} times the coordinator forgot what it had confirmed.", highlight=False)
    return 1 if forgot else 0


if __name__ == "__main__":
    sys.exit(main())
