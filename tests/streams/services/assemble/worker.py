"""A runtime without Kafka: it drives the agent of join through commits, aborts, kills and rebalances."""

import random
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from small_spans import READER, TOPIC

from ragweir.streams.runtime.agent import Assignment, StoredChangelog
from ragweir.streams.runtime.records import Emission, Outcome, Record
from ragweir.streams.services.join.agent import JoinAgent
from ragweir.streams.settings import AssembleSettings

MAX_EVENT_BYTES = 1024 * 1024


@dataclass
class Worker:
    """One worker of join at a time, the partitions of `spans` that it reads, and what it has committed."""

    logs: Sequence[Sequence[Record]]
    settings: AssembleSettings
    max_event_bytes: int = MAX_EVENT_BYTES
    committed: dict[int, int] = field(default_factory=dict)
    consumed: dict[int, int] = field(default_factory=dict)
    ledgers: dict[int, list[Record]] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)
    written: list[Emission] = field(default_factory=list)
    topic_id: str = "first"
    refuses: Callable[[Emission], bool] = lambda _: False
    """True for an emission that Kafka does not accept."""
    limit: int = 1_000
    poison: Record | None = None
    commits: int = 0

    def __post_init__(self) -> None:
        self.kill()

    def kill(self) -> None:
        """End the process and start another one."""
        self.agent = JoinAgent(self.settings, self.max_event_bytes, READER)
        self.limit, self.poison = 1_000, None
        self.assign()

    def rebalance(self) -> None:
        """Take all partitions away and give them back."""
        self.agent.on_revoked([(TOPIC, partition) for partition in range(len(self.logs))])
        self.assign()

    def assign(self) -> None:
        for partition, log in enumerate(self.logs):
            first = log[0].offset if log else 0
            start = max(first, self.committed.get(partition, first))
            ledger = StoredChangelog(self.ledgers.get(partition, ()), self.ends.get(partition, 0))
            committed = self.committed.get(partition)
            self.agent.on_assigned(Assignment((TOPIC, partition), committed, start, ledger, (), self.topic_id))
            self.consumed[partition] = self.agent.holding.resumes_at((TOPIC, partition), start)
            self.committed[partition] = start
        self.transact([])

    def batch(self, most: int, *, aborts: bool = False) -> bool:
        """Read a batch of so many records of all partitions; return whether there were any."""
        records: list[Record] = []
        for partition, log in enumerate(self.logs):
            first = bisect_left(log, self.consumed[partition], key=lambda record: record.offset)
            own = log[first : first + min(most, self.limit)]
            records += own
            if own:
                self.consumed[partition] = own[-1].offset + 1
        self.transact(records, aborts=aborts)
        return bool(records)

    def transact(self, records: Sequence[Record], *, aborts: bool = False) -> None:
        outcome = Outcome()
        if self.poison is not None and (
            self.poison in records or self.poison.topic_partition in self.agent.holding.held
        ):
            outcome = self.agent.dead_letter(self.poison, "Kafka refuses it")
        outcome.extend(self.agent.handle(records))
        outcome.extend(self.agent.tick(0.0, (), self.limit - len(outcome.settled)))
        is_refused = any(map(self.refuses, outcome.emissions))
        if aborts or is_refused:
            self.agent.on_abort()
            self.consumed.update(self.committed)
            if is_refused:
                self.poison = outcome.settled[0] if len(outcome.settled) == 1 else self.poison
                self.limit = max(1, len(outcome.settled) // 2)
            return
        for emission in outcome.emissions:
            if emission.topic == "assembly":
                at, own = emission.partition, self.ledgers.setdefault(emission.partition, [])
                own.append(Record("rag.assembly", at, self.ends.get(at, 0), emission.key, emission.value, 0))
                self.ends[at] = own[-1].offset + 1
            else:
                self.written.append(emission)
        for partition in {emission.partition for emission in outcome.emissions if emission.topic == "assembly"}:
            self.ends[partition] += 1
        for record in outcome.settled:
            assert self.committed[record.partition] <= record.offset + 1
            self.committed[record.partition] = record.offset + 1
        self.commits += bool(outcome.emissions)
        self.poison, self.limit = None, min(1_000, 2 * self.limit)
        self.agent.on_commit()

    def run(self, most: int, rng: random.Random | None = None, trouble: float = 0.0) -> None:
        """Read all; with `trouble`, transactions are aborted, the process is killed and partitions are taken away."""
        idle = 0
        while idle < 20:
            if rng and rng.random() < trouble:
                rng.choice((self.kill, self.rebalance, lambda: self.batch(most, aborts=True)))()
                self.limit = rng.choice((1, 2, 1_000))
            idle = 0 if self.batch(most) else idle + 1

    def restart(self, most: int) -> None:
        """End the process, start another one and read all."""
        self.kill()
        self.run(most)

    def recreate(self, logs: Sequence[Sequence[Record]]) -> None:
        """Replace the topic by another one."""
        self.logs, self.topic_id = logs, self.topic_id + "+"
        self.committed.clear()

    def grow(self, log: Sequence[Record]) -> None:
        """Add a partition."""
        self.logs = [*self.logs, log]
        self.rebalance()

    def read_from(self, partition: int, offset: int) -> None:
        """Delete the records before an offset, as retention does."""
        logs = [list(log) for log in self.logs]
        logs[partition] = [record for record in logs[partition] if record.offset >= offset]
        self.logs = logs

    def results(self) -> list[tuple[str, str, bytes]]:
        """Return what was written, in the form of the reference."""
        found = []
        for each in self.written:
            headers = dict(each.headers)
            key = (each.key or b"").decode()
            if each.topic == "dead-letter":
                names = "ragweir-error-class", "ragweir-source-offset"
                key = " ".join((headers[name] or b"").decode() for name in names)
            found.append((each.topic, key, each.value or b""))
        return found


def joined_by_worker(log: Sequence[Record], settings: AssembleSettings, most: int = 5_000) -> Worker:
    worker = Worker([log], settings)
    worker.run(most)
    return worker
