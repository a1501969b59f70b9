"""Restoring windows from a real Kafka: the end of the changelog is read, and it comes to the same as all of it."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import orjson
import pytest
from confluent_kafka import Producer
from conftest import SharedBroker, create_topic
from typing_extensions import override

from ragweir.metrics.aggregation.aggregator import Aggregator
from ragweir.metrics.catalogue import Catalogue, everything
from ragweir.streams.runtime.agent import Assignment, Changelog
from ragweir.streams.runtime.records import Emission, Outcome, Record
from ragweir.streams.runtime.recovery.restore import KafkaChangelog
from ragweir.streams.services.aggregate.agent import AggregateAgent, AggregateConfig
from ragweir.streams.services.aggregate.held_windows import WindowPart
from ragweir.streams.settings import Settings, WindowSettings

BASE = datetime(2026, 11, 21, tzinfo=UTC)
INPUT = ("evaluations", 0)
CONFIG = AggregateConfig(Aggregator(Catalogue(everything())), WindowSettings(hold_h=0.5))


class All(Changelog):
    """A changelog of which a restore reads everything, whatever it asks for."""

    def __init__(self, of: Changelog) -> None:
        self._of = of

    @property
    @override
    def end(self) -> int:
        return self._of.end

    @override
    def since(self, first: int) -> Iterator[Record]:
        return self._of.since(0)


class Worker:
    """An agent whose windows go to Kafka, each outcome in a transaction."""

    def __init__(self, bootstrap: str, prefix: str) -> None:
        self.settings = Settings.model_validate(
            {"kafka": {"bootstrap_servers": bootstrap}, "topics": {"prefix": prefix}}
        )
        self.topic = f"{prefix}windows"
        self.offset: int | None = None
        self.producer = Producer(
            {"bootstrap.servers": bootstrap, "transactional.id": prefix, "linger.ms": 0, "log_level": 0}
        )
        self.producer.init_transactions(30)
        self.take_over()

    def changelog(self) -> KafkaChangelog:
        """The changelog as it is now."""
        return KafkaChangelog(self.settings, "windows", 0, lambda: False)

    def take_over(self) -> None:
        """Restore the partition in another agent."""
        self.agent = self.restored(self.changelog())

    def restored(self, changelog: Changelog) -> AggregateAgent:
        """An agent that goes on from this changelog."""
        agent = AggregateAgent(CONFIG)
        agent.on_assigned(Assignment(INPUT, self.offset, self.offset or 0, changelog))
        return agent

    def minute(self, number: int) -> None:
        """One batch with two applications; every third transaction before it is aborted."""
        at = BASE + timedelta(minutes=number)
        first = self.offset or 0
        values = [
            {
                "event_id": "1",
                "event_time": at,
                "application": name,
                "scores": {"context_support": 0.5},
                "catalogue_version": "1",
            }
            for name in ("a", "b")
        ]
        stamp = int(at.timestamp() * 1000)
        records = [Record(*INPUT, first + n, None, orjson.dumps(each), stamp) for n, each in enumerate(values)]
        if number % 3 == 0:
            self.agent.handle(records)
            self.write(self.agent.tick(0.0, (), 1), commit=False)
            self.agent.on_abort()
        self.agent.handle(records)
        self.write(self.agent.tick(0.0, (), 1))
        self.agent.on_commit()
        self.offset = first + len(records)

    def write(self, outcome: Outcome, *, commit: bool = True) -> None:
        """Write what is emitted in one transaction."""
        self.producer.begin_transaction()
        for emission in outcome.emissions:
            self.producer.produce(self.topic, emission.value, emission.key, emission.partition)
        assert not self.producer.flush(30)
        (self.producer.commit_transaction if commit else self.producer.abort_transaction)()


def held(agent: AggregateAgent) -> dict[datetime, dict[tuple[str, ...], WindowPart]]:
    """What an agent holds."""
    return {start: dict(parts) for start, parts in agent._states[0].held.windows.items()}


def must_restore(worker: Worker) -> int:
    """What is restored from the end equals what all comes to. Gives the number of records that are read."""
    changelog = worker.changelog()
    agent, other = worker.restored(changelog), worker.restored(All(worker.changelog()))
    assert held(agent) == held(other)
    parts = {start: {labels: part.number for labels, part in each.items()} for start, each in held(agent).items()}
    assert parts == {
        start: {labels: part.number for labels, part in each.items()} for start, each in held(worker.agent).items()
    }
    return changelog.read


@pytest.mark.heavy
def test_a_restore_reads_the_end_of_a_long_changelog(kafka: SharedBroker, prefix: str) -> None:
    """Only what was written since the oldest window held, beside the end in which the newest progress is looked for."""
    create_topic(kafka.bootstrap, f"{prefix}windows")
    worker = Worker(kafka.bootstrap, prefix)
    for number in range(400):
        worker.minute(number)
        if number in (200, 390):
            worker.take_over()
    held_minutes = len(held(worker.agent))
    assert held_minutes == 32
    assert 3 * held_minutes <= must_restore(worker) <= 3 * held_minutes + 64 + 30
    assert worker.changelog().end == (400 + 134) * 4

    # A worker of release 0.1.0 writes the same: its progress has no such offset.
    *_, last = worker.changelog()
    fields = orjson.loads(last.value or b"")
    del fields["changelog_offset"]
    worker.write(Outcome([Emission("windows", last.key, orjson.dumps(fields), (), 0)]))
    assert must_restore(worker) > 3 * 400, "all of it"
    worker.take_over()
    worker.minute(400)
    assert must_restore(worker) <= 3 * held_minutes + 64 + 30, "once"


@pytest.mark.long
def test_a_compacted_changelog_is_restored_from_its_end(kafka: SharedBroker, prefix: str) -> None:
    """Compaction removes records before and behind the offset, and leaves the offsets of the others."""
    quick = {"cleanup.policy": "compact", "segment.ms": "200", "min.cleanable.dirty.ratio": "0.01"}
    create_topic(kafka.bootstrap, f"{prefix}windows", 1, quick)
    worker = Worker(kafka.bootstrap, prefix)
    for number in range(100):
        worker.minute(number)
        worker.minute(number)
    full = sum(1 for _ in worker.changelog())
    until = time.monotonic() + 60
    left = full
    while left > full * 3 // 4 and time.monotonic() < until:
        time.sleep(1)
        worker.minute(100)  # A segment ends when something is written.
        left = sum(1 for _ in worker.changelog())
    if left >= full:
        pytest.fail("nothing was compacted")
    assert must_restore(worker) < left
