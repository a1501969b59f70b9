"""`ragweir doctor` on what Kafka may lose: replicas, acknowledgements, elections, and records that wait too long."""

import dataclasses
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import structlog
from commands import ragweir
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from conftest import SharedBroker, coordinated, create_topic, produce, read_to_end
from faults import set_offset
from services import eventually

from ragweir.schemas.topics import TOPICS
from ragweir.streams.analysis.checks import kafka as checks
from ragweir.streams.analysis.checks.context import CheckContext, CheckFailed, CheckWarning
from ragweir.streams.analysis.checks.durability import Durability, DurabilityVerdict, described, unread, verdict
from ragweir.streams.playground.local.kafka import local_kafka
from ragweir.streams.runtime.kafka import transactional_producer
from ragweir.streams.runtime.kafka.client import Connection, Identity, producer_properties
from ragweir.streams.runtime.kafka.configurations import without_broker_time
from ragweir.streams.runtime.kafka.transactional_producer import TransactionalProducer
from ragweir.streams.runtime.loop.transactions import Transactions
from ragweir.streams.settings import Settings

SAFE = Durability("t", replicas=3, min_isr=2, unclean=False)
HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("change", "wrong", "risky"),
    [
        ({}, "", ""),
        ({"replicas": 5, "min_isr": 3}, "", ""),
        ({"replicas": 1, "min_isr": 1}, "one replica, which is away or lost with its broker", ""),
        ({"min_isr": 1}, "a write that one broker alone holds is acknowledged", ""),
        ({"unclean": True}, "a replica that lacks acknowledged records may lead", ""),
        ({"min_isr": 3}, "", "no write while one broker is away"),
        ({"min_isr": 4}, "nothing can be written", ""),
        ({"replicas": 2, "min_isr": 2}, "", "no write while one broker is away"),
        ({"replicas": 2, "min_isr": 1}, "a write that one broker alone holds", "fewer than 3 replicas"),
    ],
)
def test_each_setting_by_which_records_are_lost_is_named(change: Mapping[str, int], wrong: str, risky: str) -> None:
    """On three brokers, with the topic; nothing else is."""
    found = verdict([dataclasses.replace(SAFE, **change), dataclasses.replace(SAFE, topic="safe")], brokers=3)
    for texts, expected in ((found.wrong, wrong), (found.risky, risky)):
        assert len(texts) == bool(expected), found
        assert all(text.startswith(expected) and text.endswith(": t") for text in texts), found


def test_topics_with_the_same_fault_share_a_sentence() -> None:
    one, another = (dataclasses.replace(SAFE, topic=name, unclean=True) for name in ("b", "a"))
    (text,) = verdict([one, another], brokers=3).wrong
    assert text.endswith("(set unclean.leader.election.enable to false): a, b")


def test_one_broker_is_a_risk_and_no_fault() -> None:
    """A development machine cannot do better, but with a setting that rejects every write."""
    alone = Durability("t", replicas=1, min_isr=1, unclean=True)
    told = "there is one broker, with which everything is lost: fine for development only"
    assert verdict([alone], brokers=1) == DurabilityVerdict((), (told,))
    assert verdict([dataclasses.replace(alone, min_isr=2)], brokers=1) == DurabilityVerdict(
        ("nothing can be written, as min.insync.replicas is above the replication factor: t",), (told,)
    )


def settings(kafka: SharedBroker, prefix: str) -> Settings:
    return Settings(kafka={"bootstrap_servers": kafka.bootstrap}, topics={"prefix": prefix})


def found(kafka: SharedBroker, prefix: str, *topics: str) -> CheckContext:
    return CheckContext(settings(kafka, prefix), {prefix + name: 1 for name in topics})


def test_the_settings_are_those_that_kafka_has(kafka: SharedBroker, prefix: str) -> None:
    """Of our topics, and of Kafka's own, which exist from the first group and the first transaction on."""
    config = {"min.insync.replicas": "2", "unclean.leader.election.enable": "true"}
    create_topic(kafka.bootstrap, f"{prefix}windows", 2, config)
    create_topic(kafka.bootstrap, f"{prefix}evaluations")
    Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": prefix, "log_level": 0}).init_transactions(30)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
    topics, brokers = described(admin, [f"{prefix}windows", f"{prefix}evaluations", f"{prefix}missing"])
    assert brokers == 1
    assert topics == [
        Durability(f"{prefix}windows", 1, 2, unclean=True),
        Durability(f"{prefix}evaluations", 1, 1, unclean=False),
        Durability("__consumer_offsets", 1, 1, unclean=False),
        Durability("__transaction_state", 1, 1, unclean=False),
    ]
    with pytest.raises(CheckFailed, match=rf"^nothing can be written, .*: {prefix}windows; there is one broker"):
        checks.durability(found(kafka, prefix, "windows", "evaluations"))
    with pytest.raises(CheckWarning, match=r"^there is one broker"):
        checks.durability(found(kafka, prefix, "evaluations"))


def test_kafkas_own_topics_are_judged_before_they_exist(monkeypatch: pytest.MonkeyPatch, kafka: SharedBroker) -> None:
    """By the settings of a broker, from which they will be made."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
    cluster = admin.list_topics(timeout=10)
    cluster.topics = {}
    monkeypatch.setattr(admin, "list_topics", lambda **_: cluster)
    assert described(admin, ["mine"]) == (
        [Durability("__consumer_offsets", 1, 1, unclean=False), Durability("__transaction_state", 1, 1, unclean=False)],
        1,
    )


@pytest.mark.parametrize(
    ("age_h", "read", "kind", "told"),
    [
        (80, False, None, ""),
        (90, False, CheckWarning, "is 3.8 days old and the topic keeps records for 7 days"),
        (90, True, None, ""),
        (170, False, CheckFailed, "is 7.1 days old and the topic keeps records for 7 days"),
    ],
)
def test_a_group_that_retention_is_about_to_overtake_is_named(
    kafka: SharedBroker, prefix: str, age_h: int, read: bool, kind: type[Exception] | None, told: str
) -> None:
    """By the age of its oldest unread record, in any of its topics; what is read may be as old as it likes."""
    for name in ("interactions", "redrive", "evaluations"):
        create_topic(kafka.bootstrap, prefix + name, 1, {"retention.ms": str(7 * 24 * HOUR_MS)})
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
    for back_h in (age_h + 1, age_h, 1):
        producer.produce(f"{prefix}redrive", b"{}", timestamp=round(time.time() * 1000) - back_h * HOUR_MS)
    assert producer.flush(30) == 0
    produce(kafka.bootstrap, f"{prefix}interactions", [b"{}"])
    # The first two records, or the first only, are read: the age is that of the next one.
    set_offset(kafka.bootstrap, f"{prefix}evaluate", f"{prefix}redrive", 0, 2 if read else 1)
    findings = found(kafka, prefix, "interactions", "redrive", "evaluations")
    if kind is None:
        assert checks.retention(findings).startswith("unread records are younger than half of the time ")
        return
    with pytest.raises(kind) as raised:
        checks.retention(findings)
    assert str(raised.value) == (
        f"the oldest unread record of {prefix}redrive/0 {told}: run more workers or keep the topic longer"
    )


def test_each_partition_has_one_oldest_unread_record(kafka: SharedBroker, prefix: str) -> None:
    """Of any number behind it nothing is read; a partition without a limit by time, or without records, has none."""
    create_topic(kafka.bootstrap, f"{prefix}a", 3)
    create_topic(kafka.bootstrap, f"{prefix}b")
    for topic, partition in (("a", 0), ("a", 1), ("b", 0)):
        produce(kafka.bootstrap, prefix + topic, [b"{}"] * 100, partition=partition)
    places = [TopicPartition(f"{prefix}{topic}", partition, 7) for topic, partition in (("a", 0), ("a", 1), ("b", 0))]
    places.append(TopicPartition(f"{prefix}a", 2, 0))
    found = unread(settings(kafka, prefix), places, {f"{prefix}a": "60000", f"{prefix}b": "-1"})
    assert sorted((each.topic, each.partition, each.kept_s) for each in found) == [
        (f"{prefix}a", 0, 60.0),
        (f"{prefix}a", 1, 60.0),
    ]


def test_partitions_that_no_worker_has_read_are_named(kafka: SharedBroker, prefix: str) -> None:
    """A group that has started has an offset in each partition; before it has, there is nothing to say."""
    create_topic(kafka.bootstrap, f"{prefix}interactions", 4)
    findings = CheckContext(settings(kafka, prefix), {f"{prefix}interactions": 4})
    assert checks.group(findings) == f"group {prefix}evaluate has not started"
    for partition in (0, 2):
        set_offset(kafka.bootstrap, f"{prefix}evaluate", f"{prefix}interactions", partition, 0)
    with pytest.raises(CheckWarning, match=rf"no worker has read partition 1, 3 of {prefix}interactions; "):
        checks.group(findings)
    for partition in (1, 3):
        set_offset(kafka.bootstrap, f"{prefix}evaluate", f"{prefix}interactions", partition, 0)
    assert checks.group(findings) == f"group {prefix}evaluate is 0 records behind"


@pytest.fixture(scope="module")
def strict() -> Iterator[Settings]:
    """Settings for a broker that lets groups wait, and allows short transactions and long sessions alone."""
    properties = {
        "group.initial.rebalance.delay.ms": "3000",
        "group.min.session.timeout.ms": "12000",
        "transaction.max.timeout.ms": "6000",
    }
    with local_kafka(properties=properties) as broker:
        yield Settings(kafka={"bootstrap_servers": broker.bootstrap})


def test_the_wait_of_the_first_worker_of_a_group_is_named(strict: Settings) -> None:
    """It is a setting of brokers, with 3 s as its default; the brokers of tests have none, and then nothing is said."""
    coordinated(strict.kafka.bootstrap_servers, "rag.evaluate")
    text = checks.group(CheckContext(strict, {strict.input_topic: 1}))
    assert text == (
        "group rag.evaluate has not started; the first worker of an empty group waits 3 s for others "
        "(group.initial.rebalance.delay.ms of the brokers)"
    )


def test_brokers_that_allow_short_transactions_alone_are_named(strict: Settings, kafka: SharedBroker) -> None:
    with pytest.raises(CheckWarning) as warned:
        checks.transactions(CheckContext(strict, {}))
    assert str(warned.value) == (
        "transaction.timeout.ms is 10000 and transaction.max.timeout.ms of the brokers is 6000, which workers use "
        "instead: set the same in kafka.client, or raise that of the brokers"
    )
    text = checks.transactions(CheckContext(settings(kafka, ""), {}))
    assert text == "transaction.timeout.ms is 10000, and the brokers allow 900000"


def test_brokers_that_allow_long_sessions_alone_are_named(strict: Settings, kafka: SharedBroker) -> None:
    with pytest.raises(CheckFailed) as failed:
        checks.sessions(CheckContext(strict, {}))
    assert str(failed.value) == (
        "session.timeout.ms is 10000 and group.min.session.timeout.ms of the brokers is 12000: they let no worker into "
        "its group; set session.timeout.ms in kafka.client, or group.min.session.timeout.ms of the brokers"
    )
    text = checks.sessions(CheckContext(settings(kafka, ""), {}))
    assert text.startswith("session.timeout.ms is 10000, and the brokers allow ")


@pytest.mark.parametrize(("is_read", "used_ms"), [(True, 6_000), (False, 5_000)])
def test_transactions_are_as_long_as_the_brokers_allow(
    strict: Settings, monkeypatch: pytest.MonkeyPatch, is_read: bool, used_ms: int
) -> None:
    """Half as long where their limit may not be read. Each time that depends on it follows; it is logged once."""
    if not is_read:
        monkeypatch.setattr(transactional_producer, "broker_limit_ms", lambda _: None)
    client = {"message.timeout.ms": 9_000, "socket.timeout.ms": 8_000}
    kafka = strict.kafka.model_copy(update={"client": client})
    own = strict.model_copy(update={"kafka": kafka})
    producer = TransactionalProducer(
        own, producer_properties(own, Identity("evaluate", 0, "rag."), Connection(quiet=True))
    )
    rest: tuple[Any, ...] = (lambda: None, lambda: False, lambda _: None)
    transactions = Transactions(producer, {}, "rag.evaluate-0", Connection(quiet=True), *rest, interval_s=2.0)
    assert transactions.interval_s == 2.0
    with structlog.testing.capture_logs() as logs:
        transactions.take_over()
    assert (producer.timeout_s, transactions.interval_s) == (used_ms / 1_000, used_ms / 4_000)
    assert [(line["setting"], line["used_ms"]) for line in logs] == [("transaction.timeout.ms=10000", used_ms)]


def test_a_dead_address_among_good_ones_is_named(kafka: SharedBroker) -> None:
    """Clients go on with the others, so that nobody notices it before those are away."""
    servers = f"127.0.0.1:1, {kafka.bootstrap},nowhere.invalid:9092"
    context = CheckContext(Settings(kafka={"bootstrap_servers": servers}))
    with pytest.raises(CheckWarning) as warned:
        checks.broker(context)
    assert context.topics is not None, "the other checks go on"
    told = str(warned.value)
    assert told.startswith("kafka.bootstrap_servers has addresses that do not answer: 127.0.0.1:1 (")
    assert "Connection refused" in told
    assert ", nowhere.invalid:9092 (" in told
    assert f"{kafka.bootstrap} (" not in told
    good = Settings(kafka={"bootstrap_servers": f"{kafka.bootstrap},localhost:{kafka.bootstrap.rpartition(':')[2]}"})
    assert checks.broker(CheckContext(good)).endswith(" answers")


@pytest.mark.heavy
def test_doctor_warns_of_one_broker_and_goes_on(kafka: SharedBroker, prefix: str) -> None:
    shared = ["--bootstrap-servers", kafka.bootstrap, "--prefix", prefix]
    assert ragweir(*shared, "topics", "create").returncode == 0
    done = ragweir(*shared, "doctor")
    lines = done.stdout.decode().splitlines()
    assert "warn  durability: there is one broker, with which everything is lost: fine for development only" in lines
    assert any(line.startswith("ok    retention: ") for line in lines)
    assert done.returncode == 0


@pytest.mark.heavy
def test_every_topic_that_needs_the_brokers_time_is_named_and_mended(kafka: SharedBroker, prefix: str) -> None:
    """Topics of an earlier release have the clocks of their writers, until `topics create` runs again."""
    names = [prefix + topic.name for topic in TOPICS.values() if topic.has_broker_time]
    assert {f"{prefix}control", f"{prefix}judge.ledger"} <= {*names}
    for name in names:
        create_topic(kafka.bootstrap, name)
    with pytest.raises(CheckWarning) as warned:
        checks.clock(CheckContext(settings(kafka, prefix), dict.fromkeys(names, 1)))
    assert all(name in str(warned.value) for name in names)
    command = ("--bootstrap-servers", kafka.bootstrap, "--prefix", prefix, "topics", "create")
    lines = ragweir(*command, RAGWEIR_TOPICS__PARTITIONS="1").stdout.decode().splitlines()
    assert [line for line in lines if "stamp" in line] == [
        f"{name}: the brokers stamp its records now" for name in names
    ]
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
    eventually(
        lambda: not without_broker_time(admin, settings(kafka, prefix), names), "the broker has the settings of topics"
    )
    checks.clock(CheckContext(settings(kafka, prefix), dict.fromkeys(names, 1)))
    assert b"stamp" not in ragweir(*command, RAGWEIR_TOPICS__PARTITIONS="1").stdout
    for name in names:
        produce(kafka.bootstrap, name, [b"{}"], key=b"[]")
        assert [each.timestamp()[0] for each in read_to_end(kafka.bootstrap, name)] == [TIMESTAMP_LOG_APPEND_TIME]
