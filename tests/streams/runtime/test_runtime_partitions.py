"""Partitions come and go: starts, committed offsets, rebalances, members that die, are replaced or lose the group."""

import pytest
from fake_consumer import FakeConsumer
from fake_worker import IN, OUT, Copier, Killed, Script, World, after
from typing_extensions import override

from ragweir.errors import PermanentError, RestartRequired
from ragweir.streams.runtime.agent_parts import InputProgress
from ragweir.streams.runtime.records import Record, ReplayBounds, TopicPartition

VALUES = [b"%d" % number for number in range(20)]


def test_the_calls_have_the_order_of_the_lifecycle(world: World) -> None:
    agent = Copier()

    def script() -> Script:
        yield lambda: agent.of("on_assigned")
        world.cluster.produce(IN, *VALUES[:3])
        yield lambda: world.cluster.values(OUT) == VALUES[:3]
        assert world.sample("ragweir_assigned_partitions") == 1

    world.run(agent, script())
    assert agent.of("on_assigned") == [(IN, 0, None, 0)]
    handled = agent.names.index("handle")
    assert agent.names[handled : handled + 4] == ["handle", "tick", "on_commit", "drain_metrics"]
    assert agent.names[-3:] == ["drain", "on_revoked", "drain_metrics"]
    assert agent.handled == [0, 1, 2]
    assert world.offset()[0] == 3


def test_a_group_starts_at_the_beginning_or_at_the_end(world: World) -> None:
    world.cluster.produce(IN, *VALUES[:3])
    agent = Copier()

    def script() -> Script:
        yield lambda: agent.of("on_assigned")
        yield after(0.1)
        world.cluster.produce(IN, b"new")
        yield lambda: agent.handled

    world.run(agent, script(), input={"start_from": "latest"})
    assert agent.handled == [3]
    assert world.offset()[0] == 4


def test_the_start_is_committed_without_a_record(world: World) -> None:
    """So that a restart does not start elsewhere."""
    world.cluster.produce(IN, *VALUES[:3])
    world.run(Copier(), iter([lambda: world.offset()[0] == 3]), input={"start_from": "latest"})


def test_a_process_goes_on_at_the_committed_offset(world: World) -> None:
    world.cluster.produce(IN, *VALUES)
    world.run(Copier(), iter([lambda: world.offset()[0] == 20]))
    world.cluster.produce(IN, b"more")
    agent = Copier()
    world.run(agent, iter([lambda: world.offset()[0] == 21]))
    assert agent.of("on_assigned") == [(IN, 0, 20, 20)]
    assert world.cluster.values(OUT) == [*VALUES, b"more"]


def test_records_that_retention_deleted_are_counted_and_skipped(world: World) -> None:
    world.cluster.produce(IN, *VALUES[:5])
    world.run(Copier(), iter([lambda: world.offset()[0] == 5]))
    world.cluster.produce(IN, *VALUES)
    world.cluster.topics[IN].logs[0].start = 12
    agent = Copier()
    world.run(agent, iter([lambda: world.offset()[0] == 25]))
    assert agent.handled == list(range(12, 25))
    assert world.sample("ragweir_events_missed_total", topic=IN, partition="0") == 7


def test_records_that_retention_deletes_while_they_wait_need_a_restart(world: World) -> None:
    agent = Copier()

    def script() -> Script:
        yield lambda: agent.of("on_assigned")
        world.cluster.produce(IN, *VALUES)
        world.cluster.topics[IN].logs[0].start = 8
        yield lambda: False

    with pytest.raises(RestartRequired, match=r"retention deleted records of rag.interactions unread"):
        world.run(agent, script())
    assert agent.handled == []


def test_an_offset_beyond_the_end_is_left_to_people(world: World) -> None:
    world.cluster.groups["rag.test"].offsets[IN, 0] = 7, ""
    with pytest.raises(PermanentError, match=r"the committed offset 7 of rag.interactions/0 is beyond its end 0"):
        world.run(Copier(), iter([lambda: False]))


def test_a_member_that_joins_gets_its_share_behind_what_was_committed(world: World) -> None:
    """The open transaction is committed before the partitions are given up, and each record is read once."""
    world.cluster.grow(IN, 2)
    agent = Copier()
    read: list[bytes | None] = []

    def polled(member: FakeConsumer) -> list[bytes | None]:
        if (message := member.poll(0)) is not None:
            read.append(message.value())
        return read

    def script() -> Script:
        yield lambda: agent.of("on_assigned")
        for partition in (0, 1):
            world.cluster.produce(IN, *VALUES, partition=partition)
        yield lambda: len(agent.handled) >= 25
        assert len(world.cluster.values(OUT)) < 25, "a transaction is open"
        other = world.consumer()
        other.subscribe([IN])
        yield lambda: (polled(other), len(agent.of("on_assigned")) == 3)[1]
        for partition in (0, 1):
            world.cluster.produce(IN, b"later", partition=partition)
        yield lambda: b"later" in polled(other)
        yield lambda: b"later" in world.cluster.values(OUT)

    world.run(agent, script(), batch={"max_events": 5, "max_wait_ms": 20})
    revoked = agent.names.index("on_revoked")
    assert agent.calls[revoked] == ("on_revoked", [0, 1])
    assert "on_commit" in agent.names[agent.names.index("handle") : revoked]
    assert "on_abort" not in agent.names
    assert sorted([*world.cluster.values(OUT), *read], key=str) == sorted([*VALUES, b"later"] * 2, key=str)


def test_records_of_a_batch_that_is_being_read_go_with_their_partition(world: World) -> None:
    """The next owner reads them, so that they must be neither handled nor committed here."""
    world.cluster.grow(IN, 2)
    agent, read = Copier(), list[bytes | None]()
    other = world.consumer(partition_assignment_strategy="roundrobin")

    def poll() -> None:
        if (message := other.poll(0)) is not None:
            read.append(message.value())
        world.clocks.after(0.05, poll)

    def join() -> None:
        other.subscribe([IN])
        poll()

    def script() -> Script:
        yield lambda: agent.of("on_assigned")
        for partition in (0, 1):
            world.cluster.produce(IN, *VALUES[:3], partition=partition)
        world.clocks.after(0.2, join)
        yield lambda: len(read) == 3
        yield after(3.0)

    world.run(agent, script(), batch={"max_wait_ms": 1_000})
    assert read == VALUES[:3]
    assert world.cluster.values(OUT) == VALUES[:3]
    ((_, kept, _, _),) = agent.of("on_assigned")[2:]
    assert {partition for each in agent.of("handle") for partition, _ in each} == {kept}
    assert world.offset(1 - kept)[0] <= 0


def test_a_member_that_was_removed_aborts_and_reads_again(world: World) -> None:
    """Another member may have the partitions already, and so nothing of the open transaction is committed."""
    agent = Copier()

    def lose(_: Record) -> bytes:
        group = world.cluster.groups["rag.test"]
        if len(agent.handled) > 8 and group.generation == 1:
            for member_id in list(group.members):
                group.leave(member_id)
        return b"x"

    def script() -> Script:
        yield lambda: agent.of("on_assigned")
        world.cluster.produce(IN, *VALUES)
        yield lambda: world.offset()[0] == 20

    agent.writes = lose
    world.run(agent, script(), batch={"max_events": 5, "max_wait_ms": 20})
    assert "on_abort" in agent.names
    assert agent.names.index("on_abort") < agent.names.index("on_revoked")
    assert len(world.cluster.values(OUT)) == 20


def test_a_killed_process_leaves_nothing_behind(world: World) -> None:
    """The next one of the slot takes over at once: it fences the old one and aborts its open transaction."""
    first = Copier()

    def killed() -> Script:
        yield lambda: first.of("on_assigned")
        world.cluster.produce(IN, *VALUES)
        yield lambda: len(first.handled) >= 10
        raise Killed

    with pytest.raises(Killed):
        world.run(first, killed(), batch={"max_events": 5, "max_wait_ms": 20})
    sent = world.cluster.topics[OUT].logs[0]
    assert len(sent.entries) > len(world.cluster.values(OUT)), "a transaction is open"
    second, began = Copier(), world.clocks.monotonic()
    world.run(second, iter([lambda: world.offset()[0] == 20]))
    assert world.clocks.monotonic() - began < 2
    assert world.cluster.values(OUT) == VALUES
    ((_, _, committed, start),) = second.of("on_assigned")
    assert committed == start < 20


def test_a_process_whose_consumer_has_a_twin_names_its_slot(world: World) -> None:
    agent = Copier()

    def script() -> Script:
        yield lambda: agent.of("on_assigned")
        twin = world.consumer(group_instance_id="rag.test-here-0")
        twin.subscribe([IN])
        twin.poll(0)
        yield lambda: False

    with pytest.raises(
        RestartRequired, match=r"'rag.test-here-0' has to start again: probably another process has join"
    ):
        world.run(agent, script())
    assert "on_revoked" not in agent.names


def test_a_partition_that_is_added_is_read_from_its_start(world: World) -> None:
    """Although the group starts at the end: all its records are newer than the group."""
    agent = Copier()

    def script() -> Script:
        yield lambda: world.offset()[0] == 0
        world.cluster.grow(IN, 2)
        world.cluster.produce(IN, *VALUES[:3], partition=1)
        yield lambda: world.offset(1)[0] == 3

    world.run(agent, script(), input={"start_from": "latest"})
    assert agent.handled == [0, 1, 2]


def test_a_member_learns_from_the_partitions_of_others_that_its_own_was_added(world: World) -> None:
    """The number of partitions with which the group began is committed with each offset."""
    world.cluster.grow(IN, 2)
    world.cluster.groups["rag.test"].offsets[IN, 0] = 0, '{"topic":"id-1","partitions":1}'
    world.cluster.produce(IN, *VALUES[:3], partition=1)
    other = world.consumer(partition_assignment_strategy="roundrobin")
    other.subscribe([IN])
    other.poll(0)
    agent = Copier()
    world.run(agent, iter([lambda: (other.poll(0), world.offset(1)[0] == 3)[1]]), input={"start_from": "latest"})
    assert agent.of("on_assigned") == [(IN, 1, None, 0)]
    assert agent.handled == [0, 1, 2]


def test_a_partition_that_no_member_has_is_asked_for(world: World) -> None:
    """A static member that comes back gets its old assignment, which lacks a partition that was added meanwhile."""
    world.cluster.produce(IN, *VALUES)
    agent = Copier()

    def killed() -> Script:
        yield lambda: world.offset()[0] == 20
        raise Killed

    with pytest.raises(Killed):
        world.run(agent, killed())
    group = world.cluster.groups["rag.test"]
    world.cluster.grow(IN, 2)
    group._counts = {IN: 2}  # No leader sees a change.
    world.cluster.produce(IN, *VALUES[:3], partition=1)
    again = Copier()
    world.run(again, iter([lambda: world.offset(1)[0] == 3]))
    assert [at[:2] for at in again.of("on_assigned")] == [(IN, 0), (IN, 0), (IN, 1)]


def test_a_replay_reads_its_bounds_and_no_more(world: World) -> None:
    world.cluster.produce(IN, *VALUES)
    agent = Copier()
    bounds = ReplayBounds({(IN, 0): 5}, {(IN, 0): 9})
    world.run(agent, iter([lambda: world.offset()[0] == 9, after(1.0)]), bounds=bounds)
    assert agent.handled == [5, 6, 7, 8]
    assert world.cluster.values(OUT) == VALUES[5:9]


def test_a_replay_keeps_its_rate(world: World) -> None:
    world.cluster.produce(IN, *VALUES * 5)
    agent = Copier()
    began = world.clocks.monotonic()
    bounds = ReplayBounds({(IN, 0): 0}, {(IN, 0): 100}, rate=10.0)
    world.run(agent, iter([lambda: world.offset()[0] == 100]), bounds=bounds)
    assert 9 <= world.clocks.monotonic() - began <= 11


def test_an_assignment_tells_the_note_and_the_topic(world: World) -> None:
    class Noting(InputProgress):
        @override
        def note(self, topic_partition: TopicPartition) -> str:
            return "n" * 200

    world.cluster.produce(IN, *VALUES)
    world.run(Copier(input_progress=Noting()), iter([lambda: world.offset()[0] == 20]))
    told: list[tuple[str, str, int | None]] = []
    agent = Copier()
    agent.on_start = lambda each: told.append((each.note, each.topic_id, each.partitions))
    world.run(agent, iter([lambda: told]))
    assert told == [("n" * 100, "id-1", 1)]
