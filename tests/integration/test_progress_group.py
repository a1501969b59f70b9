"""When offsets are committed to the progress group: seldom, and again before Kafka forgets them."""

from collections.abc import Iterator

import pytest
from confluent_kafka import TopicPartition as PartitionOffset
from conftest import SharedBroker, transaction
from faults import Traffic

from ragweir.streams.runtime.records import TopicPartition
from ragweir.streams.runtime.recovery.offset_metadata import OffsetMetadata
from ragweir.streams.runtime.recovery.progress_group import ProgressGroup
from ragweir.streams.runtime.recovery.topic_identity import TopicVersion
from ragweir.streams.settings import Settings

DAY_S = 24 * 3600.0


class Clock:
    """Seconds that a test sets."""

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def group(clock: Clock) -> Iterator[ProgressGroup]:
    group = ProgressGroup(Settings(), "group", {"t": TopicVersion("id", 2)}, lambda: False, clock)
    group.metadata = b"as if partitions had been taken over"
    return group


def commit(group: ProgressGroup, settled: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Commit what is due with a transaction that commits these offsets; gives it."""
    offsets = group.offsets([PartitionOffset(*place, offset) for place, offset in settled.items()])
    assert bool(offsets) == group.due(settled)
    group.on_commit(offsets)
    assert {OffsetMetadata.parse(each.metadata).topic for each in offsets} <= {"id"}
    return {(each.topic, each.partition): each.offset for each in offsets}


def test_only_what_has_changed_is_committed_and_not_often(group: ProgressGroup, clock: Clock) -> None:
    settled = {("t", 0): 5, ("t", 1): 7, ("another", 0): 1}
    assert commit(group, settled) == {("t", 0): 5, ("t", 1): 7}
    settled["t", 1] = 9
    assert commit(group, settled) == {}
    clock.now_s += 11
    assert commit(group, settled) == {("t", 1): 9}
    clock.now_s += 11
    assert commit(group, settled) == {}, "as long as the partitions are idle"


def test_a_process_that_ends_does_not_wait(group: ProgressGroup) -> None:
    commit(group, {("t", 0): 5})
    group.end()
    assert commit(group, {("t", 0): 6}) == {("t", 0): 6}


def test_what_has_not_changed_is_committed_once_a_day(group: ProgressGroup, clock: Clock) -> None:
    """Kafka forgets offsets of a group without members after seven days."""
    told = []
    for _ in range(7 * 24):
        clock.now_s += DAY_S / 24
        told.append(commit(group, {("t", 0): 5}))
    assert 6 <= told.count({("t", 0): 5}) <= 8


def test_nothing_is_committed_to_a_group_that_was_never_read(clock: Clock) -> None:
    """It is not read for an agent whose state has the progress of every partition."""
    group = ProgressGroup(Settings(), "group", {"t": TopicVersion("id", 2)}, lambda: False, clock)
    assert commit(group, {("t", 0): 5}) == {}


def test_offsets_of_a_topic_that_was_made_again_are_not_read(kafka: SharedBroker, prefix: str, clock: Clock) -> None:
    traffic = Traffic(kafka.bootstrap, prefix, partitions=1)
    settings = Settings.model_validate({"kafka": {"bootstrap_servers": kafka.bootstrap}})
    place = PartitionOffset(traffic.topic, 0)
    group = ProgressGroup(settings, f"{prefix}progress", {traffic.topic: TopicVersion("id", 1)}, lambda: False, clock)
    assert group.read([place]) == {}
    producer = transaction(kafka.bootstrap, prefix)
    offsets = group.offsets([PartitionOffset(traffic.topic, 0, 5)])
    producer.send_offsets_to_transaction(offsets, group.metadata, 30)
    producer.commit_transaction(30)
    for known, found in (("id", {(traffic.topic, 0): 5}), ("another", {})):
        topics = {traffic.topic: TopicVersion(known, 1)}
        assert ProgressGroup(settings, f"{prefix}progress", topics, lambda: False, clock).read([place]) == found
