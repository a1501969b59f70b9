"""A projection reads its topics from where it needs them, to their ends and on, and commits nothing."""

from collections.abc import Mapping, Sequence

import pytest
from confluent_kafka import KafkaError, Message
from fake_consumer import failure
from fake_worker import Condition, Stopped, World, after
from typing_extensions import override

from ragweir.errors import RestartRequired
from ragweir.streams.runtime.loop.projection_runtime import ProjectionRuntime
from ragweir.streams.runtime.projection import Projection
from ragweir.streams.runtime.records import Measurements, Record
from ragweir.streams.settings import Settings

WINDOWS = "rag.windows"


class Collecting(Projection):
    """Keeps what it reads, and counts its flushes."""

    topics = ("windows",)
    since_s = 1e9
    """The time back, in seconds, from which it needs records."""

    def __init__(self) -> None:
        self.values: list[bytes | None] = []
        self.flushed: list[tuple[int, bool]] = []
        self.offsets: Mapping[int, int] = {}
        self.asked: list[tuple[str, str]] = []
        self.closed = False

    @override
    def resume(self, topic: str, topic_id: str) -> Mapping[int, int]:
        self.asked.append((topic, topic_id))
        return self.offsets

    @override
    def take(self, record: Record) -> None:
        self.values.append(record.value)

    @override
    def flush(self, now_s: float, *, caught_up: bool) -> None:
        self.flushed.append((len(self.values), caught_up))

    @override
    def drain_metrics(self) -> Measurements:
        return Measurements()

    @override
    def close(self) -> None:
        self.closed = True


def project(world: World, projection: Projection, conditions: Sequence[Condition], partitions: int = 1) -> None:
    settings = Settings(kafka={"bootstrap_servers": "memory:9092"})
    stopped = Stopped(iter(conditions))
    ProjectionRuntime(settings, projection, {WINDOWS: partitions}, world.telemetry, world.health, stopped).run()


def test_it_is_caught_up_once_all_partitions_were_read(world: World) -> None:
    world.cluster.create(WINDOWS, 2)
    for partition in (0, 1):
        world.cluster.produce(WINDOWS, b"1", b"2", partition=partition)
    projection = Collecting()
    project(world, projection, [lambda: len(projection.flushed) > 5, after(5.0)], 2)
    assert sorted(projection.values, key=str) == [b"1", b"1", b"2", b"2"]
    assert {taken for taken, caught_up in projection.flushed if caught_up} == {4}
    assert projection.closed
    assert world.health.not_ready == "stopped"
    assert world.sample("ragweir_lag", topic=WINDOWS, partition="1") == 0
    assert not world.cluster.groups["ragweir-reader"].offsets
    assert world.clocks.monotonic() - world.health.last_alive_s < 1


def test_it_reads_only_what_is_newer_than_it_needs(world: World) -> None:
    world.cluster.create(WINDOWS)
    world.cluster.produce(WINDOWS, b"old")
    world.clocks.sleep(1_000)
    world.cluster.produce(WINDOWS, b"new")
    world.clocks.sleep(10)
    projection = Collecting()
    projection.since_s = 100.0
    project(world, projection, [lambda: (1, True) in projection.flushed])
    assert projection.values == [b"new"]


@pytest.mark.slow
def test_it_is_flushed_every_second_while_it_catches_up(world: World) -> None:
    """A long first reading stores how far it has come, so that a restart goes on from there."""
    world.cluster.create(WINDOWS)
    world.cluster.produce(WINDOWS, *[b"%d" % number for number in range(5_000)])
    projection = Collecting()

    def take(record: Record) -> None:
        Collecting.take(projection, record)
        if record.offset % 1_000 == 999:
            world.clocks.sleep(1.5)

    projection.take = take  # type: ignore[method-assign]
    project(world, projection, [lambda: (5_000, True) in projection.flushed])
    behind = [taken for taken, caught_up in projection.flushed if not caught_up]
    assert behind == sorted(behind)
    assert set(behind) >= {1_000, 2_000, 3_000, 4_000}, projection.flushed[:8]


@pytest.mark.parametrize(
    ("offset", "read"),
    [(1, [b"1", b"2", b"3"]), (4, []), (0, [b"0", b"1", b"2", b"3"]), (5, [b"3"])],
    ids=["within", "end", "start", "beyond"],
)
def test_it_resumes_where_the_projection_was(world: World, offset: int, read: list[bytes]) -> None:
    """The offset of one partition holds however old its record is; others start `since_s` back, as all did before."""
    world.cluster.create(WINDOWS, 2)
    for partition in (0, 1):
        world.cluster.produce(WINDOWS, b"0", b"1", b"2", partition=partition)
    world.clocks.sleep(1_000)
    for partition in (0, 1):
        world.cluster.produce(WINDOWS, b"3", partition=partition)
    projection = Collecting()
    projection.since_s, projection.offsets = 100.0, {0: offset, 7: 0}
    project(world, projection, [lambda: any(caught_up for _, caught_up in projection.flushed)], 2)
    assert projection.asked == [(WINDOWS, world.cluster.topics[WINDOWS].id)]
    assert sorted(projection.values, key=str) == sorted([*read, b"3"], key=str)


def test_offsets_that_retention_has_passed_resume_at_the_first_record_that_is_left(world: World) -> None:
    world.cluster.create(WINDOWS)
    world.cluster.produce(WINDOWS, b"0", b"1", b"2")
    world.cluster.topics[WINDOWS].logs[0].start = 2
    projection = Collecting()
    projection.offsets = {0: 1}
    project(world, projection, [lambda: any(caught_up for _, caught_up in projection.flushed)])
    assert projection.values == [b"2"]


def test_a_topic_that_was_created_again_needs_a_new_process(world: World) -> None:
    """Its offsets belong to the deleted topic: the next process names the new id to `resume`."""
    world.cluster.create(WINDOWS)
    projection = Collecting()

    def create_again() -> None:
        world.cluster.delete(WINDOWS)
        world.cluster.create(WINDOWS)

    world.clocks.after(3.0, create_again)
    with pytest.raises(RestartRequired, match=r"rag.windows was created again"):
        project(world, projection, [lambda: False])
    project(world, projection, [lambda: any(caught_up for _, caught_up in projection.flushed)])
    assert len(set(projection.asked)) == 2
    assert projection.asked[1] == (WINDOWS, world.cluster.topics[WINDOWS].id)


def test_what_is_open_or_aborted_is_not_read(world: World) -> None:
    world.cluster.create(WINDOWS)
    producer = world.producer("another")
    producer.init_transactions()
    for value, end in ((b"aborted", producer.abort_transaction), (b"committed", producer.commit_transaction)):
        producer.begin_transaction()
        producer.produce(WINDOWS, value)
        producer.poll(0)
        end()
    producer.begin_transaction()
    producer.produce(WINDOWS, b"open")
    producer.poll(0)
    projection = Collecting()
    project(world, projection, [lambda: (1, True) in projection.flushed])
    assert projection.values == [b"committed"]


def test_a_broker_that_is_away_shows_and_comes_back(world: World) -> None:
    world.cluster.create(WINDOWS)
    projection = Collecting()
    shown: list[tuple[float | None, str]] = []

    def show(*, is_up: bool) -> bool:
        shown.append((world.sample("ragweir_broker_up"), world.health.not_ready))
        world.cluster.is_up = is_up
        return True

    waits = [after(1.0), lambda: show(is_up=False), after(12.0), lambda: show(is_up=True), after(24.0)]
    project(world, projection, [*waits, lambda: show(is_up=True)])
    assert [up for up, _ in shown] == [1, 0, 1]
    assert shown[1][1].startswith("the broker is lost")


def test_it_ends_while_it_waits_for_brokers(world: World) -> None:
    world.cluster.create(WINDOWS)
    world.cluster.is_up = False
    projection = Collecting()
    project(world, projection, [after(8.0)])
    assert projection.closed
    assert world.clocks.monotonic() < 12


@pytest.mark.parametrize("is_fatal", [True, False])
def test_an_error_of_the_consumer_ends_it_if_it_is_fatal(world: World, *, is_fatal: bool) -> None:
    world.cluster.create(WINDOWS)
    world.cluster.produce(WINDOWS, b"1")
    projection = Collecting()

    def break_() -> None:
        error = KafkaError(KafkaError._TRANSPORT, "it broke", fatal=is_fatal)
        world.cluster.clients[-1]._errors.append(Message(error=error))

    world.clocks.after(2.0, break_)
    world.clocks.after(3.0, lambda: world.cluster.produce(WINDOWS, b"2"))
    if is_fatal:
        with pytest.raises(RestartRequired, match="Kafka: it broke"):
            project(world, projection, [lambda: False])
    else:
        project(world, projection, [lambda: projection.values == [b"1", b"2"]])


def test_a_request_that_is_rejected_needs_a_new_process(world: World) -> None:
    world.cluster.create(WINDOWS)
    world.cluster.fault = lambda name: (
        failure(KafkaError.TOPIC_AUTHORIZATION_FAILED) if name == "offsets_for_times" else None
    )
    with pytest.raises(RestartRequired, match="Kafka: "):
        project(world, Collecting(), [lambda: False])


def test_a_topic_that_has_grown_needs_a_new_process(world: World) -> None:
    world.cluster.create(WINDOWS)
    projection = Collecting()
    world.clocks.after(3.0, lambda: world.cluster.grow(WINDOWS, 2))
    with pytest.raises(RestartRequired, match=r"rag.windows has more partitions than before"):
        project(world, projection, [lambda: False])
    assert projection.closed
