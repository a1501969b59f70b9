"""Faults on a real broker: whatever is killed, stopped, doubled or taken away, every event is settled exactly once."""

import os
import random
import signal
import statistics
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import structlog
from confluent_kafka import Consumer, TopicPartition
from conftest import QUICK_BROKER, SharedBroker, trim
from faults import Traffic, environment, gone, set_offset
from services import CLI, Service, Services, eventually

from ragweir.errors import DO_NOT_RESTART
from ragweir.streams.playground.local.kafka import local_kafka
from ragweir.streams.runtime.processes.supervisor import Command, Supervisor
from ragweir.streams.runtime.records import Record
from ragweir.streams.runtime.recovery.offsets import OffsetTracker

Start = Callable[..., Service]

_SEVERAL = 1_000
"""Events of a backlog with several transactions of three batches, of which a stall of the machine may shorten some."""

# A worker that sends itself a signal, once: in its first transaction that writes, with its batch computed and the
# transaction not begun, or with outputs and offsets on the broker and only the commit missing; in its first transaction
# of several batches, with the outputs of three on the broker; or when it is told to give partitions up.
HURT = """
import os, signal, sys
from ragweir.streams.commands import main
from ragweir.streams.runtime.loop import kafka_runtime

moment, how = sys.argv.pop(1), signal.Signals[sys.argv.pop(1)]
armed = True

def hurt():
    global armed
    if armed:
        armed = False
        os.kill(os.getpid(), how)

class HurtTransactions(kafka_runtime.Transactions):
    writes = batches = 0

    def write(self, emissions):
        if emissions and moment == "before":
            hurt()
        self.writes += bool(emissions)
        self.batches += bool(emissions)
        super().write(emissions)
        if self.batches == 3 and moment == "between":
            self._producer.flush(10)
            hurt()

    def commit(self, *groups):
        super().commit(*groups)
        self.batches = 0

    def _retry(self, step):
        if step == self._producer.commit_transaction and self.writes and armed and moment == "inside":
            self._producer.flush(10)
            hurt()
        super()._retry(step)

class HurtReader(kafka_runtime.BatchReader):
    def revoke(self, partitions):
        if moment == "revoked":
            hurt()
        super().revoke(partitions)

kafka_runtime.Transactions = HurtTransactions
kafka_runtime.BatchReader = HurtReader
main()
"""


@pytest.fixture
def start(services: Services) -> Start:
    """Start evaluate."""

    def start(traffic: Traffic, *arguments: str, before: tuple[str, ...] = CLI, **settings: Any) -> Service:
        return services.start("evaluate", *arguments, before=before, variables=environment(traffic, **settings))

    return start


def hurt(moment: str, how: str) -> tuple[str, ...]:
    return "-c", HURT, moment, how


def kill_and_time(traffic: Traffic, service: Service, slot: int, work_s: float) -> float:
    """Kill a worker in its work; gives the time until its partitions' next commit."""
    held = eventually(lambda: traffic.held().get(slot), f"slot {slot} holds partitions")
    pid = eventually(lambda: not gone(service.pid(slot)) and service.pid(slot), f"slot {slot} lives")
    traffic.publish(300)
    time.sleep(work_s)
    os.kill(pid, signal.SIGKILL)
    killed = time.monotonic()
    # What was on its way to the broker at the kill is no sign of life.
    eventually(lambda: gone(pid), "the worker is gone")
    time.sleep(0.05)
    before = eventually(traffic.committed, "the offsets are known")
    traffic.publish(10)

    def moved() -> bool:
        now = traffic.committed()
        return any(now.get(partition, 0) > before.get(partition, 0) for partition in held)

    eventually(moved, f"slot {slot} commits again")
    return time.monotonic() - killed


def kill_at_random(traffic: Traffic, service: Service, kills: int, slots: int, seed: int) -> list[float]:
    """Kill workers at random moments; gives the time from each kill to the slot's next commit."""
    chance = random.Random(seed)
    return [kill_and_time(traffic, service, chance.randrange(slots), chance.uniform(0.0, 0.3)) for _ in range(kills)]


def figures(times: list[float]) -> str:
    low, middle, high = min(times), statistics.median(times), max(times)
    return f"kill to next commit: {low:.2f} / {middle:.2f} / {high:.2f} s (min / median / max of {len(times)})"


def test_kills_at_random_moments_lose_and_double_nothing(traffic: Traffic, start: Start) -> None:
    """SIGKILL of either of two workers, four times under a backlog: every event is settled once, with its row."""
    # Sessions long enough for the killed slot itself to come back, rather than another to take its partitions.
    traffic.has_rows = True
    service = start(traffic, "--workers", "2", kafka__client={})
    print(figures(kill_at_random(traffic, service, kills=4, slots=2, seed=1)))
    traffic.must_be_settled_exactly_once()


@pytest.mark.long
def test_many_kills_with_the_default_timeouts_lose_and_double_nothing(prefix: str, start: Start) -> None:
    """The same with three workers, forty kills, larger batches and the timeouts that ragweir and Kafka ship.

    A new supervisor after every five kills: one that sees the same worker die again and again waits ever longer.
    """
    with local_kafka() as broker:
        traffic = Traffic(broker.bootstrap, prefix, partitions=6)
        times: list[float] = []
        for seed in range(8):
            service = start(traffic, "--workers", "3", kafka__client={}, batch__max_events=100)
            times += kill_at_random(traffic, service, kills=5, slots=3, seed=seed)
            assert service.stop() == 0
        print(figures(times))
        start(traffic, "--workers", "3", kafka__client={})
        traffic.must_be_settled_exactly_once()


@pytest.mark.heavy
@pytest.mark.parametrize("moment", ["inside", "between"])
@pytest.mark.parametrize("successor", [0, 1], ids=["same-slot", "other-slot"])
def test_a_kill_inside_a_transaction_leaves_nothing_behind(
    traffic: Traffic, start: Start, successor: int, moment: str
) -> None:
    """Outputs and offsets of a transaction that its worker did not live to commit are never read, whoever goes on."""
    traffic.has_rows = True
    traffic.publish(30 if moment == "inside" else _SEVERAL)
    assert start(traffic, "--slot", "0", before=hurt(moment, "SIGKILL")).ended() == -signal.SIGKILL
    committed = traffic.evaluations()
    assert len(traffic.evaluations("read_uncommitted")) > len(committed), "the outputs were on the broker"
    assert bool(committed) == (moment == "between")
    start(traffic, "--slot", str(successor))
    traffic.must_be_settled_exactly_once()


@pytest.mark.heavy
def test_a_kill_in_a_rebalance_leaves_no_partition_unread(traffic: Traffic, start: Start) -> None:
    """A worker that dies when it is to give partitions up, and comes back at once, leaves none that nobody reads."""
    traffic.publish(30)
    first = start(traffic, "--slot", "0", before=hurt("revoked", "SIGKILL"))
    traffic.settled()
    start(traffic, "--slot", "1")
    assert first.ended() == -signal.SIGKILL
    start(traffic, "--slot", "0")
    traffic.publish(30)
    traffic.must_be_settled_exactly_once()


@pytest.mark.parametrize(
    "moment", [*(pytest.param(each, marks=pytest.mark.heavy) for each in ("before", "between")), "inside"]
)
def test_a_zombie_writes_nothing(traffic: Traffic, start: Start, moment: str) -> None:
    """A worker that slept beyond its session does not commit its batch, nor its rows: another has had it."""
    traffic.has_rows = True
    traffic.publish(_SEVERAL if moment == "between" else 30)
    zombie = start(traffic, "--slot", "0", before=hurt(moment, "SIGSTOP"))
    eventually(lambda: Path(f"/proc/{zombie.process.pid}/stat").read_text().split()[2] == "T", "it sleeps")
    start(traffic, "--slot", "1")
    traffic.settled()
    traffic.publish(30)
    zombie.send(signal.SIGCONT)
    if moment != "before":
        # The broker has ended its transaction: a new process has to go on.
        assert zombie.ended() == 1
        (said,) = zombie.logged("has to start again", level="error")
        assert "probably the broker has ended its transaction, which was open for " in said["event"]
        start(traffic, "--slot", "0")
    eventually(lambda: traffic.held().get(0), "slot 0 works again")
    traffic.publish(30)
    traffic.must_be_settled_exactly_once()


@pytest.mark.heavy
def test_a_slot_started_twice_ends_the_first(traffic: Traffic, start: Start) -> None:
    """The same slot in a second process takes over; the first exits and names the other; nothing is doubled."""
    traffic.publish(500)
    first = start(traffic, "--slot", "0")
    eventually(traffic.committed, "the first works")
    start(traffic, "--slot", "0")
    assert first.ended() == 1
    member = first.logged("started")[0]["member"]
    assert first.logged(f"{member!r} has to start again: probably another process has ", level="error")
    traffic.must_be_settled_exactly_once()


@pytest.mark.heavy
def test_slots_may_leave_and_come_back(kafka: SharedBroker, prefix: str, start: Start) -> None:
    """Three workers, then one, then three again, while events flow."""
    traffic = Traffic(kafka.bootstrap, prefix, partitions=6)
    traffic.publish(300)
    start(traffic, "--slot", "0")
    others = [start(traffic, "--slot", "1"), start(traffic, "--slot", "2")]
    eventually(lambda: sum(map(bool, traffic.held().values())) == 3, "three slots work")
    traffic.publish(100)
    assert [other.stop() for other in others] == [0, 0]
    left = time.monotonic()
    eventually(lambda: len(traffic.held().get(0, ())) == 6, "one slot has everything")
    print(f"partitions of a slot that does not come back moved after {time.monotonic() - left:.1f} s")
    traffic.publish(100)
    for slot in "12":
        start(traffic, "--slot", slot)
    eventually(lambda: sum(map(bool, traffic.held().values())) == 3, "three slots work again")
    traffic.publish(100)
    traffic.must_be_settled_exactly_once()


@pytest.mark.heavy
def test_a_slot_without_partitions_is_ready_and_idle(single: Traffic, start: Start) -> None:
    """More slots than partitions: the one that has none is ready all the same, and harmless."""
    service = start(single, "--workers", "3")
    for slot in range(3):
        eventually(lambda slot=slot: service.asked("/readyz", slot)[0] == 200, f"slot {slot} is ready")
    single.publish(60)
    single.must_be_settled_exactly_once()


@pytest.mark.heavy
def test_a_broker_that_goes_is_waited_for(prefix: str, start: Start) -> None:
    """Killed under load, it is missed in one line and found again; not ready meanwhile; then none is lost.

    Stopped under load, it is missed likewise; SIGTERM then ends the service in time; the next start goes on.
    """
    with local_kafka(properties=QUICK_BROKER) as broker:
        traffic = Traffic(broker.bootstrap, prefix)
        traffic.publish(200)
        service = start(traffic, "--workers", "1")

        def missed(end: Callable[[], None]) -> None:
            eventually(lambda: service.asked("/readyz")[0] == 200, "ready")
            traffic.publish(200)
            end()
            assert service.sample("ragweir_events_in_total") < sum(traffic.published.values()), "it fell into work"
            eventually(lambda: service.asked("/readyz")[0] == 503, "not ready")
            eventually(lambda: service.sample("ragweir_broker_up") == 0, "says that the broker is lost")

        missed(broker.kill)
        broker.start()
        traffic.reconnect()
        eventually(lambda: service.asked("/readyz")[0] == 200, "ready again")
        traffic.must_be_settled_exactly_once()
        lost, back = service.logged("broker lost"), service.logged("broker is back")
        # One a process: where a call did not come back, another has taken over, perhaps before it was said.
        assert lost or service.logged("does not come back")
        assert max(Counter(line["pid"] for line in lost).values(), default=0) <= 1, lost
        assert len(back) <= len(lost)
        assert 0 < service.sample("ragweir_events_in_total") <= sum(traffic.published.values())
        missed(broker.stop)
        assert service.stop() == 0
        broker.start()
        traffic.reconnect()
        start(traffic, "--workers", "1")
        traffic.must_be_settled_exactly_once()


@pytest.mark.heavy
def test_records_that_retention_deleted_are_counted(single: Traffic, start: Start) -> None:
    """A gap between the committed offset and the first record is logged and counted, and work goes on after it.

    Both at the start of a worker and while it runs.
    """
    series = f'ragweir_events_missed_total{{partition="0",topic="{single.topic}"}}'
    single.publish(10)
    first = start(single, "--slot", "0")
    single.settled()
    assert first.stop() == 0
    single.publish(20)
    trim(single.bootstrap, single.topic, [0], 15)
    second = start(single, "--workers", "1")
    single.settled()
    assert [line["missed"] for line in second.logged("deleted records unread")] == [5]
    assert second.sample(series) == 5
    # Asleep, with the answer to its last fetch on the way, it cannot have read what is published now.
    pid = second.pid(0)
    os.kill(pid, signal.SIGSTOP)
    time.sleep(0.5)
    single.publish(20)
    trim(single.bootstrap, single.topic, [0], 40)
    os.kill(pid, signal.SIGCONT)
    single.settled()
    assert second.pid(0) != pid, "a new process goes on behind the gap"
    told = second.logged("deleted records unread")
    assert [line["missed"] for line in told] == [5, 10]
    # A process that lost its partitions in its sleep counts the gap before it ends, and its counter ends with it.
    assert second.sample(series) == (10 if told[-1]["pid"] == second.pid(0) else 0)
    assert [place for _, (_, place) in single.evaluations()] == [*range(7), 8, 9, *range(15, 30), *range(40, 50)]


def test_records_of_partitions_given_up_or_had_already_are_dropped(single: Traffic) -> None:
    """The runtime does not rest on librdkafka alone for what a worker may handle."""
    single.publish(3)
    at = TopicPartition(single.topic, 0, 1)
    offsets = OffsetTracker("earliest", lambda _, __: None)
    consumer = Consumer({"bootstrap.servers": single.bootstrap, "group.id": "looks-only"})
    offsets.begin(consumer, at, lambda: False)
    consumer.close()
    records = [Record(single.topic, 0, offset, None, None, None) for offset in range(3)]
    assert [offsets.accept(record) for record in records] == [False, True, True]
    offsets.on_revoked([(at.topic, at.partition)])
    assert not offsets.accept(records[2])


@pytest.mark.heavy
def test_an_offset_beyond_the_end_is_rejected(prefix: str, single: Traffic, start: Start) -> None:
    """Where a topic lost committed records, the service ends with a sentence that says what to do, and stays ended."""
    single.publish(3)
    set_offset(single.bootstrap, f"{prefix}evaluate", single.topic, 0, 20)
    slot = start(single, "--slot", "0")
    assert slot.ended() == DO_NOT_RESTART
    assert len(slot.logged("reset the group's offsets", level="error")) == 1
    supervised = start(single, "--workers", "1")
    assert supervised.ended() == 1
    assert len(supervised.logged("started")) == 1


@pytest.mark.heavy
def test_sigterm_under_load_ends_in_time_and_in_order(traffic: Traffic, start: Start) -> None:
    """A stop in the middle of a backlog gives status 0 and costs no event; no worker is so late that it is killed."""
    traffic.publish(100)
    service = start(traffic, "--workers", "2")
    eventually(lambda: len(traffic.held()) == 2 and traffic.committed(), "both work")
    traffic.publish(4_000)  # More than both do until they are told to stop.
    assert service.stop() == 0
    eventually(traffic.left, "work is left")
    assert len(service.logged("stopped")) == 2
    start(traffic, "--workers", "2")
    traffic.must_be_settled_exactly_once()


def test_workers_end_with_their_supervisor(traffic: Traffic, start: Start) -> None:
    """After SIGKILL of the supervisor, its workers stop by themselves."""
    service = start(traffic, "--workers", "2")
    pids = [service.pid(slot) for slot in range(2)]
    service.send(signal.SIGKILL)
    eventually(lambda: all(map(gone, pids)), "the workers have ended")


def test_a_worker_that_always_fails_is_started_ever_later() -> None:
    """Each restart waits twice as long as the one before."""
    with structlog.testing.capture_logs() as logs:
        Supervisor([Command("evaluate", 0, ["false"])]).run(lambda: len(logs) == 4)
    assert [line["restart_in_s"] for line in logs] == [0.1, 0.2, 0.4, 0.8]


@pytest.mark.heavy
def test_latest_loses_nothing_that_came_while_the_worker_was_away(traffic: Traffic, start: Start) -> None:
    """`latest` means the end at the first start ever, even when nothing was read before the second."""
    traffic.publish(5)
    began = dict(traffic.published)
    first = start(traffic, "--slot", "0", input__start_from="latest")
    eventually(lambda: traffic.committed() == began, "the start is committed")
    assert first.stop() == 0
    traffic.publish(5)
    start(traffic, "--slot", "0", input__start_from="latest")
    traffic.must_be_settled_exactly_once(first=began)
