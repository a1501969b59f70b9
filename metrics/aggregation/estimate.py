"""Estimates of judged metrics: means over all events, from those that were selected for the judge.

An event is selected with a probability p that its evaluation has: high by a rule, low by the random floor. So the plain
mean over judged events is one of suspicious events. The mean in which each event has the weight 1/p is an estimate for
all events with p above 0 (Hájek, 1971).

Estimates are sums, which merge like summaries: associative, commutative, with the empty estimate as identity. They are
integers in millionths. Each event's 1/p, and each product with it, is rounded once, when the event is added.

Selected events are unanswered if the metric is defined for them but has no value: the judge failed, its answer could
not be used, or it is still to come. Their sums are exactly those over the selected events, which `Chance` has, without
those of the estimate. The lower limit gives all of them the lowest score, the upper limit the highest.

A category has one estimate per label, of an indicator that is 1 for events with the label and 0 for others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ragweir.metrics.aggregation.interval import RandomSample, is_sufficient, limit
from ragweir.metrics.aggregation.selection import LEAST, NO_EVENTS, SCALE, Chance, Weights, from_sums, times, to_sums
from ragweir.metrics.aggregation.summary import decode_sum, encode_sum, growth
from ragweir.schemas.window import EstimateFlag, EstimateResult
from ragweir.schemas.window_record import EstimateRecord

_MOST = 1 - LEAST
"""Maximum probability below 1."""
_MOST_UNANSWERED = 0.2
"""The largest share of unanswered events for which a mean is given."""
_SEPARATOR = "="
"""Separates category and label; no metric's name has it."""


class EstimatedMetric(NamedTuple):
    """The suite of the estimated metric, and the bounds of its values."""

    suite: str
    low: float = 0.0
    high: float = 1.0


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

    >>> estimate = Estimate(EstimatedMetric("rubric"))
    >>> for score, probability in 8 * [(0.2, 1.0)] + 12 * [(0.9, 0.05)]:
    ...     estimate.add(score, probability)
    >>> decisions = {"selected": 20, "judged": 20, "not_selected": 230}
    >>> result = estimate.result(decisions, Chance(0.05, selected=estimate.answered))
    >>> result.mean, result.low, result.high, result.flags
    (0.8776, 0.673091, 0.898238, ())
    """

    subject: EstimatedMetric
    count: int = 0
    drawn: int = 0
    weight: int = 0
    weighted_sum: int = 0
    drawn_sum: int = 0
    spread: int = 0
    spread_sum: int = 0
    spread_squares: int = 0
    undefined: Weights = NO_EVENTS
    """Sums over the judged events for which the metric is not defined."""

    @property
    def answered(self) -> Weights:
        """The sums over the events that have a value."""
        return Weights(self.count, self.drawn, self.weight, self.spread)

    def add(self, score: float, probability: float) -> None:
        """Add one judged event. A score outside the bounds counts as the bound."""
        _, low, high = self.subject
        own = Weights.of(probability)
        weight, spread = own.weight, own.spread
        units = round(min(max(score, low), high) * SCALE)
        weighted = times(weight, units)
        self.count += 1
        self.weight += weight
        self.weighted_sum += weighted
        if own.drawn:
            self.drawn += 1
            self.drawn_sum += weighted
            self.spread += spread
            self.spread_sum += times(spread, units)
            self.spread_squares += times(times(spread, units), units)

    def add_undefined(self, probability: float) -> None:
        """Add one judged event for which the metric is not defined."""
        self.undefined = self.undefined.plus(Weights.of(probability))

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
        if other.undefined.count:
            self.undefined = self.undefined.plus(other.undefined)

    def since(self, earlier: Estimate) -> Estimate:
        """Return the estimate of the events that were added after an earlier state.

        Raises:
            ValueError: if it is not an earlier state of this one.
        """
        if earlier.subject != self.subject:
            raise ValueError(f"an estimate of {earlier.subject} is no earlier state of one of {self.subject}")
        sums = {name: getattr(self, name) - getattr(earlier, name) for name in _SUMS}
        drawn = growth(self.drawn, earlier.drawn)
        undefined = self.undefined.since(earlier.undefined)
        return Estimate(self.subject, growth(self.count, earlier.count), drawn, **sums, undefined=undefined)

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
        missing, number, counted = self._missing(decisions, chance)
        known = self.count - self.drawn + missing.certain
        limits: tuple[float, float] | None = None
        if self.drawn or missing.drawn:
            limits = self._interval(missing, number, min(max(chance.least, LEAST), _MOST))
        elif known and not left_out and (counted or not incomplete):
            limits = self._certain_limit(missing, upper=False), self._certain_limit(missing, upper=True)
        weight = self.weight + missing.weight
        unanswered = missing.weight / weight if weight else 0.0
        mean = None
        # Without a value of an event that was selected at random, there is nothing to estimate the others from.
        if self.count and unanswered <= _MOST_UNANSWERED and (self.drawn or not left_out or chance.least == 1):
            mean = self._mean(chance.selected.certain, number)
        flags: dict[EstimateFlag, bool] = {
            "too_few": limits is None,
            "unanswered": missing.count > 0,
            "incomplete": incomplete,
            "partial": chance.none > 0,
            "uncounted": not counted,
        }
        return EstimateResult(
            mean=None if mean is None else round(mean, 6),
            low=None if limits is None else round(limits[0], 6),
            high=None if limits is None else round(limits[1], 6),
            unanswered=round(unanswered, 6),
            flags=tuple(flag for flag, holds in flags.items() if holds),
        )

    def _missing(self, decisions: Mapping[str, int], chance: Chance) -> tuple[Weights, int | None, bool]:
        """Return the sums over the unanswered events, the number of events with 0 < p < 1, and whether all are counted.

        The number is None if it is not known for how many of these events the metric is defined.
        """
        selected = decisions.get("selected", 0)
        missing = chance.selected.minus(self.answered).minus(self.undefined)
        number = selected + decisions.get("not_selected", 0) - chance.none - chance.selected.certain
        if chance.selected.count != selected or not missing.is_possible or number < chance.selected.drawn:
            return NO_EVENTS, None, False
        return missing, None if self.undefined.count else number, True

    def _mean(self, certain: int, number: int | None) -> float:
        """Return the estimated mean, for so many events with p = 1 and with 0 < p < 1 if the latter are known.

        An unanswered event counts as the mean of the answered ones with such a probability.
        """
        mean = self.weighted_sum / self.weight
        if number is None:
            return mean
        own = self.count - self.drawn
        certain_mean = (self.weighted_sum - self.drawn_sum) / (own * SCALE) if own else mean
        drawn_mean = self.drawn_sum / (self.weight - own * SCALE) if self.drawn else mean
        return (certain * certain_mean + number * drawn_mean) / (certain + number)

    def _certain_sum(self, missing: Weights, bound: float) -> float:
        """Return the sum of the scores of the events with p = 1, the unanswered ones with this score."""
        return (self.weighted_sum - self.drawn_sum) / SCALE + bound * missing.certain

    def _certain_limit(self, missing: Weights, *, upper: bool) -> float:
        bound = self.subject.high if upper else self.subject.low
        return self._certain_sum(missing, bound) / (self.count - self.drawn + missing.certain)

    def _interval(self, missing: Weights, number: int | None, least: float) -> tuple[float, float] | None:
        """Return the limits, for which unanswered events have the lowest or the highest score."""
        bounds = self.subject.low, self.subject.high
        low, high = (self._drawn(missing, bound) for bound in bounds)
        if not is_sufficient(low, least):
            return None
        known = self.count - self.drawn + missing.certain
        return (
            limit(known, self._certain_sum(missing, bounds[0]), low, number, least, bounds, upper=False),
            limit(known, self._certain_sum(missing, bounds[1]), high, number, least, bounds, upper=True),
        )

    def _drawn(self, missing: Weights, bound: float) -> RandomSample:
        """Return the sample of the events with p below 1, the unanswered ones with this score."""
        weight = (missing.weight - missing.certain * SCALE) / SCALE
        spread = missing.spread / SCALE
        return RandomSample(
            (self.weight - (self.count - self.drawn) * SCALE) / SCALE + weight,
            self.drawn_sum / SCALE + bound * weight,
            self.spread / SCALE + spread,
            self.spread_sum / SCALE + bound * spread,
            self.spread_squares / SCALE + bound * bound * spread,
        )


_SUMS = ("weight", "weighted_sum", "drawn_sum", "spread", "spread_sum", "spread_squares")


def to_record(estimate: Estimate, result: EstimateResult | None) -> dict[str, Any]:
    """Return the record of an estimate."""
    sums = {name: encode_sum(getattr(estimate, name), SCALE) for name in _SUMS}
    undefined = {"undefined": to_sums(estimate.undefined)} if estimate.undefined.count else {}
    return {
        "suite": estimate.subject.suite,
        "count": estimate.count,
        "drawn": estimate.drawn,
        **sums,
        **undefined,
        "result": None if result is None else result.model_dump(),
    }


def from_record(record: EstimateRecord, low: float, high: float) -> Estimate:
    """Return the estimate of a record, for a metric with these bounds.

    >>> estimate = Estimate(EstimatedMetric("rubric", 0.0, 100.0))
    >>> estimate.add(37.5, 0.02)
    >>> from_record(EstimateRecord(**to_record(estimate, None)), 0.0, 100.0) == estimate
    True

    Raises:
        ValueError: if the sums are inconsistent.
    """
    sums = {name: decode_sum(getattr(record, name), SCALE) for name in _SUMS}
    subject = EstimatedMetric(record.suite, low, high)
    estimate = Estimate(subject, record.count, record.drawn, **sums, undefined=from_sums(record.undefined))
    if not estimate.answered.is_possible:
        raise ValueError("an estimate whose sums do not fit together")
    return estimate
