"""Attempts, slow batches and stops: what a process leaves to the next one."""

from collections import Counter

import pytest
from confluent_kafka import KafkaError, KafkaException
from fake_consumer import failure
from fake_worker import IN, OUT, Copier, Killed, Provable, Script, World, after

from ragweir.errors import RestartRequired
from ragweir.streams.runtime.agent_parts import Holding
from ragweir.streams.runtime.loop.pending import PendingOutcome
from ragweir.streams.runtime.records import Outcome, Record

VALUES = [b"%d" % number for number in range(20)]


class Keeping(Holding):
    """Holds the records of the first partition."""

    held = ((IN, 0),)


def unsettled(_: object) -> Outcome:
    """Take records and settle none."""
    return Outcome()


@pytest.mark.slow
def test_a_process_that_cannot_commit_has_survived_its_records(world: World) -> None:
    """However often: it is no fault of the records, and no canary and no person has to look at them."""
    world.cluster.create("rag.windows")
    world.cluster.produce(IN, *VALUES)

    def unknown(request: str) -> KafkaException | None:
        opened = world.cluster.transactional["rag.test-here-0"].transaction
        is_outcome = request == "commit_transaction" and opened is not None and opened.places
        return failure(KafkaError._STATE) if is_outcome else None

    world.cluster.fault = unknown
    for _ in range(12):
        with pytest.raises(RestartRequired, match="the outcome of a transaction is unknown"):
            world.run(Copier(changelog="windows"), iter([lambda: False]))
    assert world.offset()[0] <= 0
    world.cluster.fault = lambda _: None
    world.run(Copier(changelog="windows"), iter([lambda: world.offset()[0] == 20]))
    assert world.cluster.values(OUT) == VALUES


@pytest.mark.parametrize(("held_s", "is_survived"), [(5.0, False), (15.0, True)])
def test_records_that_are_held_are_survived_after_a_while(world: World, held_s: float, *, is_survived: bool) -> None:
    world.cluster.produce(IN, *VALUES)
    agent = Copier(holding=Keeping())
    agent.handle = unsettled  # type: ignore[method-assign]

    def script() -> Script:
        yield lambda: "attempts" in world.offset()[1]
        yield after(held_s)
        raise Killed

    with pytest.raises(Killed):
        world.run(agent, script())
    assert ("attempts" not in world.offset()[1]) is is_survived


def test_a_batch_that_takes_long_does_not_keep_its_transaction_open(world: World) -> None:
    """It is handled in parts, and a part that comes late commits those before it."""
    world.cluster.produce(IN, *VALUES)

    def slowly(record: Record) -> bytes | None:
        world.clocks.sleep(0.05 if record.offset >= 20 else 0.0)
        return record.value

    agent = Copier(writes=slowly)

    def script() -> Script:
        yield lambda: world.offset()[0] == 20
        world.cluster.produce(IN, *VALUES * 20)
        yield lambda: world.offset()[0] == 420

    world.run(agent, script())
    first = agent.names.index("handle") + 1
    assert [len(each) for each in agent.of("handle")][1:] == [50] * 8
    assert agent.names[agent.names.index("handle", first) :].count("on_commit") >= 4
    assert world.cluster.values(OUT) == [*VALUES, *VALUES * 20]


def test_a_commit_shows_its_time_and_its_size(world: World) -> None:
    world.cluster.produce(IN, *VALUES)
    world.run(Copier(), iter([lambda: world.offset()[0] == 20]))
    shown = world.sample("ragweir_last_commit_timestamp_seconds")
    assert shown is not None
    assert abs(shown - world.clocks.time()) < 1
    assert world.sample("ragweir_batch_events_sum") == 20
    assert world.sample("ragweir_assigned_partitions") == 0
    assert world.sample("ragweir_transactions_total", outcome="committed") == 3, (
        "the start, the attempt and the records"
    )


def test_the_last_commit_of_a_process_brings_the_progress_group_up_to_date(world: World) -> None:
    """Between two of its commits there are seconds, in which an operator would find the progress of before."""
    agent = Copier(recovery=Provable())

    def script() -> Script:
        world.cluster.produce(IN, *VALUES[:5])
        yield lambda: world.offset()[0] == 5
        world.cluster.produce(IN, *VALUES[5:])
        yield lambda: world.offset()[0] == 20
        assert world.offset(group="rag.test.progress")[0] < 20

    world.run(agent, script())
    assert world.offset(group="rag.test.progress")[0] == 20


@pytest.mark.slow
def test_the_progress_group_is_refreshed_before_kafka_forgets_it(world: World) -> None:
    def script() -> Script:
        world.cluster.produce(IN, *VALUES)
        yield lambda: world.offset(group="rag.test.progress")[0] == 20
        world.cluster.groups["rag.test.progress"].offsets.clear()
        yield after(60.0)
        assert world.offset(group="rag.test.progress")[0] == -1, "nothing has changed"
        world.clocks.sleep(24 * 3_600)
        yield lambda: world.offset(group="rag.test.progress")[0] == 20

    world.run(Copier(recovery=Provable()), script())


def test_a_stop_while_brokers_are_away_waits_for_nothing(world: World) -> None:
    agent = Copier()

    def script() -> Script:
        yield lambda: world.offset()[0] == 0
        world.cluster.is_up = False
        yield after(10.0)

    began = world.clocks.monotonic()
    world.run(agent, script())
    assert world.clocks.monotonic() - began < 20
    assert world.health.not_ready == "stopped"


@pytest.mark.slow
def test_a_worker_without_records_asks_brokers_for_little(world: World) -> None:
    agent, asked = Copier(), Counter[str]()

    def counted(request: str) -> None:
        asked[request] += 1

    def script() -> Script:
        yield lambda: world.offset()[0] == 0
        yield after(1.0)
        asked.clear()
        yield after(60.0)

    world.cluster.fault = counted
    world.run(agent, script())
    assert asked["_described"] <= 13, "each five seconds"
    assert sum(asked.values()) <= 16


def test_attempts_on_records_that_are_committed_by_now_count_no_more(world: World) -> None:
    """As where an operator has set the offset behind them."""
    world.cluster.produce(IN, *VALUES)
    world.cluster.groups["rag.test"].offsets[IN, 0] = 5, '{"attempts":7,"until":5}'

    def dies(_: Record) -> bytes | None:
        raise Killed

    with pytest.raises(Killed):
        world.run(Copier(writes=dies), iter([lambda: False]))
    assert '"attempts":1,"until":20' in world.offset()[1]


def test_an_outcome_without_records_opens_a_transaction_as_well() -> None:
    now_s = 5.0
    pending = PendingOutcome(clock=lambda: now_s)
    pending.add(Outcome())
    assert (pending.is_open, pending.has_effects) == (False, False)
    pending.add(Outcome(settled=[Record("t", 0, 3, None, b"", None)]))
    now_s = 7.5
    assert (pending.is_open, pending.has_effects, pending.age_s, pending.offsets) == (True, True, 2.5, {("t", 0): 4})
    pending.clear()
    assert (pending.is_open, pending.age_s, pending.offsets) == (False, 0.0, {})
