"""Estimates of judged metrics: means over all events, from those that were selected for the judge.

An event is selected with a probability p that its evaluation has: high by a rule, low by the random floor. So the plain
mean over judged events is one of suspicious events. The mean in which each event has the weight 1/p is an estimate for
all events with p above 0 (Hájek, 1971).

Estimates are sums, which merge like summaries: associative, commutative, with the empty estimate as identity. They are
integers in millionths. Each event's 1/p, and each product with it, is rounded once, when the event is added.

A category has one estimate per label, of an indicator that is 1 for events with the label and 0 for others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ragweir.metrics.aggregation.interval import RandomSample, interval
from ragweir.metrics.aggregation.summary import decode_sum, encode_sum, growth
from ragweir.schemas.window import EstimateFlag, EstimateResult, EstimateSums
from ragweir.schemas.window_record import EstimateRecord

_SCALE = 1_000_000
_LEAST = 1 / _SCALE
"""Minimum probability; smaller ones count as this one, so that the maximum weight is a million."""
_MOST = 1 - _LEAST
"""Maximum probability below 1."""
_SEPARATOR = "="
"""Separates category and label; no metric's name has it."""


class Subject(NamedTuple):
    """The suite of the estimated metric, and the bounds of its values."""

    suite: str
    low: float = 0.0
    high: float = 1.0


class Chance(NamedTuple):
    """The selection probabilities of a window's events; see `ragweir.schemas.window.SuiteChance`."""

    least: float = 1.0
    none: int = 0

    def merged(self, other: Chance) -> Chance:
        """Return the probabilities of the events of both."""
        return Chance(min(self.least, other.least), self.none + other.none)

    def since(self, earlier: Chance) -> Chance:
        """Return the probabilities of the events after an earlier state; `least` is that of all.

        Raises:
            ValueError: if it is not an earlier state of this one.
        """
        return Chance(self.least, growth(self.none, earlier.none))


def estimate_name(category: str, label: str) -> str:
    """Return the name of the estimate of a label's share.

    >>> estimate_name("answer_class", "WRONG")
    'answer_class=WRONG'
    """
    return f"{category}{_SEPARATOR}{label}"


def parse_estimate_name(name: str) -> tuple[str, str]:
    """Return the metric and the label of an estimate's name; the label is empty unless the metric is a category.

    >>> parse_estimate_name("answer_class=WRONG"), parse_estimate_name("judge_relevance")
    (('answer_class', 'WRONG'), ('judge_relevance', ''))
    """
    metric, _, label = name.partition(_SEPARATOR)
    return metric, label


@dataclass(slots=True)
class Estimate:
    """The sums of one metric's scores y, as in `ragweir.schemas.window.EstimateSums`, in millionths except the counts.

    Eight events that a rule selected have the score 0.2. Twelve with p = 0.05 have 0.9 and represent 240:

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
    weight: int = 0
    weighted_sum: int = 0
    drawn_sum: int = 0
    spread: int = 0
    spread_sum: int = 0
    spread_squares: int = 0

    def add(self, score: float, probability: float) -> None:
        """Add one judged event. A score outside the bounds counts as the bound."""
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
        """Add the events of another estimate.

        Raises:
            ValueError: if it is of another suite, or of values with other bounds.
        """
        if other.subject != self.subject:
            raise ValueError(f"an estimate of {other.subject} cannot be merged into one of {self.subject}")
        # A loop over the fields takes three times as long.
        self.count += other.count
        self.drawn += other.drawn
        self.weight += other.weight
        self.weighted_sum += other.weighted_sum
        self.drawn_sum += other.drawn_sum
        self.spread += other.spread
        self.spread_sum += other.spread_sum
        self.spread_squares += other.spread_squares

    def since(self, earlier: Estimate) -> Estimate:
        """Return the estimate of the events that were added after an earlier state.

        Raises:
            ValueError: if it is not an earlier state of this one.
        """
        if earlier.subject != self.subject:
            raise ValueError(f"an estimate of {earlier.subject} is no earlier state of one of {self.subject}")
        sums = {name: getattr(self, name) - getattr(earlier, name) for name in _SUMS}
        drawn = growth(self.drawn, earlier.drawn)
        return Estimate(self.subject, growth(self.count, earlier.count), drawn, **sums)

    def copy(self) -> Estimate:
        """Return a copy that can be merged into."""
        return replace(self)

    def result(self, decisions: Mapping[str, int], chance: Chance) -> EstimateResult:
        """Return the estimated mean with its interval and flags.

        Args:
            decisions: number of the window's events by status with the suite.
            chance: probabilities of the window's events with the suite.
        """
        left_out = decisions.get("not_selected", 0)
        incomplete = decisions.get("selected", 0) != decisions.get("judged", 0)
        mean = self.weighted_sum / self.weight if self.weight else None
        limits: tuple[float, float] | None = None
        if self.drawn:
            limits = self._interval(min(max(chance.least, _LEAST), _MOST))
        elif mean is not None and not left_out and not incomplete:
            limits = mean, mean
        elif left_out and chance.least < 1:  # No event was selected at random.
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
            RandomSample(*(units / _SCALE for units in drawn)),
            least,
            (self.subject.low, self.subject.high),
        )


_SUMS = ("weight", "weighted_sum", "drawn_sum", "spread", "spread_sum", "spread_squares")


def _times(one: int, other: int) -> int:
    """Return the product of two numbers in millionths, rounded."""
    return (one * other + _SCALE // 2) // _SCALE


def to_record(estimate: Estimate, result: EstimateResult | None) -> dict[str, Any]:
    """Return the record of an estimate."""
    sums = {name: encode_sum(getattr(estimate, name), _SCALE) for name in _SUMS}
    return {
        "suite": estimate.subject.suite,
        "count": estimate.count,
        "drawn": estimate.drawn,
        **sums,
        "result": None if result is None else result.model_dump(),
    }


def from_record(record: EstimateSums | EstimateRecord, low: float, high: float) -> Estimate:
    """Return the estimate of a record, for a metric with these bounds.

    >>> estimate = Estimate(Subject("rubric", 0.0, 100.0))
    >>> estimate.add(37.5, 0.02)
    >>> from_record(EstimateSums.model_validate(to_record(estimate, None)), 0.0, 100.0) == estimate
    True

    Raises:
        ValueError: if the sums are inconsistent.
    """
    sums = {name: decode_sum(getattr(record, name), _SCALE) for name in _SUMS}
    most = sums["weight"] - record.count * _SCALE
    if record.drawn > record.count or (most <= 0 or sums["spread"] <= 0 if record.drawn else most != 0):
        raise ValueError("an estimate whose sums do not fit together")
    return Estimate(Subject(record.suite, low, high), record.count, record.drawn, **sums)
