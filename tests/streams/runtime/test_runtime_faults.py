"""Answers with errors: which are asked again, which abort, which end the process, and which only people remove."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise

import pytest
from confluent_kafka import KafkaError, KafkaException, Message
from fake_consumer import FakeConsumer, failure
from fake_worker import DEAD, IN, OUT, Copier, Provable, Script, World, after
from structlog.testing import capture_logs
from typing_extensions import override

from ragweir.errors import PermanentError, RestartRequired
from ragweir.streams.runtime.agent_parts import InputProgress, Preparation
from ragweir.streams.runtime.machine import machine
from ragweir.streams.runtime.protection import canary_client
from ragweir.streams.runtime.protection.canary import READY, SURVIVED, WAITING
from ragweir.streams.runtime.records import Record, TopicPartition

VALUES = [b"%d" % number for number in range(20)]


def answering(request: str, *codes: int, **flags: bool) -> Callable[[str], KafkaException | None]:
    """Return a fault: the first requests of a name are answered with errors."""
    left = list(codes)

    def fault(name: str) -> KafkaException | None:
        return failure(left.pop(0), **flags) if name == request and left else None

    return fault


def settled(world: World) -> Script:
    return iter([lambda: world.offset()[0] == 20])


# Transactions.


@pytest.mark.parametrize("request_", ["init_transactions", "send_offsets_to_transaction", "commit_transaction"])
def test_a_call_whose_error_may_pass_is_made_again(world: World, request_: str) -> None:
    world.cluster.produce(IN, *VALUES)
    world.cluster.fault = answering(request_, *[KafkaError.COORDINATOR_NOT_AVAILABLE] * 4, retriable=True)
    agent = Copier()
    world.run(agent, settled(world))
    assert world.cluster.values(OUT) == VALUES
    assert "on_abort" not in agent.names


def test_an_error_that_requires_an_abort_is_answered_by_one(world: World) -> None:
    world.cluster.produce(IN, *VALUES)
    world.cluster.fault = answering(
        "commit_transaction", *[KafkaError.UNKNOWN_PRODUCER_ID] * 3, txn_requires_abort=True
    )
    agent = Copier()
    world.run(agent, settled(world))
    assert agent.names.count("on_abort") == 3
    assert world.cluster.values(OUT) == VALUES
    assert world.cluster.values(DEAD) == []


def test_a_commit_of_unknown_outcome_is_settled_by_a_restart(world: World) -> None:
    world.cluster.produce(IN, *VALUES)
    world.cluster.fault = answering("commit_transaction", KafkaError._STATE)
    with pytest.raises(RestartRequired, match="the outcome of a transaction is unknown"):
        world.run(Copier(), settled(world))
    world.run(Copier(), settled(world))
    assert world.cluster.values(OUT) == VALUES


def test_a_fatal_error_ends_the_process(world: World) -> None:
    world.cluster.produce(IN, *VALUES)
    world.cluster.fault = answering("commit_transaction", KafkaError.CLUSTER_AUTHORIZATION_FAILED, fatal=True)
    with pytest.raises(RestartRequired, match="Kafka: "):
        world.run(Copier(), settled(world))


# Consumers.


def test_committed_offsets_are_asked_for_until_they_are_answered(world: World) -> None:
    """A coordinator that is elected or that loads answers errors for a while."""
    world.cluster.produce(IN, *VALUES)
    passing = [KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError._TIMED_OUT]
    world.cluster.fault = answering("committed", *passing)
    world.run(Copier(), settled(world))
    assert world.cluster.values(OUT) == VALUES


def test_an_error_that_does_not_pass_needs_a_restart(world: World) -> None:
    world.cluster.fault = answering("committed", *[KafkaError.GROUP_AUTHORIZATION_FAILED] * 9)
    with pytest.raises(RestartRequired, match="Kafka: "):
        world.run(Copier(), settled(world))


def test_a_new_partition_is_waited_for_and_a_deleted_one_is_not(world: World) -> None:
    world.cluster.produce(IN, *VALUES)
    world.cluster.fault = answering("get_watermark_offsets", *[KafkaError._UNKNOWN_PARTITION] * 20)
    world.run(Copier(), settled(world))
    world.cluster.fault = answering("get_watermark_offsets", *[KafkaError._UNKNOWN_PARTITION] * 2_000)
    began = world.clocks.monotonic()
    with pytest.raises(RestartRequired):
        world.run(Copier(), iter([lambda: False]))
    assert 10 <= world.clocks.monotonic() - began <= 12


def test_an_error_of_a_consumer_that_passes_is_logged_and_no_more(world: World) -> None:
    agent = Copier()

    def script() -> Script:
        yield lambda: agent.of("on_assigned")
        consumer = next(each for each in world.cluster.clients if isinstance(each, FakeConsumer))
        consumer._errors.append(Message(error=KafkaError(KafkaError._TRANSPORT, "a connection broke")))
        world.cluster.produce(IN, *VALUES)
        yield lambda: world.offset()[0] == 20

    with capture_logs() as logs:
        world.run(agent, script())
    (warning,) = [each for each in logs if each["event"] == "consumer error"]
    assert (warning["reason"], warning["code"]) == ("a connection broke", "_TRANSPORT")


def test_a_partition_that_the_client_does_not_seek_needs_a_restart(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.cluster.create(OUT, max_message_bytes="1000")
    world.cluster.produce(IN, *VALUES)

    def seek(*_: object) -> None:
        raise failure(KafkaError._STATE)

    monkeypatch.setattr(FakeConsumer, "seek", seek)
    began = world.clocks.monotonic()
    with pytest.raises(RestartRequired, match=r"rag.interactions/0 cannot be sought"):
        world.run(Copier(writes=lambda _: b"x" * 2_000), iter([lambda: False]))
    assert 1.9 <= world.clocks.monotonic() - began <= 3


# What is asked of brokers besides.


def test_the_ids_of_topics_are_asked_for_until_they_are_answered(world: World) -> None:
    world.cluster.produce(IN, *VALUES)
    world.cluster.fault = answering("_described", *[KafkaError._TIMED_OUT] * 60)
    began = world.clocks.monotonic()
    world.run(Copier(), settled(world))
    assert world.clocks.monotonic() - began >= 6
    world.cluster.fault = answering("_described", *[KafkaError._TIMED_OUT] * 10_000)
    with pytest.raises(RestartRequired, match="Kafka does not describe the topics"):
        world.run(Copier(), iter([lambda: False]))


def test_outputs_that_may_not_be_read_are_left_to_people(world: World) -> None:
    world.cluster.produce(IN, *VALUES)
    world.cluster.fault = answering("_offset", *[KafkaError.TOPIC_AUTHORIZATION_FAILED] * 9)
    with pytest.raises(
        PermanentError, match=r"rag.evaluations may not be read; its newest records prove where to go on"
    ):
        world.run(Copier(recovery=Provable()), settled(world))


def test_outputs_that_cannot_be_read_yet_are_waited_for(world: World) -> None:
    world.cluster.produce(IN, *VALUES)
    away = [KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError.NOT_LEADER_FOR_PARTITION]
    world.cluster.fault = answering("_offset", *away)
    with capture_logs() as logs:
        world.run(Copier(recovery=Provable()), settled(world))
    assert any(each["event"] == "waiting to read where to go on" for each in logs)
    assert world.cluster.values(OUT) == VALUES


def test_ends_are_not_confirmed_for_a_while_after_an_answer_failed(world: World) -> None:
    """Producers write first what they have kept in the outage."""

    class Watching(InputProgress):
        confirmed: list[float] = []  # noqa: RUF012

        @override
        def to_confirm(self, held: Iterable[TopicPartition]) -> list[TopicPartition]:
            return list(held)

        @override
        def on_ends(self, confirmed: object) -> None:
            self.confirmed.append(world.clocks.monotonic())

    watching = Watching()

    def script() -> Script:
        yield lambda: watching.confirmed
        world.cluster.fault = answering("_offset", KafkaError._TIMED_OUT)
        failed_s = world.clocks.monotonic()
        yield after(3.0)
        yield lambda: watching.confirmed[-1] > failed_s + 3.0
        assert watching.confirmed[-1] > failed_s + 10.0

    world.run(Copier(input_progress=watching), script())


def test_a_group_that_may_not_be_read_is_named_and_not_waited_for(world: World) -> None:
    """The client times out, and has the reason as an event."""
    world.cluster.produce(IN, *VALUES)

    def denied(request: str) -> KafkaException | None:
        reader = world.cluster.clients[-1]
        if request != "committed" or reader._properties.get("group.id") != "rag.test.progress":
            return None
        error = KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED, "no right to the group")
        reader._errors.append(Message(error=error, value=b"no right to the group"))
        return failure(KafkaError._TIMED_OUT)

    world.cluster.fault = denied
    with pytest.raises(RestartRequired, match="Kafka: no right to the group"):
        world.run(Copier(recovery=Provable()), settled(world))


def test_recovery_waits_for_brokers_and_ends_with_its_process(world: World) -> None:
    world.cluster.produce(IN, *VALUES)
    world.cluster.fault = answering("list_topics", *[KafkaError._TIMED_OUT] * 10_000)
    began = world.clocks.monotonic()
    with capture_logs() as logs:
        world.run(Copier(recovery=Provable()), iter([lambda: world.clocks.monotonic() > began + 10.0]))
    waits = [each for each in logs if "no broker answers" in each.get("reason", "")]
    assert 10 <= len(waits) <= 25
    assert world.clocks.monotonic() - began < 12
    assert world.offset() == (-1, "")


def test_a_new_partition_of_an_output_is_told_once_the_producer_knows_it(world: World) -> None:
    """An emission to a partition that its client does not know would fail."""

    class Counted(InputProgress):
        counted_outputs = ("evaluations",)
        counts: list[int] = []  # noqa: RUF012

        @override
        def on_partition_counts(self, inputs: object, outputs: Mapping[str, int]) -> None:
            self.counts.append(outputs["evaluations"])

    counted = Counted()

    def script() -> Script:
        yield lambda: counted.counts == [1]
        world.cluster.fault = answering("list_topics", *[KafkaError._TIMED_OUT] * 3)
        world.cluster.grow(OUT, 2)
        yield lambda: counted.counts == [1, 2]

    world.run(Copier(input_progress=counted), script())


# Records that end a process.


class Canary:
    """A canary on the test's thread: some values end it, some make it wait, and the others survive."""

    ends: int = -11
    starts = 0
    is_ready_at = 0.0

    def __init__(self, _: Sequence[str], __: object) -> None:
        type(self).starts += 1
        self.overdue, self._status = False, 0

    def answers(self, record: Record | None, _: float) -> bytes:
        if record is None:
            return READY
        if record.value == b"late" and machine.monotonic() < self.is_ready_at:
            return WAITING
        if record.value == b"heavy":
            machine.sleep(9.0)
            return SURVIVED
        if record.value == b"slow":
            self.overdue = True
        elif record.value == b"deadly":
            self._status = self.ends
        else:
            return SURVIVED
        return b""

    def end(self) -> int:
        return self._status


@pytest.fixture
def canary(monkeypatch: pytest.MonkeyPatch) -> type[Canary]:
    class Own(Canary):
        """The canaries of one test."""

    monkeypatch.setattr(canary_client, "_Canary", Own)
    return Own


def suspected(world: World, *values: bytes) -> None:
    """Produce records on which one process has died."""
    world.cluster.produce(IN, *values)
    metadata = f'{{"attempts":1,"until":{len(values)},"topic":"{world.cluster.topics[IN].id}","partitions":1}}'
    world.cluster.groups["rag.test"].offsets[IN, 0] = 0, metadata


@pytest.mark.parametrize(("deadly", "cause"), [(b"deadly", "SIGSEGV"), (b"slow", "it takes longer than 55 s")])
def test_a_record_that_ends_its_process_becomes_a_dead_letter_and_no_other_does(
    world: World, canary: type[Canary], deadly: bytes, cause: str
) -> None:
    suspected(world, b"a", deadly, b"b")
    agent = Copier()
    with capture_logs() as logs:
        world.run(agent, iter([lambda: world.offset()[0] == 3]), canary=("try",))
    assert agent.of("dead_letter") == [(1, "fatal")]
    assert world.cluster.values(OUT) == [b"a", b"b"]
    assert any(cause in str(each.get("reason")) for each in logs)
    assert canary.starts == 3, "it is tried twice, and the others once"
    assert '"fatal":[1]' in world.offset()[1]


@pytest.mark.usefixtures("canary")
def test_a_record_that_ended_a_process_is_not_read_before_a_start(world: World) -> None:
    class Warm(Preparation):
        warm_up = 10

    suspected(world, b"a", b"deadly", b"b")
    world.run(Copier(), iter([lambda: world.offset()[0] == 3]), canary=("try",))
    agent, told = Copier(preparation=Warm()), list[bytes | None]()
    agent.on_start = lambda each: told.extend(record.value for record in each.preceding)
    world.run(agent, iter([lambda: len(told) == 2]))
    assert told == [b"a", b"b"]


def test_records_that_no_process_died_on_are_not_tried(world: World, canary: type[Canary]) -> None:
    world.cluster.produce(IN, b"a", b"deadly", b"b")
    world.run(Copier(), iter([lambda: world.offset()[0] == 3]), canary=("try",))
    assert canary.starts == 0


def test_a_record_that_cannot_be_tried_yet_is_read_again(world: World, canary: type[Canary]) -> None:
    canary.is_ready_at = world.clocks.monotonic() + 5.0
    suspected(world, b"a", b"late", b"b")
    agent = Copier()
    world.run(agent, iter([lambda: world.offset()[0] == 3]), canary=("try",))
    assert world.clocks.monotonic() >= 5.0
    assert world.cluster.values(OUT) == [b"a", b"late", b"b"]
    assert agent.of("dead_letter") == []


def test_a_canary_that_others_end_is_no_fault_of_a_record(world: World, canary: type[Canary]) -> None:
    canary.ends = -15
    suspected(world, b"a", b"deadly")
    with pytest.raises(
        RestartRequired, match="the process that tries records does not start, or is ended from outside"
    ):
        world.run(Copier(), iter([lambda: False]), canary=("try",))
    assert world.cluster.values(DEAD) == []


@pytest.mark.usefixtures("canary")
def test_suspects_are_tried_for_half_a_minute_at_a_time(world: World) -> None:
    """The consumer has to be polled; what was not tried yet is read again."""
    suspected(world, *[b"heavy"] * 10)
    agent = Copier()
    world.run(agent, iter([lambda: world.offset()[0] == 10]), canary=("try",))
    assert agent.handled == list(range(10))
    commits = [number for number, name in enumerate(agent.names) if name == "on_commit"]
    batches = [agent.names[first:last].count("handle") for first, last in pairwise([0, *commits])]
    assert [count for count in batches if count] == [4, 4, 2]


@pytest.mark.usefixtures("canary")
def test_a_stop_does_not_wait_for_suspects(world: World) -> None:
    suspected(world, *[b"heavy"] * 10)
    agent, began = Copier(), world.clocks.monotonic()
    world.run(agent, iter([lambda: world.clocks.monotonic() > began + 12.0]), canary=("try",))
    assert world.clocks.monotonic() - began < 25
    assert world.offset()[0] == len(agent.handled) == 2
