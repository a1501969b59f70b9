"""Topics that are deleted and made again, or grow, under running workers: nothing is lost, and it is told."""

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient, NewPartitions, OffsetSpec
from conftest import SharedBroker, committed, create_topic, produce, read_to_end, values
from faults import Traffic, environment, set_offset
from services import Service, Services, eventually

from ragweir.errors import Interrupted
from ragweir.schemas.codec.json import encode
from ragweir.schemas.evaluation import Evaluation
from ragweir.streams.runtime.kafka.client import Connection
from ragweir.streams.runtime.recovery.offset_metadata import OffsetMetadata
from ragweir.streams.runtime.recovery.topic_identity import TopicIdentity
from ragweir.streams.settings import Settings

Start = Callable[..., Service]
QUICK = {"kafka": {"client": {"topic.metadata.refresh.interval.ms": 1000}}}


@pytest.fixture
def start(services: Services) -> Start:
    """Start services."""

    def start(traffic: Traffic, *arguments: str, service: str = "evaluate", **settings: Any) -> Service:
        return services.start(service, *arguments, variables=environment(traffic, **settings))

    return start


def events(name: str, count: int) -> list[bytes]:
    return [
        json.dumps({"event_id": f"{name}-{number}", "query": "Is it?", "response": "It is."}).encode()
        for number in range(count)
    ]


def evaluated(traffic: Traffic) -> list[str]:
    """The ids of the events that were evaluated, in the order of the output."""
    return [each["event_id"] for each in values(traffic.bootstrap, f"{traffic.prefix}evaluations")]


def recreate(traffic: Traffic, topic: str = "") -> None:
    """Delete a topic and create it again; without a name the interactions.

    Returns once the broker has the new topic: what is sent before that may be appended to the deleted one, and be lost.
    """
    admin, topic = AdminClient({"bootstrap.servers": traffic.bootstrap}), topic or traffic.topic

    def topic_id() -> str:
        return str(admin.describe_topics(TopicCollection([topic]))[topic].result(30).topic_id)

    def end() -> int:
        first = KafkaPartition(topic, 0)
        return admin.list_offsets({first: OffsetSpec.latest()})[first].result(30).offset

    def is_new() -> bool:
        with contextlib.suppress(KafkaException):
            create_topic(traffic.bootstrap, topic)
        return topic_id() != before and end() == 0

    before = topic_id()
    admin.delete_topics([topic])[topic].result(30)
    eventually(is_new, "the topic is created again, empty")


def ids(name: str, count: int) -> set[str]:
    return {f"{name}-{number}" for number in range(count)}


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("new", "start_from"),
    [
        pytest.param(60, "latest", id="shorter, latest"),
        pytest.param(200, "earliest", id="longer, earliest"),
        pytest.param(60, "earliest", id="shorter, earliest", marks=pytest.mark.long),
        pytest.param(200, "latest", id="longer, latest", marks=pytest.mark.long),
    ],
)
def test_a_topic_that_is_made_again_under_a_running_worker_is_read_from_its_start(
    single: Traffic, start: Start, start_from: str, new: int
) -> None:
    """Whether it is shorter than the offset that was reached in the old one, or longer."""
    service = start(single, "--workers", "1", input={"topic": single.topic, "start_from": start_from})
    eventually(lambda: service.logged("partitions assigned"), "it works")
    produce(single.bootstrap, single.topic, events("old", 100), partition=0)
    eventually(lambda: set(evaluated(single)) == ids("old", 100), "the old ones are evaluated")
    recreate(single)
    produce(single.bootstrap, single.topic, events("new", new), partition=0)
    eventually(lambda: set(evaluated(single)) >= ids("new", new), "the new ones are evaluated")
    assert sorted(evaluated(single)) == sorted(ids("old", 100) | ids("new", new)), "and nothing twice"
    assert service.logged("deleted and created again; reading it from its start", level="error")
    assert service.sample(f'ragweir_topics_recreated_total{{topic="{single.topic}"}}') == 1


@pytest.mark.heavy
def test_a_topic_that_is_made_again_while_no_worker_runs_begins_where_new_groups_do(
    single: Traffic, start: Start
) -> None:
    """Kafka forgets offsets with their topic, so nothing is left that would tell; by default that is the start."""
    first = start(single, "--slot", "0")
    produce(single.bootstrap, single.topic, events("old", 10), partition=0)
    eventually(lambda: len(evaluated(single)) == 10, "the old ones are evaluated")
    assert first.stop() == 0
    recreate(single)
    produce(single.bootstrap, single.topic, events("new", 30), partition=0)
    eventually(lambda: single.committed() == {}, "Kafka has deleted the offsets, which it does after the topic")
    start(single, "--slot", "0")
    eventually(lambda: len(evaluated(single)) == 40, "the new ones are evaluated")
    assert set(evaluated(single)) == ids("old", 10) | ids("new", 30)


@pytest.mark.heavy
def test_nothing_of_a_batch_is_committed_once_its_topic_is_another(single: Traffic, start: Start) -> None:
    """A worker that sleeps while the topic is deleted and made again reads the new one at the old offset."""
    service = start(single, "--workers", "1")
    produce(single.bootstrap, single.topic, events("old", 20), partition=0)
    eventually(lambda: len(evaluated(single)) == 20, "the old ones are evaluated")
    pid = service.pid(0)
    os.kill(pid, signal.SIGSTOP)
    recreate(single)
    produce(single.bootstrap, single.topic, events("new", 300), partition=0)
    time.sleep(0.5)
    os.kill(pid, signal.SIGCONT)
    eventually(lambda: set(evaluated(single)) >= ids("new", 300), "the new ones are evaluated")
    assert len(evaluated(single)) == 320, "and nothing twice"


def test_partitions_that_are_added_begin_at_their_start_whatever_new_groups_do(single: Traffic, start: Start) -> None:
    """With `start_from = "latest"`, what was written before anybody knew of the partition is read."""
    produce(single.bootstrap, single.topic, events("before", 5), partition=0)
    settings = {"input": {"topic": single.topic, "start_from": "latest"}, **QUICK}
    first = start(single, "--workers", "1", **settings)
    eventually(lambda: single.committed() == {0: 5}, "the group begins at the end, and has committed that")
    single.admin.create_partitions([NewPartitions(single.topic, 3)])[single.topic].result(30)
    time.sleep(0.5)
    for partition in (1, 2):
        produce(single.bootstrap, single.topic, events(f"p{partition}", 50), partition=partition)
    wanted = ids("p1", 50) | ids("p2", 50)
    eventually(lambda: set(evaluated(single)) >= wanted, "all of it is evaluated")
    assert set(evaluated(single)) == wanted
    assert first.stop() == 0
    found = committed(single.admin, f"{single.prefix}evaluate").values()
    stored = [at.metadata for at in found if at.topic == single.topic]
    assert {OffsetMetadata.parse(text).partitions for text in stored} == {1}, "the number when the group began"


@pytest.mark.heavy
def test_partitions_that_are_added_while_all_workers_restart_are_read(
    kafka: SharedBroker, prefix: str, start: Start
) -> None:
    """Static members that come back get their old partitions without a rebalance, and know the new number at once."""
    traffic = Traffic(kafka.bootstrap, prefix, partitions=2)
    client = {"session.timeout.ms": 10_000, "heartbeat.interval.ms": 500, "transaction.timeout.ms": 3_000}
    before = [start(traffic, "--slot", str(slot), kafka__client=client) for slot in range(2)]
    eventually(lambda: traffic.committed() == {0: 0, 1: 0}, "both work")
    eventually(lambda: sorted(map(len, traffic.held().values())) == [1, 1], "each has a partition")
    for service in before:
        service.process.kill()
        service.ended()
    traffic.admin.create_partitions([NewPartitions(traffic.topic, 4)])[traffic.topic].result(30)
    traffic.published |= {2: 0, 3: 0}
    traffic.publish(20)
    after = [start(traffic, "--slot", str(slot), kafka__client=client) for slot in range(2)]
    traffic.must_be_settled_exactly_once()
    found = [
        line for service in after for line in service.logged("partitions are assigned to no worker", level="warning")
    ]
    assert [line["partitions"] for line in found] == [{traffic.topic: [2, 3]}], "one worker joins again, once"
    assert sorted(map(len, traffic.held().values())) == [2, 2]


def evaluations(name: str, count: int) -> list[bytes]:
    when = datetime(2026, 1, 2, 12, tzinfo=UTC)
    return [
        encode(Evaluation(event_id=f"{name}-{number}", event_time=when, catalogue_version="2"))
        for number in range(count)
    ]


def counted(traffic: Traffic) -> int:
    """The events in the windows, each window by its newest record."""
    messages = read_to_end(traffic.bootstrap, f"{traffic.prefix}windows")
    newest = {message.key(): json.loads(message.value() or b"{}") for message in messages}
    return sum(window.get("events", 0) for window in newest.values())


@pytest.mark.heavy
def test_windows_count_all_evaluations_of_a_topic_that_is_made_again(
    prefix: str, single: Traffic, start: Start
) -> None:
    """The state of aggregate speaks of offsets of the old topic; nothing has to be set by hand."""
    create_topic(single.bootstrap, f"{prefix}windows")
    topic = f"{prefix}evaluations"

    service = start(single, "--workers", "1", service="aggregate")
    produce(single.bootstrap, topic, evaluations("old", 40), partition=0)
    eventually(lambda: counted(single) == 40, "the old ones are counted")
    recreate(single, topic)
    produce(single.bootstrap, topic, evaluations("new", 15), partition=0)
    eventually(lambda: counted(single) == 55, "the new ones are counted as well")
    assert service.logged("deleted and created again; reading it from its start", level="error")


@pytest.mark.heavy
@pytest.mark.parametrize("set_to", [None, 0])
def test_windows_count_evaluations_of_a_topic_that_was_made_again_while_no_worker_ran(
    prefix: str, single: Traffic, start: Start, set_to: int | None
) -> None:
    """Nothing has to be set; and what is set is of the new topic, whatever the windows say of the old one."""
    create_topic(single.bootstrap, f"{prefix}windows")
    topic = f"{prefix}evaluations"
    service = start(single, "--slot", "0", service="aggregate")
    produce(single.bootstrap, topic, evaluations("old", 40), partition=0)
    eventually(lambda: counted(single) == 40, "the old ones are counted")
    assert service.stop() == 0
    recreate(single, topic)
    produce(single.bootstrap, topic, evaluations("new", 37), partition=0)
    if set_to is not None:
        set_offset(single.bootstrap, f"{prefix}aggregate", topic, 0, set_to)
    start(single, "--slot", "0", service="aggregate")
    eventually(lambda: counted(single) == 77, "the new ones are counted as well")


@pytest.mark.heavy
def test_a_broker_that_dies_before_the_ids_are_known_is_told_as_lost() -> None:
    """Whoever waits for ids says that the broker is lost: neither consumer nor producer is polled meanwhile."""
    connection, began = Connection(quiet=True), time.monotonic()
    settings = Settings.model_validate({"kafka": {"bootstrap_servers": "127.0.0.1:9"}})
    shown: list[str] = []

    def stopped() -> bool:
        return bool(shown and shown[-1]) or time.monotonic() - began > 30

    identity = TopicIdentity(
        settings, ["interactions"], connection, lambda: shown.append(connection.lost_reason), stopped
    )
    with pytest.raises(Interrupted):
        identity.changed()
    assert shown[-1]
