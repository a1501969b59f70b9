"""`python -m chaos.coordinator`: check whether Kafka's group coordinator forgets offsets when its broker is killed.

Only plain clients are used: a consumer commits, the broker is killed and restarted, and consumers read the committed
offset meanwhile. The broker's properties make loading the group's partition slower than losing and regaining its
leader, which reveals a race that is rare with others: see `ragweir.streams.runtime.recovery.offset_recovery`. Exits
with 1 if a committed offset was lower than one that had been confirmed.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections import Counter

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from ragweir.streams.playground.local.kafka import local_kafka

_SLOW_TO_LOAD = {
    "broker.session.timeout.ms": "1000",
    "broker.heartbeat.interval.ms": "100",
    "offsets.load.buffer.size": str(64 * 1024 * 1024),
}
_TOPIC, _PARTITIONS = "topic", 300
_COMMITS = 3_000
"""Commits of all partitions: 900,000 records to load."""
_READ_S = 6.0


def _consumer(bootstrap: str) -> Consumer:
    return Consumer({"bootstrap.servers": bootstrap, "group.id": "group", "log_level": 0})


def _read_committed(bootstrap: str, over: threading.Event, offsets: Counter[int]) -> None:
    """Count the committed offsets that the broker returns for partition 0, until the event is set."""
    while not over.is_set():
        consumer = _consumer(bootstrap)  # A new one each time: one that has lost a broker takes long to reconnect.
        try:
            for _ in range(100):
                (answer,) = consumer.committed([TopicPartition(_TOPIC, 0)], timeout=2)
                offsets[answer.offset] += 1
                time.sleep(0.02)
        except KafkaException:
            continue  # The broker does not run.
        finally:
            consumer.close()


def main() -> int:
    """Kill the broker several times, print the offsets that it returned, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m chaos.coordinator", description=__doc__)
    parser.add_argument("--kills", type=int, default=6, help="number of SIGKILLs of the broker")
    kills, forgot = parser.parse_args().kills, 0
    with local_kafka(properties=_SLOW_TO_LOAD) as kafka:
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        admin.create_topics([NewTopic(_TOPIC, _PARTITIONS, 1)])[_TOPIC].result(30)
        committing = _consumer(kafka.bootstrap)
        for offset in range(1, _COMMITS + 1):
            committing.commit(
                offsets=[TopicPartition(_TOPIC, each, offset) for each in range(_PARTITIONS)], asynchronous=False
            )
        committing.close()
        for number in range(1, kills + 1):
            over, offsets = threading.Event(), Counter[int]()
            reading = threading.Thread(target=_read_committed, args=(kafka.bootstrap, over, offsets), daemon=True)
            reading.start()
            kafka.kill()
            kafka.start()
            time.sleep(_READ_S)
            over.set()
            reading.join()
            forgot += min(offsets, default=_COMMITS) < _COMMITS
            answers = ", ".join(f"{count} times offset {offset:,}" for offset, count in sorted(offsets.items()))
            sys.stdout.write(f"SIGKILL {number}: {answers}; {_COMMITS:,} is right, and a negative one means none\n")
    sys.stdout.write(f"After {forgot} of {kills} kills the coordinator had forgotten a confirmed offset.\n")
    return 1 if forgot else 0


if __name__ == "__main__":
    sys.exit(main())
