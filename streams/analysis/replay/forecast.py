"""Estimate of a replay's size, duration and judge cost, from a sample of its records."""

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
from ragweir.streams.analysis.replay.request import replay_config
from ragweir.streams.files.events import read_events
from ragweir.streams.runtime.kafka.reader import OffsetRange, read
from ragweir.streams.runtime.records import Record
from ragweir.streams.services.evaluate.agent import EvaluateAgent
from ragweir.streams.services.judge.pricing import allowance
from ragweir.streams.services.judge.results import case_of, chosen
from ragweir.streams.settings import Settings

SAMPLE_RECORDS = 400
"""Number of records in the sample."""


@dataclass(frozen=True, slots=True)
class SuiteCost:
    """Upper bounds for one suite."""

    suite: str
    events: int
    calls: int
    """Without repairs and retries."""
    usd: float
    """Assumes one token per byte and answers of the maximum length."""


@dataclass(slots=True)
class ReplayEstimate:
    """Expected size, duration and cost of a replay, if its records resemble the sample."""

    records: int
    """An upper bound, unless `exact`: offsets include transaction markers."""
    exact: bool
    sampled: int
    seconds_each: float
    """CPU time per record on this machine."""
    outcomes: Counter[str] = field(default_factory=Counter)
    """Counts of the sample by series."""
    costs: tuple[SuiteCost, ...] = ()

    def hours(self, workers: int, rate: float | None) -> float:
        """Return the duration of evaluating with this many workers, each on a core of its own."""
        per_second = workers / self.seconds_each if self.seconds_each else float("inf")
        return self.records / min(per_second, rate or float("inf")) / 3600


def estimate(settings: Settings, run: Run) -> ReplayEstimate:
    """Evaluate a sample and extrapolate from it, without writing anything.

    Args:
        settings: the run's settings.
        run: the record of the run.

    Raises:
        PermanentError: if the records cannot be read.
        ConfigurationError: if the settings are invalid.
    """
    agent = EvaluateAgent(replay_config(settings, run))
    agent.preparation.start(lambda: True)  # Rows that cannot be read at the first attempt are left out of an estimate.
    records = list(islice(_sample(settings, run), SAMPLE_RECORDS))
    max_bytes = max_record_bytes(settings.limits.max_event_bytes)
    total = sum(1 for file in run.files for _ in read_events(Path(file.path), max_bytes))
    total += sum(extent.end - extent.start for extent in run.extents)
    outcomes: Counter[str] = Counter()
    requests = []
    start_s = time.process_time()
    for record in records:
        outcome = agent.handle([record])
        agent.on_commit()
        for (name, *_), count in outcome.counts.items():
            outcomes[name] += count
        requests += [each.value for each in outcome.emissions if each.topic == "judge.requests"]
    sampled = max(1, len(records))
    seconds_each = (time.process_time() - start_s) / sampled
    parsed = [JudgeRequest.model_validate(orjson.loads(value or b"")) for value in requests]
    costs = tuple(_costs(settings, parsed, total / sampled))
    return ReplayEstimate(total, bool(run.files), len(records), seconds_each, outcomes, costs)


def _sample(settings: Settings, run: Run) -> Iterator[Record]:
    """Yield the first records of each file or partition, about the same number of each."""
    max_bytes = max_record_bytes(settings.limits.max_event_bytes)
    sources = len(run.files) + sum(extent.end > extent.start for extent in run.extents)
    each = max(1, SAMPLE_RECORDS // max(1, sources))
    for file in run.files:
        for number, line in islice(read_events(Path(file.path), max_bytes), each):
            yield Record(run.topic, 0, number, None, line, None)
    for extent in run.extents:
        end = min(extent.end, extent.start + each)
        yield from read(settings, OffsetRange(extent.topic, {extent.partition: extent.start}, {extent.partition: end}))


def _costs(settings: Settings, requests: list[JudgeRequest], factor: float) -> Iterator[SuiteCost]:
    judge, known = settings.judge, suites(settings.judge.ragas_weights)
    events: Counter[str] = Counter()
    microdollars: defaultdict[str, int] = defaultdict(int)
    for request in requests:
        case, _ = case_of(request, judge.max_input_chars)
        for each in chosen(request.evaluation):
            suite = known[each.suite]
            events[each.suite] += 1
            microdollars[each.suite] += allowance(judge, case, [suite])
    for name, number in events.items():
        expected = round(number * factor)
        yield SuiteCost(name, expected, expected * known[name].asks, microdollars[name] * factor / 1_000_000)
