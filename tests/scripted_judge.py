"""The parts that tests of the judge share: requests, a suite of their own, a pool that answers when it is told to."""

import sys
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import orjson
from typing_extensions import override

from ragweir.metrics.judged.driver import Judged
from ragweir.metrics.judged.suite import Case, Conversation, Suite, SuiteResult
from ragweir.metrics.metric import Metric
from ragweir.schemas.codec.json import encode
from ragweir.schemas.evaluation import Decision, Evaluation, SuiteDecision
from ragweir.schemas.judging import JudgeRequest
from ragweir.streams.runtime.agent import Assignment, StoredChangelog
from ragweir.streams.runtime.records import Emission, Headers, Measurements, Outcome, Record, TopicPartition
from ragweir.streams.services.judge.agent import JudgeAgent
from ragweir.streams.services.judge.config import JudgeConfig
from ragweir.streams.services.judge.job import Job, JobId, JobResult, JobUsage, JudgePool
from ragweir.streams.services.judge.pricing import allowance
from ragweir.streams.services.judge.results import case_of
from ragweir.streams.settings import JudgeSettings, Price

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
PRICE = Price(input_usd=1.0, output_usd=2.0)


def grade(case: Case) -> Conversation:
    """How good it is."""
    yield from ()
    return SuiteResult({"grade": 1.0 if case.response else 0.0})


def mark(case: Case) -> str:
    """Which mark it gets."""
    return case.response


GRADING = Suite(
    name="grading",
    version="3",
    metrics=(
        Metric(grade, "grading", "ratio", "higher", (), "test", cost="llm"),
        Metric(mark, "grading", "category", "neither", (), "test", cost="llm", labels=("A", "B")),
    ),
    converse=grade,
    asks=1,
)


def request(event_id: str = "e", *, because: Sequence[str] = ("risk",), **fields: Any) -> JudgeRequest:
    """A request that the grading suite is to judge; `fields` are the request's, or else its evaluation's."""
    decided = SuiteDecision(suite="grading", status="selected", probability=1.0, because=tuple(because))
    own = {name: fields.pop(name) for name in list(fields) if name in JudgeRequest.model_fields}
    evaluation = Evaluation(
        event_id=event_id,
        event_time=NOON,
        scores={"context_support": 0.5},
        decision=Decision(suites=(decided,)),
        catalogue_version="1",
        **fields,
    )
    return JudgeRequest(**{"evaluation": evaluation, "query": "Who?", "response": "Ada.", **own})


def config(partitions: int = 1, **settings: Any) -> JudgeConfig:
    """A judge for the grading suite."""
    judge = JudgeSettings(base_url="http://127.0.0.1:9/v1", model="tested", prices={"tested": PRICE}, **settings)
    return JudgeConfig(suites={"grading": GRADING}, judge=judge, partitions=partitions)


AMOUNT = allowance(config().judge, case_of(request(), 60_000)[0], list(config().suites.values()))
"""Reservation of one of the tests' requests, in millionths of a dollar."""


def dollars(events: float) -> float:
    """Return a budget that suffices for this many of the tests' requests at once."""
    return events * AMOUNT / 1_000_000


GOOD = Judged(
    scores={"grade": 0.75}, categories={"mark": "A"}, explanations={"grade": "fine"}, statuses={"grading": "judged"}
)


class ScriptedPool(JudgePool):
    """Holds jobs until the test says how they end."""

    unavailable_reason = ""

    def __init__(self) -> None:
        self.jobs: dict[JobId, Job] = {}
        self.started: list[JobId] = []
        self._ended: list[JobResult] = []

    @override
    def start(self, job: Job) -> None:
        self.jobs[job.id] = job
        self.started.append(job.id)

    @override
    def take_results(self) -> list[JobResult]:
        ended, self._ended = self._ended, []
        return ended

    @override
    def cancel(self, jobs: Collection[JobId]) -> None:
        for job in jobs:
            self.jobs.pop(job, None)
        self._ended = [ended for ended in self._ended if ended.id not in jobs]

    def land(
        self,
        job: JobId,
        judged: Judged | None = GOOD,
        cost: int | Mapping[str, int] = 100,
        why: str = "",
        flags: Iterable[str] = (),
        *,
        day_over: bool = False,
    ) -> None:
        """A job ends. Its cost is on its first day, if it is not given by days."""
        days = self.jobs.pop(job).days
        costs = Counter({days[0]: cost} if isinstance(cost, int) else cost)
        self._ended.append(JobResult(job, judged, JobUsage(10, 5, costs, calls=1, flags=set(flags)), why, day_over))

    def land_all(self, **result: Any) -> None:
        """All jobs that are under way end with the same result."""
        for job in list(self.jobs):
            self.land(job, **result)

    @override
    def drain_metrics(self) -> Measurements:
        return Measurements()


@dataclass
class Log:
    """Topics in memory with one group's offsets: what a transaction would leave, without a broker.

    It stands in for the runtime's side of the contract with an agent that holds records; that the real runtime
    keeps it is proved on a broker.
    """

    records: defaultdict[TopicPartition, list[Record]] = field(default_factory=lambda: defaultdict(list))
    committed: dict[TopicPartition, int] = field(default_factory=dict)
    counts: Counter[tuple[str, ...]] = field(default_factory=Counter)
    levels: dict[tuple[str, ...], float] = field(default_factory=dict)

    def append(
        self,
        topic: str,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        at: datetime,
        headers: Headers = (),
    ) -> None:
        lane = self.records[topic, partition]
        lane.append(Record(topic, partition, len(lane), key, value, round(at.timestamp() * 1000), headers))

    def ask(self, *asked: JudgeRequest, partition: int = 0, at: datetime = NOON) -> None:
        for each in asked:
            self.append("judge.requests", partition, each.evaluation.event_id.encode(), encode(each), at)

    def commit(self, outcome: Outcome, at: datetime) -> None:
        for emission in outcome.emissions:
            place = emission.topic, max(0, emission.partition)
            self.append(*place, emission.key, emission.value, at, emission.headers)
        self.committed.update({record.topic_partition: record.offset + 1 for record in outcome.settled})
        self.counts.update(outcome.counts)
        self.levels.update(outcome.levels)

    def read(self, topic: str) -> list[dict[str, Any]]:
        """What stands in a topic, over all partitions."""
        return [
            orjson.loads(record.value) for (name, _), lane in self.records.items() if name == topic for record in lane
        ]


class Worker:
    """Drives one agent over a log, as the runtime would. A worker that is dropped has crashed."""

    def __init__(
        self, log: Log, agent: JudgeAgent, partitions: Sequence[int] = (0,), number: int | None = None
    ) -> None:
        """Take partitions over, of so many that the topics have."""
        self.log, self.agent, self.number = log, agent, number
        self._next: dict[TopicPartition, int] = {}
        for partition in partitions:
            self.assign(partition)

    def assign(
        self, partition: int, topics: Sequence[str] = ("judge.requests", "judge.retry", "judge.deferred")
    ) -> None:
        """Take a partition over, of all topics or some."""
        for topic in topics:
            start = self._next[topic, partition] = self.log.committed.get((topic, partition), 0)
            changelog = StoredChangelog(self.log.records["judge.ledger", partition])
            assignment = Assignment((topic, partition), start, start, changelog, partitions=self.number)
            self.agent.on_assigned(assignment)

    def revoke(self, partition: int) -> None:
        """Give a partition up, of all topics."""
        self.agent.on_revoked([place for place in self._next if place[1] == partition])
        self._next = {place: offset for place, offset in self._next.items() if place[1] != partition}

    def forget(self, topic: str) -> None:
        """Read nothing more of a topic."""
        self._next = {place: offset for place, offset in self._next.items() if place[0] != topic}

    def prefer_another(self) -> None:
        """Read another partition first from now on, as a consumer does."""
        place = next(iter(self._next))
        self._next[place] = self._next.pop(place)

    def turn(
        self,
        now: datetime = NOON,
        *,
        abort: bool = False,
        most: int = 1_000,
        settle: int = sys.maxsize,
        refused: Record | None = None,
    ) -> list[Emission]:
        """One transaction that reads at most `most` records of a partition; with `abort` it does not commit.

        Args:
            settle: the number of requests that it may settle.
            refused: a record whose own result Kafka does not take.
        """
        log, agent = self.log, self.agent
        batch: list[Record] = []
        for place in self._next:
            if place in agent.holding.paused:
                self._next[place] = agent.holding.paused[place]
            elif room := min(most, agent.holding.capacity - len(batch)):
                fresh = log.records[place][self._next[place] :][: max(0, room)]
                batch += fresh
                self._next[place] += len(fresh)
        outcome = Outcome()
        if refused is not None and (refused in batch or refused.topic_partition in agent.holding.held):
            outcome = agent.dead_letter(refused, "it is refused")
            batch = [record for record in batch if record != refused]
        outcome.extend(agent.handle(batch))
        outcome.extend(agent.tick(now.timestamp(), [], settle - len(outcome.settled)))
        if abort:
            agent.on_abort()
            self._next = {place: log.committed.get(place, 0) for place in self._next}
            return []
        log.commit(outcome, now)
        agent.on_commit()
        return outcome.emissions
