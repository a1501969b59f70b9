"""What an agent declares: changelog and clock record, and its parts, each as the runtime uses it."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import TopicPartition as PartitionOffset
from fake_worker import DEAD, IN, OUT, Copier, Killed, Provable, Script, World, after
from structlog.testing import capture_logs
from typing_extensions import override

from ragweir.errors import RestartRequired, StateError
from ragweir.streams.runtime.agent import Assignment
from ragweir.streams.runtime.agent_parts import Holding, InputProgress, Origin, Preparation
from ragweir.streams.runtime.records import Emission, Outcome, Record, TopicPartition

VALUES = [b"%d" % number for number in range(20)]
WINDOWS = "rag.windows"


# The changelog.


def restored(agent: Copier, told: list[Any]) -> None:
    def on_start(assignment: Assignment) -> None:
        told.append((assignment.changelog.end, [record.value for record in assignment.changelog]))

    agent.on_start = on_start


def test_a_changelog_is_read_to_its_end_without_what_was_aborted(world: World) -> None:
    world.cluster.create(WINDOWS)
    world.cluster.produce(WINDOWS, b"a", b"b")
    other = world.producer("another")
    other.init_transactions()
    other.begin_transaction()
    other.produce(WINDOWS, b"aborted")
    other.poll(0)
    other.abort_transaction()
    agent, told = Copier(changelog="windows"), list[Any]()
    restored(agent, told)
    world.run(agent, iter([lambda: told]))
    assert told == [(4, [b"a", b"b"])]


def test_a_changelog_waits_for_the_transaction_of_its_last_owner(world: World) -> None:
    """It is read to the high watermark, and not to the last stable offset."""
    world.cluster.create(WINDOWS)
    other = world.producer("another")
    other.init_transactions()
    other.begin_transaction()
    other.produce(WINDOWS, b"late")
    other.poll(0)
    world.clocks.after(7.0, other.commit_transaction)
    agent, told = Copier(changelog="windows"), list[Any]()
    restored(agent, told)
    began = world.clocks.monotonic()
    world.run(agent, iter([lambda: told]))
    assert told == [(1, [b"late"])]
    assert world.clocks.monotonic() - began >= 7


def test_committed_offsets_are_not_taken_while_a_transaction_may_change_them(world: World) -> None:
    """The offsets of a dead process are pending until its transaction ends: only then are they answered."""
    world.cluster.produce(IN, *VALUES)
    dead = world.producer("rag.test-elsewhere-0", **{"transaction.timeout.ms": 5_000})
    member = world.consumer()
    dead.init_transactions()
    dead.begin_transaction()
    dead.send_offsets_to_transaction([PartitionOffset(IN, 0, 8)], member.consumer_group_metadata())
    world.clocks.after(3.0, dead.commit_transaction)
    agent = Copier()
    world.run(agent, iter([lambda: world.offset()[0] == 20]))
    assert agent.of("on_assigned") == [(IN, 0, 8, 8)]


def test_state_that_does_not_fit_is_read_again_before_it_is_rejected(world: World) -> None:
    """A coordinator that is still loading may answer wrong offsets."""
    world.cluster.produce(IN, *VALUES)
    agent, tried = Copier(), list[float]()

    def unfit(_: Assignment) -> None:
        tried.append(world.clocks.monotonic())
        if len(tried) < 3:
            raise StateError("it does not fit")

    agent.on_start = unfit
    world.run(agent, iter([lambda: world.offset()[0] == 20]))
    assert len(tried) == 3

    def never(_: Assignment) -> None:
        raise StateError("it never fits")

    again = Copier()
    again.on_start = never
    with pytest.raises(StateError, match=r"never fits"):
        world.run(again, iter([lambda: False]))


# The clock record.


@pytest.mark.parametrize("kind", ["LogAppendTime", "CreateTime"])
def test_all_times_are_the_brokers_if_the_topic_has_them(world: World, kind: str) -> None:
    world.cluster.create(WINDOWS, message_timestamp_type=kind)
    world.cluster.produce(IN, *VALUES)
    times: list[float] = []

    class Timed(InputProgress):
        @override
        def on_time(self, now_s: float) -> None:
            times.append(now_s)

    agent = Copier(changelog="windows", clock_record=Emission("windows", b"clock", None, ()), input_progress=Timed())
    real = world.clocks.time

    def ahead() -> float:
        return real() + 3_600

    def brokers_now() -> float:
        return real()

    world.cluster.time = brokers_now
    world.clocks.time = ahead  # type: ignore[method-assign]
    with capture_logs() as logs:
        world.run(agent, iter([lambda: world.offset()[0] == 20]))
    first = world.cluster.committed(WINDOWS)[0]
    assert (first.key, first.value) == (b"clock", None)
    is_brokers = kind == "LogAppendTime"
    assert abs(times[-1] - (brokers_now() if is_brokers else ahead())) < 2
    assert is_brokers is not any("all times follow this machine's clock" in each["event"] for each in logs)


# Preparation.


def test_an_agent_gets_the_committed_records_before_its_start(world: World) -> None:
    class Warm(Preparation):
        warm_up = 5

    world.cluster.produce(IN, *VALUES)
    world.run(Copier(), iter([lambda: world.offset()[0] == 20]))
    agent, told = Copier(preparation=Warm()), list[int]()
    agent.on_start = lambda each: told.extend(record.offset for record in each.preceding)
    world.run(agent, iter([lambda: len(told) == 5]))
    assert told == [15, 16, 17, 18, 19]


def test_records_that_wait_are_read_again_and_hold_up_no_other_partition(world: World) -> None:
    class Waiting(Preparation):
        until_s = world.clocks.monotonic() + 3.0

        @override
        def waiting(self, records: Sequence[Record]) -> Collection[Record]:
            is_over = world.clocks.monotonic() > self.until_s
            return () if is_over else [each for each in records if each.partition == 1 and each.offset >= 2]

    world.cluster.grow(IN, 2)
    for partition in (0, 1):
        world.cluster.produce(IN, *VALUES, partition=partition)
    agent = Copier(preparation=Waiting())

    def script() -> Script:
        yield lambda: (world.offset()[0], world.offset(1)[0]) == (20, 2)
        assert world.clocks.monotonic() < 2
        yield lambda: world.offset(1)[0] == 20

    world.run(agent, script())
    assert sorted(offset for each in agent.of("handle") for _, offset in each) == sorted([*range(20)] * 2)
    assert len(world.cluster.values(OUT)) == 40


def test_the_member_id_is_told_before_anything_is_assigned(world: World) -> None:
    class Named(Preparation):
        names: list[str] = []  # noqa: RUF012

        @override
        def on_member(self, member: str) -> None:
            self.names.append(member)

    named = Named()
    world.run(Copier(preparation=named), iter([lambda: named.names]), slot=3)
    assert named.names == ["rag.test-here-3"]


def test_a_topic_that_the_agent_read_and_that_was_made_again_needs_a_restart(world: World) -> None:
    world.cluster.create("rag.control")

    class Reads(Preparation):
        @property
        @override
        def reads(self) -> Mapping[str, str]:
            return {"rag.control": "id-4"}

    def script() -> Script:
        world.cluster.produce(IN, *VALUES[:3])
        yield lambda: world.offset()[0] == 3
        world.cluster.delete("rag.control")
        world.cluster.create("rag.control")
        world.cluster.produce(IN, *VALUES[3:])
        yield lambda: False

    with pytest.raises(RestartRequired, match=r"rag.control: deleted and created again"):
        world.run(Copier(preparation=Reads()), script())
    assert world.cluster.values(OUT) == VALUES[:3]


# Holding.


class Keeper(Copier, Holding):
    """Takes records in `handle` and settles them in `tick`, as many as it may, once it is let."""

    def __init__(self, room: int = 5) -> None:
        super().__init__()
        self.holding = self
        self.kept: list[Record] = []
        self.is_let, self.room, self.emitted, self.busy_s = False, room, 0, 0.0
        self.stopped_at: dict[TopicPartition, int] = {}
        self.resumes: int = 0
        self.from_read = False

    @property
    @override
    def capacity(self) -> int:
        return max(0, self.room - len(self.kept))

    @property
    @override
    def paused(self) -> Mapping[TopicPartition, int]:
        return self.stopped_at

    @property
    @override
    def held(self) -> Collection[TopicPartition]:
        return {record.topic_partition for record in self.kept}

    @property
    @override
    def lag_from_read(self) -> bool:
        return self.from_read

    @override
    def resumes_at(self, topic_partition: TopicPartition, start: int) -> int:
        return max(start, self.resumes)

    @override
    def handle(self, records: Sequence[Record]) -> Outcome:
        self.calls.append(("handle", [(record.partition, record.offset) for record in records]))
        known = {(record.partition, record.offset) for record in self.kept}
        self.kept += [record for record in records if (record.partition, record.offset) not in known]
        return Outcome()

    @override
    def tick(self, now_s: float, caught_up: Collection[TopicPartition], max_settled: int) -> Outcome:
        own = self.kept[:max_settled] if self.is_let else []
        self.emitted = len(own)
        return Outcome([Emission("evaluations", None, self.writes(each), ()) for each in own], settled=own)

    @override
    def dead_letter(self, record: Record, reason: str, error_class: Any = "refused") -> Outcome:
        self.kept = [each for each in self.kept if each.offset != record.offset]
        return super().dead_letter(record, reason, error_class)

    @override
    def on_commit(self) -> None:
        del self.kept[: self.emitted]
        self.emitted = 0

    @override
    def on_abort(self) -> None:
        self.emitted = 0
        super().on_abort()

    @override
    def on_revoked(self, partitions: Collection[TopicPartition]) -> None:
        self.kept = []


def test_no_more_is_read_than_an_agent_takes_and_the_client_is_polled_all_the_same(world: World) -> None:
    world.cluster.produce(IN, *VALUES)
    agent = Keeper(room=5)

    def script() -> Script:
        yield lambda: len(agent.kept) == 5
        yield after(20.0)
        assert len(agent.kept) == 5
        assert world.sample("ragweir_lag", topic=IN, partition="0") == 20
        assert world.cluster.groups["rag.test"].generation == 1
        agent.is_let = True
        yield lambda: world.offset()[0] == 20

    world.run(agent, script())
    assert world.cluster.values(OUT) == VALUES


def test_a_rebalance_gives_an_agent_that_takes_nothing_no_records(world: World) -> None:
    agent = Keeper(room=0)

    def script() -> Script:
        yield lambda: agent.of("on_assigned")
        yield after(1.0)
        other = world.consumer()
        other.subscribe([OUT])
        yield lambda: (other.poll(0), len(agent.of("on_assigned")) == 2)[1]
        world.cluster.produce(IN, *VALUES)
        yield after(3.0)
        assert agent.kept == []
        agent.room, agent.is_let = 100, True
        yield lambda: world.offset()[0] == 20

    world.run(agent, script())


def test_the_lag_of_a_paused_partition_is_that_of_its_real_end(world: World) -> None:
    agent = Keeper(room=0)

    def script() -> Script:
        yield after(6.0)
        assert world.sample("ragweir_lag", topic=IN, partition="0") == 0
        world.cluster.produce(IN, *VALUES)
        yield after(6.0)
        assert world.sample("ragweir_lag", topic=IN, partition="0") == 20
        agent.room, agent.is_let = 100, True
        yield after(6.0)
        assert world.sample("ragweir_lag", topic=IN, partition="0") == 0

    world.run(agent, script())


@pytest.mark.parametrize(("from_read", "lag"), [(True, 0), (False, 20)])
def test_the_lag_counts_from_what_is_settled_or_read(world: World, from_read: bool, lag: int) -> None:
    world.cluster.produce(IN, *VALUES)
    agent = Keeper(room=100)
    agent.from_read = from_read

    def script() -> Script:
        yield lambda: len(agent.kept) == 20
        yield after(6.0)
        assert world.sample("ragweir_lag", topic=IN, partition="0") == lag

    world.run(agent, script())


def test_a_partition_that_waits_goes_back_to_its_next_record(world: World) -> None:
    world.cluster.grow(IN, 2)
    agent = Keeper(room=100)
    agent.is_let = True

    def script() -> Script:
        yield lambda: agent.of("on_assigned")
        agent.stopped_at = {(IN, 1): 0}
        yield after(0.1)
        for partition in (0, 1):
            world.cluster.produce(IN, *VALUES[:5], partition=partition)
        yield lambda: world.offset()[0] == 5
        yield after(1.0)
        assert world.offset(1)[0] <= 0
        agent.stopped_at = {(IN, 1): 2}
        yield after(0.1)
        agent.stopped_at = {}
        yield lambda: world.offset(1)[0] == 5

    world.run(agent, script())
    assert [offset for each in agent.of("handle") for partition, offset in each if partition == 1] == [2, 3, 4]


def test_a_record_that_is_held_can_be_the_poison(world: World) -> None:
    world.cluster.create(OUT, max_message_bytes="1000")
    world.cluster.produce(IN, *VALUES)
    agent = Keeper(room=100)
    agent.is_let = True
    agent.writes = lambda record: b"x" * 2_000 if record.offset == 7 else record.value
    world.run(agent, iter([lambda: world.offset()[0] == 20]))
    assert [offset for offset, _ in agent.of("dead_letter")] == [7]
    assert world.cluster.values(OUT) == [*VALUES[:7], *VALUES[8:]]
    assert world.cluster.values(DEAD) == [b"letter"]


@pytest.mark.parametrize("resumes", [0, 15, 20])
def test_reading_goes_on_behind_what_an_agent_still_has(world: World, resumes: int) -> None:
    world.cluster.produce(IN, *VALUES)
    agent = Keeper(room=100)
    agent.resumes = resumes
    world.run(agent, iter([lambda: agent.of("on_assigned"), after(1.0)]))
    assert agent.handled == list(range(resumes, 20))
    assert world.offset()[0] == 0


@pytest.mark.parametrize(("busy_s", "waited_s"), [(0.5, 0.5), (60.0, 2.0)])
def test_a_stop_waits_for_work_in_flight_but_not_for_long(world: World, busy_s: float, waited_s: float) -> None:
    class Busy(Holding):
        until_s = 0.0

        @property
        @override
        def in_flight(self) -> bool:
            return world.clocks.monotonic() < self.until_s

    busy = Busy()
    agent = Copier(holding=busy)

    def script() -> Script:
        yield lambda: agent.of("on_assigned")
        busy.until_s = world.clocks.monotonic() + busy_s

    world.run(agent, script())
    drained = agent.names.index("drain")
    assert "tick" in agent.names[drained:]
    assert abs(world.clocks.monotonic() - (busy.until_s - busy_s) - waited_s) < 0.2


# The progress of the inputs.


def test_ends_and_partition_counts_are_told(world: World) -> None:
    class Watching(InputProgress):
        counted_outputs = ("evaluations",)
        ends: list[tuple[int, Mapping[TopicPartition, float]]] = []  # noqa: RUF012
        counts: list[Any] = []  # noqa: RUF012

        @override
        def to_confirm(self, held: Collection[TopicPartition]) -> Collection[TopicPartition]:
            return held

        @override
        def on_ends(self, confirmed: Mapping[TopicPartition, float]) -> None:
            self.ends.append((len(agent.handled), confirmed))

        @override
        def on_partition_counts(self, inputs: Mapping[str, int], outputs: Mapping[str, int]) -> None:
            self.counts.append((dict(inputs), dict(outputs)))

    watching = Watching()
    agent = Copier(input_progress=watching)

    def script() -> Script:
        yield lambda: len(watching.ends) >= 2
        world.cluster.produce(IN, *VALUES)
        produced = world.clocks.time()
        yield lambda: watching.ends[-1][1][IN, 0] > produced
        assert watching.ends[-1][0] == 20
        world.cluster.grow(OUT, 3)
        yield lambda: len(watching.counts) == 2

    world.run(agent, script())
    assert watching.counts == [({IN: 1}, {"evaluations": 1}), ({IN: 1}, {"evaluations": 3})]


# Recovery.


@pytest.mark.parametrize("committed", [None, 3], ids=["it has none", "an older one"])
def test_a_wrong_committed_offset_writes_nothing_twice(world: World, committed: int | None) -> None:
    """The newest outputs prove what was handled, whatever the coordinator answers or an operator has set."""
    world.cluster.produce(IN, *VALUES)
    world.run(Copier(recovery=Provable()), iter([lambda: world.offset()[0] == 20]))
    offsets = world.cluster.groups["rag.test"].offsets
    del offsets[IN, 0]
    if committed is not None:
        offsets[IN, 0] = committed, ""
    world.cluster.groups["rag.test.progress"].offsets.clear()
    world.cluster.produce(IN, b"20")
    with capture_logs() as logs:
        world.run(Copier(recovery=Provable()), iter([lambda: world.offset()[0] == 21]))
    assert world.cluster.values(OUT) == [*VALUES, b"20"]
    (error,) = [each for each in logs if each["log_level"] == "error"]
    assert error["goes_on_at"] == 20
    assert error["command"] == f"again {IN} {committed or 0} 20"


def test_the_progress_group_proves_what_the_outputs_no_longer_tell(world: World) -> None:
    """As after retention, or where the newest outputs are those of other partitions."""
    world.cluster.produce(IN, *VALUES)
    world.run(Copier(recovery=Provable()), iter([lambda: world.offset()[0] == 20]))
    assert world.offset(group="rag.test.progress")[0] == 20
    world.cluster.groups["rag.test"].offsets[IN, 0] = 3, ""
    world.cluster.topics[OUT].logs[0].start = world.cluster.topics[OUT].logs[0].high
    agent = Copier(recovery=Provable())
    world.run(agent, iter([lambda: world.offset()[0] == 20]))
    assert agent.of("on_assigned") == [(IN, 0, 20, 20)]
    assert agent.handled == []


def test_an_output_that_names_another_topic_proves_nothing(world: World) -> None:
    class Other(Provable):
        @override
        def origins(self, output: Record) -> Iterable[Origin]:
            for each in super().origins(output):
                yield each._replace(topic_id="of a topic that was deleted")

    world.cluster.produce(IN, *VALUES)
    world.cluster.produce(OUT, *VALUES)
    agent = Copier(recovery=Other())
    world.run(agent, iter([lambda: world.offset()[0] == 20]))
    assert agent.handled == list(range(20))


def test_an_output_of_an_event_that_is_not_in_the_input_proves_nothing(world: World) -> None:
    """The positions may be those of records that were lost, and that others have taken since."""
    world.cluster.produce(IN, *VALUES)
    world.cluster.produce(OUT, b"99", b"15")
    entries = world.cluster.topics[IN].logs[0].entries
    entries[15] = replace(entries[15], value=b"another")
    agent = Copier(recovery=Provable())
    world.run(agent, iter([lambda: world.offset()[0] == 20]))
    assert len(agent.handled) == 20


def test_an_agent_without_proof_takes_the_offset_as_it_is(world: World) -> None:
    world.cluster.produce(IN, *VALUES)
    world.run(Copier(), iter([lambda: world.offset()[0] == 20]))
    assert world.offset(group="rag.test.progress") == (-1, "")
    world.cluster.groups["rag.test"].offsets[IN, 0] = 12, ""
    agent = Copier()
    world.run(agent, iter([lambda: world.offset()[0] == 20]))
    assert agent.handled == list(range(12, 20))


# Topics.


def test_a_topic_that_is_made_again_is_read_from_its_start_by_a_new_process(world: World) -> None:
    def script() -> Script:
        world.cluster.produce(IN, *VALUES)
        yield lambda: world.offset()[0] == 20
        world.cluster.delete(IN)
        world.cluster.create(IN)
        world.cluster.produce(IN, *[b"new%d" % number for number in range(30)])
        yield lambda: False

    with pytest.raises(RestartRequired, match=r"rag.interactions: deleted and created again"):
        world.run(Copier(recovery=Provable()), script())
    assert world.cluster.values(OUT) == VALUES
    agent = Copier()
    world.run(agent, iter([lambda: world.offset()[0] == 30]), input={"start_from": "latest"})
    assert agent.handled == list(range(30))
    assert world.sample("ragweir_topics_recreated_total", topic=IN) == 1


def test_an_input_that_does_not_exist_is_shown_and_read_once_it_does(world: World) -> None:
    agent = Copier()
    inputs = (IN, "rag.redrive")

    def script() -> Script:
        world.cluster.produce(IN, *VALUES)
        yield lambda: world.offset()[0] == 20
        yield lambda: world.sample("ragweir_topic_missing", topic="rag.redrive") == 1
        world.cluster.create("rag.redrive")
        world.cluster.produce("rag.redrive", b"r")
        yield lambda: world.offset(topic="rag.redrive")[0] == 1
        yield lambda: world.sample("ragweir_topic_missing", topic="rag.redrive") == 0

    world.run(agent, script(), inputs=inputs, input={"start_from": "latest"})
    assert agent.handled[-1] == 0


def test_an_input_that_goes_while_its_records_are_handled_is_aborted(world: World) -> None:
    agent = Copier()

    def deletes(record: Record) -> bytes | None:
        if record.offset == 7 and IN in world.cluster.topics:
            world.cluster.delete(IN)
        return record.value

    agent.writes = deletes

    def script() -> Script:
        yield lambda: agent.of("on_assigned")
        world.cluster.produce(IN, *VALUES)
        yield lambda: "on_abort" in agent.names
        assert world.cluster.values(OUT) == VALUES[:5], "those of the transaction before"
        raise Killed

    with pytest.raises(Killed):
        world.run(agent, script(), batch={"max_events": 5, "max_wait_ms": 20})
