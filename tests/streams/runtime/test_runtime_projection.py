"""A projection reads its topics from where it needs them, to their ends and on, and commits nothing."""

from collections.abc import Sequence

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
        self.flushed: list[int] = []
        self.closed = False

    @override
    def take(self, record: Record) -> None:
        self.values.append(record.value)

    @override
    def flush(self, now_s: float) -> None:
        self.flushed.append(len(self.values))

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


def test_nothing_is_flushed_before_all_partitions_were_read(world: World) -> None:
    world.cluster.create(WINDOWS, 2)
    for partition in (0, 1):
        world.cluster.produce(WINDOWS, b"1", b"2", partition=partition)
    projection = Collecting()
    project(world, projection, [lambda: len(projection.flushed) > 2, after(5.0)], 2)
    assert sorted(projection.values, key=str) == [b"1", b"1", b"2", b"2"]
    assert set(projection.flushed) == {4}
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
    project(world, projection, [lambda: projection.flushed])
    assert projection.values == [b"new"]


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
    project(world, projection, [lambda: projection.flushed])
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
