"""What a replay would do: how much there is to read, how long it takes, and what the judge may cost, by a sample."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import orjson

from ragweir.metrics.judged.suites import suites
from ragweir.schemas.judging import JudgeRequest
from ragweir.schemas.run import Run
from ragweir.schemas.topics import max_record_bytes
from ragweir.streams.evaluate.agent import EvaluateAgent
from ragweir.streams.judge.pricing import allowance
from ragweir.streams.judge.results import case_of, chosen
from ragweir.streams.kafka.reader import OffsetRange, read
from ragweir.streams.records import Record
from ragweir.streams.replay.archives import lines
from ragweir.streams.replay.request import config
from ragweir.streams.settings import Settings

SAMPLE = 400
"""Records that are evaluated to see."""


@dataclass(frozen=True, slots=True)
class SuiteCost:
    """What one suite comes to."""

    suite: str
    events: int
    calls: int
    """At most, repairs and retries apart."""
    usd: float
    """At most: a token for each byte, and the longest answers."""


@dataclass(slots=True)
class ReplayEstimate:
    """What is to be expected, as far as the sample is like the rest."""

    records: int
    """At most: offsets count the marks of transactions too."""
    exact: bool
    sampled: int
    seconds_each: float
    """Of CPU, on this machine."""
    outcomes: Counter[str] = field(default_factory=Counter)
    """What became of the sample."""
    bills: tuple[SuiteCost, ...] = ()

    def hours(self, workers: int, rate: float | None) -> float:
        """How long evaluating takes with so many workers on as many cores."""
        a_second = workers / self.seconds_each if self.seconds_each else float("inf")
        return self.records / min(a_second, rate or float("inf")) / 3600


def estimate(settings: Settings, own: Settings, run: Run) -> ReplayEstimate:
    """Evaluate a sample and reckon from it. Changes nothing.

    Args:
        settings: how to read the topics.
        own: the run's.
        run: as it would begin.

    Raises:
        PermanentError: if it cannot be read.
        ConfigurationError: if the settings cannot be used.
    """
    agent = EvaluateAgent(config(own, run))
    records = list(islice(_sample(settings, own, run), SAMPLE))
    total = sum(1 for file in run.files for _ in lines(Path(file.path), max_record_bytes(own.limits.max_event_bytes)))
    total += sum(extent.end - extent.start for extent in run.extents)
    found = ReplayEstimate(total, bool(run.files), len(records), 0.0)
    requests = []
    began = time.process_time()
    for record in records:
        outcome = agent.handle([record])
        agent.on_commit()
        for (name, *_), count in outcome.counts.items():
            found.outcomes[name] += count
        requests += [each.value for each in outcome.emissions if each.topic == "judge.requests"]
    found.seconds_each = (time.process_time() - began) / max(1, len(records))
    asked = [JudgeRequest.model_validate(orjson.loads(value or b"")) for value in requests]
    found.bills = tuple(_bills(own, asked, total / max(1, len(records))))
    return found


def _sample(settings: Settings, own: Settings, run: Run) -> Iterator[Record]:
    """Records from the beginning of each stretch, in equal parts."""
    most = max_record_bytes(own.limits.max_event_bytes)
    each = max(1, SAMPLE // max(1, len(run.files) + sum(extent.end > extent.start for extent in run.extents)))
    for file in run.files:
        for number, line in islice(lines(Path(file.path), most), each):
            yield Record(run.topic, 0, number, None, line, None)
    for extent in run.extents:
        end = min(extent.end, extent.start + each)
        yield from read(settings, OffsetRange(extent.topic, {extent.partition: extent.start}, {extent.partition: end}))


def _bills(own: Settings, requests: list[JudgeRequest], factor: float) -> Iterator[SuiteCost]:
    judge, known = own.judge, suites(own.judge.ragas_weights)
    events: Counter[str] = Counter()
    cost: defaultdict[str, int] = defaultdict(int)
    for request in requests:
        case, _ = case_of(request, judge.max_input_chars)
        for each in chosen(request.evaluation):
            suite = known[each.suite]
            events[each.suite] += 1
            cost[each.suite] += allowance(judge, case, [suite])
    for name, number in events.items():
        about = round(number * factor)
        yield SuiteCost(name, about, about * known[name].asks, cost[name] * factor / 1_000_000)
