"""Transactions: their batches, aborts, poison records, fencing, time-outs, and answers that do not come."""

from itertools import pairwise

import pytest
from fake_worker import DEAD, IN, OUT, Copier, Killed, Script, World, after
from structlog.testing import capture_logs

from ragweir.errors import PermanentError, RestartRequired
from ragweir.streams.runtime.agent_parts import Holding
from ragweir.streams.runtime.records import Outcome, Record

VALUES = [b"%d" % number for number in range(20)]


def test_a_backlog_is_committed_at_the_interval_and_not_at_each_batch(world: World) -> None:
    world.cluster.produce(IN, *VALUES * 10)

    def slowly(record: Record) -> bytes | None:
        world.clocks.sleep(0.01)
        return record.value

    agent = Copier(writes=slowly)
    began = world.clocks.monotonic()
    world.run(agent, iter([lambda: world.offset()[0] == 200]), batch={"max_events": 10, "max_wait_ms": 20})
    commits = agent.names.count("on_commit")
    assert 2.0 <= world.clocks.monotonic() - began <= 3
    assert 2 <= commits <= 8
    assert len(agent.of("handle")) >= 20
    assert world.cluster.values(OUT) == VALUES * 10


def test_an_idle_worker_waits_for_records_as_long_as_a_batch_may(world: World) -> None:
    agent, is_over = Copier(), after(1.0)
    script: Script = iter([lambda: is_over() or agent.names.count("tick") > 200])
    world.run(agent, script, batch={"max_events": 10, "max_wait_ms": 20})
    assert 10 <= agent.names.count("tick") <= 60


def test_without_an_interval_each_batch_is_committed(world: World) -> None:
    world.cluster.produce(IN, *VALUES)
    agent = Copier()
    settings = {"batch": {"max_events": 5, "max_wait_ms": 20}, "commit": {"interval_ms": 0}}
    world.run(agent, iter([lambda: world.offset()[0] == 20]), **settings)
    handled = [number for number, name in enumerate(agent.names) if name == "handle"]
    assert len(handled) == 4
    assert all("on_commit" in agent.names[first:last] for first, last in pairwise(handled))


def test_a_transaction_waits_for_records_that_are_on_their_way(world: World) -> None:
    """Those that the client knows of, and no longer than a batch may wait."""
    world.cluster.produce(IN, *VALUES)
    agent = Copier()

    def script() -> Script:
        yield lambda: world.offset()[0] == 20
        world.cluster.produce(IN, *VALUES)
        yield lambda: len(agent.handled) == 30
        world.cluster.fetch_s = 0.01
        world.cluster.produce(IN, *VALUES[:5])
        yield lambda: world.offset()[0] == 45

    world.run(agent, script(), batch={"max_events": 10, "max_wait_ms": 50})
    assert sizes(agent)[-1] == 25, "those that were on their way are in it"
    assert world.cluster.values(OUT) == [*VALUES * 2, *VALUES[:5]]


def test_large_outputs_end_a_transaction(world: World) -> None:
    world.cluster.produce(IN, *VALUES)
    agent = Copier(writes=lambda _: b"x" * 1_000)
    settings = {"batch": {"max_events": 1, "max_wait_ms": 20}, "commit": {"max_bytes": 3_000}}
    world.run(agent, iter([lambda: world.offset()[0] == 20]), **settings)
    assert sizes(agent)[:5] == [1, 2, 3, 3, 3]


def sizes(agent: Copier) -> list[int]:
    """Return the number of records of each transaction that had any."""
    settled, found = 0, []
    for name, detail in agent.calls:
        settled += len(detail) if name == "handle" else 0
        if name == "on_commit" and settled:
            found.append(settled)
            settled = 0
    return found


def test_a_changelog_has_one_batch_in_a_transaction_and_one_call(world: World) -> None:
    world.cluster.create("rag.windows")
    world.cluster.produce(IN, *VALUES * 10)
    agent = Copier(changelog="windows")
    world.run(agent, iter([lambda: world.offset()[0] == 200]), batch={"max_events": 100, "max_wait_ms": 20})
    assert [len(each) for each in agent.of("handle")] == [100, 100]
    first, second = (number for number, name in enumerate(agent.names) if name == "handle")
    assert "on_commit" in agent.names[first:second]


@pytest.mark.parametrize("at", [0, 7, 19])
def test_the_record_whose_outcome_kafka_rejects_is_found_and_no_other_is_touched(world: World, at: int) -> None:
    """Whatever their number in a transaction: halving leads to the one."""
    world.cluster.create(OUT, max_message_bytes="1000")
    agent = Copier(writes=lambda record: b"x" * 2_000 if record.offset == at else record.value)
    world.cluster.produce(IN, *VALUES)
    world.run(agent, iter([lambda: world.offset()[0] == 20]))
    assert world.cluster.values(DEAD) == [b"letter"]
    assert agent.of("dead_letter") == [(at, "refused")]
    assert world.cluster.values(OUT) == [*VALUES[:at], *VALUES[at + 1 :]]
    aborted = world.sample("ragweir_transactions_total", outcome="aborted")
    assert aborted is not None
    assert 1 <= aborted <= 16, "each rejection costs two: Kafka finds a gap in the sequence after it"
    assert world.sample("ragweir_events_in_total") == 19


def test_a_record_too_large_for_the_client_is_found_as_well(world: World) -> None:
    agent = Copier(writes=lambda record: b"x" * 8_000_000 if record.offset == 3 else record.value)
    world.cluster.produce(IN, *VALUES)
    world.run(agent, iter([lambda: world.offset()[0] == 20]))
    assert agent.of("dead_letter") == [(3, "refused")]
    assert world.cluster.values(DEAD) == [b"letter"]


def test_after_an_error_that_is_of_no_record_nothing_becomes_a_dead_letter(world: World) -> None:
    """The output is gone: the transaction is aborted again and again, later each time, until it is back."""
    agent = Copier()
    world.cluster.produce(IN, *VALUES)
    del world.cluster.topics[OUT]

    def script() -> Script:
        yield lambda: agent.names.count("on_abort") == 6
        world.cluster.create(OUT)
        yield lambda: world.offset()[0] == 20

    began = world.clocks.monotonic()
    world.run(agent, script())
    assert world.clocks.monotonic() - began > 0.1 + 0.2 + 0.4 + 0.8 + 1.6 + 2.0
    assert world.cluster.values(DEAD) == []
    assert world.cluster.values(OUT) == VALUES


def test_a_dead_letter_that_is_rejected_waits_for_people(world: World) -> None:
    world.cluster.create(OUT, max_message_bytes="1000")
    world.cluster.create(DEAD, max_message_bytes="100")
    agent = Copier(writes=lambda record: b"x" * 2_000 if record.offset == 3 else record.value)
    agent.letter = b"y" * 500
    world.cluster.produce(IN, *VALUES)

    def script() -> Script:
        yield lambda: len(agent.of("dead_letter")) >= 3
        assert world.offset()[0] == 3
        world.cluster.create(DEAD)
        yield lambda: world.offset()[0] == 20

    with capture_logs() as logs:
        world.run(agent, script())
    assert any("Kafka rejects a dead letter" in each["event"] for each in logs)
    assert world.cluster.values(DEAD) == [agent.letter]
    assert world.cluster.values(OUT) == [*VALUES[:3], *VALUES[4:]]


def test_transactions_are_short_at_first_and_grow(world: World) -> None:
    """A new process commits most of what the open transaction of a dead one held."""
    world.cluster.produce(IN, *VALUES * 5)
    agent = Copier()
    world.run(agent, iter([lambda: world.offset()[0] == 100]), batch={"max_events": 10, "max_wait_ms": 20})
    assert sizes(agent)[:3] == [10, 20, 40]


def test_a_producer_that_is_fenced_ends_the_process(world: World) -> None:
    agent = Copier()

    def script() -> Script:
        yield lambda: agent.of("on_assigned")
        world.producer("rag.test-here-0").init_transactions()
        world.cluster.produce(IN, *VALUES)
        yield lambda: False

    with pytest.raises(RestartRequired, match=r"another process has begun to write as 'rag.test-here-0'"):
        world.run(agent, script())
    assert world.cluster.values(OUT) == []
    assert world.offset()[0] <= 0


def test_a_transaction_that_brokers_have_ended_is_the_likelier_cause(world: World) -> None:
    def suspended(record: Record) -> bytes | None:
        world.clocks.sleep(30.0 if record.offset == 12 else 0.0)
        return record.value

    world.cluster.produce(IN, *VALUES)
    with pytest.raises(RestartRequired, match=r"the broker has ended its transaction, which was open for 30"):
        world.run(Copier(writes=suspended), iter([lambda: False]), batch={"max_events": 5, "max_wait_ms": 20})
    assert len(world.cluster.values(OUT)) < 20


def test_a_restart_after_any_of_it_writes_each_record_once(world: World) -> None:
    """Fenced, timed out or killed: the next process aborts what is open and reads from what is committed."""
    world.cluster.produce(IN, *VALUES)
    first = Copier()

    def script() -> Script:
        yield lambda: len(first.handled) >= 10
        world.producer("rag.test-here-0").init_transactions()
        yield lambda: False

    with pytest.raises(RestartRequired):
        world.run(first, script(), batch={"max_events": 5, "max_wait_ms": 20})
    world.run(Copier(), iter([lambda: world.offset()[0] == 20]))
    assert world.cluster.values(OUT) == VALUES


def test_a_commit_under_an_old_generation_is_aborted(world: World) -> None:
    """A member that was removed finds out when it sends its offsets: they are rejected, and all outputs with them."""
    world.cluster.produce(IN, *VALUES)
    agent = Copier()
    is_removed = False

    def removed(record: Record) -> bytes | None:
        nonlocal is_removed
        if record.offset == 19 and not is_removed:
            is_removed = True
            group = world.cluster.groups["rag.test"]
            group.leave(next(iter(group.members)))
        return record.value

    agent.writes = removed
    world.run(agent, iter([lambda: world.offset()[0] == 20]))
    assert agent.names.count("on_abort") == 1
    assert world.cluster.values(OUT) == VALUES


def test_a_broker_that_is_away_for_a_while_costs_nothing(world: World) -> None:
    agent = Copier()

    def script() -> Script:
        yield lambda: agent.of("on_assigned")
        yield after(1.0)
        assert (world.health.not_ready, world.sample("ragweir_broker_up")) == ("", 1)
        world.cluster.is_up = False
        world.cluster.produce(IN, *VALUES)
        yield after(10.0)
        assert world.health.not_ready.startswith("the broker is lost: ")
        assert world.sample("ragweir_broker_up") == 0
        world.cluster.is_up = True
        yield lambda: world.offset()[0] == 20
        yield after(0.5)
        assert (world.health.not_ready, world.sample("ragweir_broker_up")) == ("", 1)

    world.run(agent, script())
    assert world.cluster.values(OUT) == VALUES


def test_a_commit_that_is_not_answered_for_a_minute_needs_a_restart(world: World) -> None:
    """Its outcome is not known; the restart takes over the id, which ends the transaction either way."""

    def gone(record: Record) -> bytes | None:
        world.cluster.is_up = record.offset < 19
        return record.value

    world.cluster.produce(IN, *VALUES)
    began = world.clocks.monotonic()
    with pytest.raises(RestartRequired, match=r"Kafka (has not answered for 6|does not describe the topics)"):
        world.run(Copier(writes=gone), iter([lambda: False]))
    assert 60 <= world.clocks.monotonic() - began <= 130
    world.cluster.is_up = True
    world.run(Copier(), iter([lambda: world.offset()[0] == 20]))
    assert world.cluster.values(OUT) == VALUES


def test_a_stop_does_not_wait_for_a_broker_that_is_away(world: World) -> None:
    def gone(record: Record) -> bytes | None:
        world.cluster.is_up = record.offset < 19
        return record.value

    world.cluster.produce(IN, *VALUES)
    agent = Copier(writes=gone)
    began = world.clocks.monotonic()
    try:
        world.run(agent, iter([lambda: not world.cluster.is_up]))
    except RestartRequired as error:
        assert "stopped while Kafka did not answer" in str(error)  # noqa: PT017
    assert world.clocks.monotonic() - began < 15
    assert world.health.not_ready == "stopped"


@pytest.mark.slow
def test_a_queue_that_is_full_is_waited_for(world: World) -> None:
    world.cluster.produce(IN, *VALUES * 10)
    agent = Copier(writes=lambda _: b"x" * 900_000)
    world.run(agent, iter([lambda: world.offset()[0] == 200]))
    assert len(world.cluster.values(OUT)) == 200


def test_brokers_that_allow_short_transactions_only_get_them(world: World) -> None:
    world.cluster.max_transaction_s = 3.0
    world.cluster.produce(IN, *VALUES)
    with capture_logs() as logs:
        world.run(Copier(), iter([lambda: world.offset()[0] == 20]))
    assert world.cluster.transactional["rag.test-here-0"].timeout_s == 3.0
    assert any("the brokers allow no transactions as long" in each["event"] for each in logs)
    world.cluster.max_transaction_s = 0.0
    with pytest.raises(PermanentError, match=r"the brokers reject transactions of 1000 ms"):
        world.run(Copier(), iter([lambda: False]))


def test_attempts_are_counted_before_the_first_records_are_handled(world: World) -> None:
    """A process that dies on them leaves the count behind, and any progress resets it."""
    world.cluster.create("rag.windows")
    world.cluster.produce(IN, *VALUES)

    def dies(_: Record) -> bytes | None:
        raise Killed

    for number in range(1, 9):
        with pytest.raises(Killed):
            world.run(Copier(changelog="windows", writes=dies), iter([lambda: False]))
        assert f'"attempts":{number},"until":20' in world.offset()[1]
    with pytest.raises(PermanentError, match=r"8 processes in a row have ended while they handled the records of"):
        world.run(Copier(changelog="windows"), iter([lambda: False]))
    offset, _ = world.offset()
    world.cluster.groups["rag.test"].offsets[IN, 0] = offset, ""  # As people do once they have given more memory.
    world.run(Copier(changelog="windows"), iter([lambda: world.offset()[0] == 20]))
    assert "attempts" not in world.offset()[1]
    assert world.cluster.values(OUT) == VALUES


def test_a_stop_in_good_order_leaves_no_attempt(world: World) -> None:
    """Although its agent holds the records, which nobody can tell from one that died on them."""

    class Keeping(Holding):
        held = ((IN, 0),)

    world.cluster.produce(IN, *VALUES)
    agent = Copier(holding=Keeping())
    agent.handle = lambda _: Outcome()  # type: ignore[method-assign]
    world.run(agent, iter([lambda: "attempts" in world.offset()[1], after(1.0)]))
    assert world.offset()[0] == 0
    assert "attempts" not in world.offset()[1]
