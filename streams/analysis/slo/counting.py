"""Counts of good and bad events per minute of event time, by SLO and by dimension value, in bounded memory.

A count takes 16 bytes for each minute, value and outcome that occurs, and the worst events of every ten minutes are
kept; nothing grows with the number of events. Events for an SLO on a judged metric also have weights.
"""

from __future__ import annotations

from bisect import insort
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from itertools import islice

from ragweir.metrics.aggregation.aggregator import Aggregator
from ragweir.metrics.aggregation.cardinality import Labels
from ragweir.schemas.evaluation import Evaluation
from ragweir.schemas.evaluation_record import EvaluationRecord
from ragweir.schemas.window import OVERFLOW
from ragweir.streams.analysis.slo.certainty import OUTCOMES
from ragweir.streams.analysis.slo.minutes import CountColumns, MinuteCounts, MinuteWeights, WeightColumns
from ragweir.streams.services.aggregate.objectives import Objective
from ragweir.streams.services.shared.dimensions import Dimensions
from ragweir.streams.settings import Slo, WindowSettings

MINUTE_SECONDS = 60
EXAMPLES = 5
"""Number of worst events kept per interval."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MINUTE = timedelta(seconds=MINUTE_SECONDS)
_EXAMPLE_MINUTES = 10
"""Interval of the worst events."""
_KEY_BYTES = 12


@dataclass(frozen=True, slots=True)
class Example:
    """A bad event."""

    event_id: str
    event_time: datetime
    score: float


_Worst = tuple[float, str, datetime, float, bytes]
"""Rank, id, time and score of an event, and its question."""


class _WorstEvents:
    """The worst event of each of the worst questions of every ten minutes, independent of the order of events."""

    def __init__(self, slo: Slo) -> None:
        self._sign = 1.0 if slo.at_least is not None else -1.0
        self._events: defaultdict[int, list[_Worst]] = defaultdict(list)

    def add(self, minute: int, evaluation: Evaluation | EvaluationRecord, score: float) -> None:
        """Add a bad event."""
        kept = self._events[minute // _EXAMPLE_MINUTES]
        rank = self._sign * score
        if len(kept) == EXAMPLES and rank > kept[-1][0]:
            return
        entry = rank, evaluation.event_id, evaluation.event_time, score, _question(evaluation)
        same = next((place for place, each in enumerate(kept) if each[-1] == entry[-1]), None)
        if same is not None:
            if kept[same] <= entry:
                return
            del kept[same]
        insort(kept, entry)
        del kept[EXAMPLES:]

    def between(self, start: int, end: int) -> tuple[Example, ...]:
        """Return the worst events from one minute to before another, each of another question."""
        blocks = range(start // _EXAMPLE_MINUTES, (end - 1) // _EXAMPLE_MINUTES + 1)
        near = [each for block in blocks if block in self._events for each in self._events[block]]
        worst: dict[bytes, Example] = {}
        for _, event_id, time, score, question in sorted(near):
            if start <= minute_of(time) < end:
                worst.setdefault(question, Example(event_id, time, score))
        return tuple(islice(worst.values(), EXAMPLES))


def _question(evaluation: Evaluation | EvaluationRecord) -> bytes:
    """Return a short key of an event's question: its id, else its text, else that of the event alone."""
    text = evaluation.text and evaluation.text.query
    known = next(each for each in enumerate((evaluation.question_id, text, evaluation.event_id)) if each[1] is not None)
    return blake2b(repr(known).encode("utf-8", "surrogatepass"), digest_size=_KEY_BYTES).digest()


def minute_of(time: datetime) -> int:
    """Return the minute of a time, counted from 1970.

    >>> minute_of(datetime(1970, 1, 1, 0, 1, 59, tzinfo=UTC)), minute_of(datetime(1969, 12, 31, 23, 59, tzinfo=UTC))
    (1, -1)
    """
    return (time - _EPOCH) // _MINUTE


def time_of(minute: int) -> datetime:
    """Return the start of a minute."""
    return _EPOCH + timedelta(seconds=MINUTE_SECONDS * minute)


class SloCounter:
    """Counts evaluations for SLOs as the aggregate service does, but by event time.

    Evaluations come in any order. Like the service, it counts an event twice if its record is read twice.

    Args:
        slos: the SLOs.
        by: dimensions whose values are counted separately.
        windows: settings that limit the values of each dimension; further values are counted together.
        aggregator: reads the scores of an evaluation.
    """

    def __init__(self, slos: Sequence[Slo], by: Sequence[str], windows: WindowSettings, aggregator: Aggregator) -> None:
        self.slos, self.by = tuple(slos), tuple(by)
        self.first: datetime | None = None
        """Time of the earliest event."""
        self.last: datetime | None = None
        self.evaluations = 0
        self._aggregator = aggregator
        self._dimensions = [Dimensions([name], windows.values) for name in by]
        self._max_values = windows.max_series
        self._numbers: list[dict[Labels, int]] = [{} for _ in by]
        self._objectives = [Objective.of(slo, aggregator) for slo in slos]
        self._counts = [MinuteCounts() for _ in slos]
        self._weights = [MinuteWeights() if own.suite else None for own in self._objectives]
        self._counts_by_value = [[MinuteCounts() for _ in by] for _ in slos]
        self._worst = [_WorstEvents(slo) for slo in slos]

    def add(self, evaluation: Evaluation | EvaluationRecord) -> None:
        """Count one evaluation."""
        time = evaluation.event_time
        self.evaluations += 1
        self.first = time if self.first is None else min(self.first, time)
        self.last = time if self.last is None else max(self.last, time)
        judged, scores = evaluation.stage == "judged", evaluation.scores
        decisions = [(each.suite, each.status, each.probability) for each in evaluation.decision.suites]
        minute = minute_of(time)
        values: list[int] | None = None
        for place, objective in enumerate(self._objectives):
            score = scores.get(objective.slo.metric)
            found = objective.outcome(score, decisions, judged=judged, undefined=evaluation.undefined)
            if found is None or not objective.covers(evaluation):
                continue
            outcome, weight = found
            if (weights := self._weights[place]) is not None:
                weights.add(minute, OUTCOMES.index(outcome), weight)
            if score is None or outcome not in ("good", "bad"):
                continue
            bad = outcome == "bad"
            values = self._values(evaluation) if values is None else values
            self._counts[place].add(minute, 0, bad=bad)
            for counts, value in zip(self._counts_by_value[place], values, strict=True):
                counts.add(minute, value, bad=bad)
            if bad:
                self._worst[place].add(minute, evaluation, score)

    def _values(self, evaluation: Evaluation | EvaluationRecord) -> list[int]:
        """Return the number of an event's value in each dimension; values over the limit share one number."""
        found = []
        for dimension, numbers in zip(self._dimensions, self._numbers, strict=True):
            value = dimension.of(evaluation)
            admitted = value if value in numbers or len(numbers) < self._max_values else (OVERFLOW,)
            found.append(numbers.setdefault(admitted, len(numbers)))
        return found

    def counts(self, slo: int) -> CountColumns:
        """Return the counts of an SLO, given by its index."""
        return self._counts[slo].counts()

    def weights(self, slo: int) -> WeightColumns | None:
        """Return the sums of weights of an SLO on a judged metric; None of any other SLO."""
        own = self._weights[slo]
        return None if own is None else own.weights()

    def counts_by_value(self, slo: int) -> Iterator[tuple[str, list[str], CountColumns]]:
        """Yield for each dimension its name, its values by their numbers, and the counts."""
        for name, numbers, counts in zip(self.by, self._numbers, self._counts_by_value[slo], strict=True):
            yield name, [value for (value,) in numbers], counts.counts()

    def worst(self, slo: int, start: int, end: int) -> tuple[Example, ...]:
        """Return the worst events of an SLO from one minute to before another, the worst first."""
        return self._worst[slo].between(start, end)
