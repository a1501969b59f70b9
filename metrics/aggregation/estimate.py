"""Estimates of judged metrics: what all events would have scored, from those that were drawn for the judge.

An event is drawn with a probability p that its evaluation records: 1 where a rule demands it, small where only the
floor does. So the plain mean of what was judged speaks of suspicious events. The mean in which each event counts 1/p
times speaks of all that had a chance (Hájek, 1971).

What is kept are sums, which merge as summaries do: associative, commutative, with the empty estimate as identity. They
are integers in millionths. Each event's 1/p, and each product with it, is rounded once, when the event comes in.

A category has one estimate per label, of what is 1 for the events with the label and 0 for the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ragweir.metrics.aggregation.interval import Drawn, interval
from ragweir.metrics.aggregation.summary import as_number, as_units, growth
from ragweir.schemas.window import EstimateFlag, EstimateResult, EstimateSums

_SCALE = 1_000_000
_LEAST = 1 / _SCALE
"""Smaller probabilities count as this one: no event stands for more than a million."""
_MOST = 1 - _LEAST
"""Larger probabilities below 1 count as this one."""
_BETWEEN = "="
"""Between the name of a category and a label; no metric's name has it."""


class Subject(NamedTuple):
    """What is estimated."""

    suite: str
    low: float = 0.0
    """Bounds of its values."""
    high: float = 1.0


class Chance(NamedTuple):
    """With which probabilities a suite could have drawn the events of a window. That of no events is the default."""

    least: float = 1.0
    """The least that is over 0."""
    none: int = 0
    """Events that could not be drawn."""

    def merged(self, other: Chance) -> Chance:
        """Of the events of both."""
        return Chance(min(self.least, other.least), self.none + other.none)

    def since(self, earlier: Chance) -> Chance:
        """Return the chance of the events after an earlier state of this one; the least is that of all.

        Raises:
            ValueError: if it is not an earlier state of this one.
        """
        return Chance(self.least, growth(self.none, earlier.none))


def share_of(category: str, label: str) -> str:
    """The name under which windows have the estimate of a label's share.

    >>> share_of("answer_class", "WRONG")
    'answer_class=WRONG'
    """
    return f"{category}{_BETWEEN}{label}"


def metric_and_label(name: str) -> tuple[str, str]:
    """What an estimate's name speaks of; the label is empty unless the metric is a category.

    >>> metric_and_label("answer_class=WRONG"), metric_and_label("judge_relevance")
    (('answer_class', 'WRONG'), ('judge_relevance', ''))
    """
    metric, _, label = name.partition(_BETWEEN)
    return metric, label


@dataclass(slots=True)
class Estimate:
    """The sums of one metric's scores y. All but the two counts are in millionths.

    Eight events that a rule demanded scored 0.2. Twelve drawn at p = 0.05 scored 0.9 and stand for 240:

    >>> estimate = Estimate(Subject("rubric"))
    >>> for score, probability in 8 * [(0.2, 1.0)] + 12 * [(0.9, 0.05)]:
    ...     estimate.add(score, probability)
    >>> result = estimate.result({"selected": 20, "judged": 20, "not_selected": 230}, Chance(0.05))
    >>> result.mean, result.low, result.high, result.flags
    (0.877419, 0.672073, 0.900066, ())
    """

    subject: Subject
    count: int = 0
    drawn: int = 0
    """How many of them had a p below 1."""
    weight: int = 0
    """Sum of 1/p."""
    weighted_sum: int = 0
    """Sum of y/p."""
    drawn_sum: int = 0
    """Sum of y/p over those drawn."""
    spread: int = 0
    """Sum of (1 - p)/p²."""
    spread_sum: int = 0
    """Sum of y(1 - p)/p²."""
    spread_squares: int = 0
    """Sum of y²(1 - p)/p²."""

    def add(self, score: float, probability: float) -> None:
        """Take one judged event in. A score beyond the bounds counts as the bound."""
        _, low, high = self.subject
        weight = round(_SCALE / max(probability, _LEAST))
        units = round(min(max(score, low), high) * _SCALE)
        weighted = _times(weight, units)
        self.count += 1
        self.weight += weight
        self.weighted_sum += weighted
        if weight > _SCALE:
            spread = _times(weight, weight - _SCALE)
            self.drawn += 1
            self.drawn_sum += weighted
            self.spread += spread
            self.spread_sum += _times(spread, units)
            self.spread_squares += _times(_times(spread, units), units)

    def merge(self, other: Estimate) -> None:
        """Take another estimate in.

        Raises:
            ValueError: if it is of another suite, or of values with other bounds.
        """
        if other.subject != self.subject:
            raise ValueError(f"an estimate of {other.subject} cannot be merged into one of {self.subject}")
        self.count += other.count
        self.drawn += other.drawn
        self.weight += other.weight
        self.weighted_sum += other.weighted_sum
        self.drawn_sum += other.drawn_sum
        self.spread += other.spread
        self.spread_sum += other.spread_sum
        self.spread_squares += other.spread_squares

    def since(self, earlier: Estimate) -> Estimate:
        """The events that came in after an earlier state of this estimate.

        Raises:
            ValueError: if it is not an earlier state of this one.
        """
        if earlier.subject != self.subject:
            raise ValueError(f"an estimate of {earlier.subject} is no earlier state of one of {self.subject}")
        sums = {name: getattr(self, name) - getattr(earlier, name) for name in _SUMS}
        drawn = growth(self.drawn, earlier.drawn)
        return Estimate(self.subject, growth(self.count, earlier.count), drawn, **sums)

    def copy(self) -> Estimate:
        """The same, to be merged into."""
        return replace(self)

    def result(self, decisions: Mapping[str, int], chance: Chance) -> EstimateResult:
        """What it comes to.

        Args:
            decisions: how many events of the window have which status with the suite.
            chance: the window's with the suite.
        """
        left_out = decisions.get("not_selected", 0)
        incomplete = decisions.get("selected", 0) != decisions.get("judged", 0)
        mean = self.weighted_sum / self.weight if self.weight else None
        limits: tuple[float, float] | None = None
        if self.drawn:
            limits = self._interval(min(max(chance.least, _LEAST), _MOST))
        elif mean is not None and not left_out and not incomplete:
            limits = mean, mean
        elif left_out and chance.least < 1:  # Nobody was drawn who could speak of these.
            mean = None
        flags: dict[EstimateFlag, bool] = {
            "too_few": limits is None,
            "incomplete": incomplete,
            "partial": chance.none > 0,
        }
        return EstimateResult(
            mean=None if mean is None else round(mean, 6),
            low=None if limits is None else round(limits[0], 6),
            high=None if limits is None else round(limits[1], 6),
            flags=tuple(flag for flag, holds in flags.items() if holds),
        )

    def _interval(self, least: float) -> tuple[float, float] | None:
        known = self.count - self.drawn
        drawn = (self.weight - known * _SCALE, self.drawn_sum, self.spread, self.spread_sum, self.spread_squares)
        return interval(
            known,
            (self.weighted_sum - self.drawn_sum) / _SCALE,
            Drawn(*(units / _SCALE for units in drawn)),
            least,
            (self.subject.low, self.subject.high),
        )


_SUMS = ("weight", "weighted_sum", "drawn_sum", "spread", "spread_sum", "spread_squares")


def _times(one: int, other: int) -> int:
    """The product of two numbers in millionths, rounded."""
    return (one * other + _SCALE // 2) // _SCALE


def written(estimate: Estimate, result: EstimateResult | None) -> dict[str, Any]:
    """An estimate as records have it: sums as plain numbers, or as text where a number could not hold them exactly."""
    sums = {name: as_number(getattr(estimate, name), _SCALE) for name in _SUMS}
    return {
        "suite": estimate.subject.suite,
        "count": estimate.count,
        "drawn": estimate.drawn,
        **sums,
        "result": None if result is None else result.model_dump(),
    }


def read(record: EstimateSums, low: float, high: float) -> Estimate:
    """An estimate from a record, of a metric with these bounds.

    >>> estimate = Estimate(Subject("rubric", 0.0, 100.0))
    >>> estimate.add(37.5, 0.02)
    >>> read(EstimateSums.model_validate(written(estimate, None)), 0.0, 100.0) == estimate
    True

    Raises:
        ValueError: if no events have such sums.
    """
    sums = {name: as_units(getattr(record, name), _SCALE) for name in _SUMS}
    most = sums["weight"] - record.count * _SCALE
    if record.drawn > record.count or (most <= 0 or sums["spread"] <= 0 if record.drawn else most != 0):
        raise ValueError("an estimate whose sums do not fit together")
    return Estimate(Subject(record.suite, low, high), record.count, record.drawn, **sums)
