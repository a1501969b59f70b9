"""Windows of simulated judgements: their estimates' sums, made with numpy, beside the true mean of all their events.

Events of several probabilities are selected and judged. Some judgements fail, some answers cannot be used, more of them
on bad events where that is assumed, and for some events the metric is not defined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragweir.metrics.aggregation.estimate import Estimate, EstimatedMetric
from ragweir.metrics.aggregation.selection import NO_EVENTS, SCALE, Chance, Weights

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
SUBJECT = EstimatedMetric("rubric")
_BATCH = 1_000_000
"""Events with scores that are drawn at a time."""


@dataclass(frozen=True)
class Stratum:
    """A part of the events, with one probability of being selected."""

    share: float
    probability: float
    bad: float = 0.0
    """Share of events with the score 0, if all others have the score 1."""
    scores: Callable[[np.random.Generator, int], Floats] | None = None
    """Draws other scores. A score below 0.5 is a bad one."""


@dataclass(frozen=True)
class Kind:
    """One kind of windows."""

    name: str
    strata: tuple[Stratum, ...]
    events: int
    unusable_bad: float = 0.0
    """Share of the answers on bad events that cannot be used."""
    unusable_good: float = 0.0
    failed: float = 0.0
    """Share of the selected events that are not judged."""
    undefined: float = 0.0
    """Share of the events for which the metric is not defined."""

    @property
    def is_complete(self) -> bool:
        """True if every selected event is answered."""
        return not (self.unusable_bad or self.unusable_good or self.failed)


class SimulatedWindow(NamedTuple):
    """One window, and what is true of it."""

    estimate: Estimate
    decisions: Mapping[str, int]
    chance: Chance
    truth: float
    """Mean of all events for which the metric is defined."""
    plain_mean: float
    """Mean of the judged events."""


def simulated(kind: Kind, windows: int, seed: int) -> Iterator[SimulatedWindow]:
    """Yield windows of one kind."""
    chance = np.random.default_rng(seed)
    if not any(stratum.scores for stratum in kind.strata):
        yield from _binary(kind, windows, chance)
        return
    size = max(1, _BATCH // kind.events)
    for first in range(0, windows, size):
        yield from _scored(kind, min(size, windows - first), chance)


def estimate_of(answered: Sequence[tuple[Weights, int, int]], undefined: Weights = NO_EVENTS) -> Estimate:
    """Return the estimate of events with the scores 0 and 1.

    Args:
        answered: of each probability, the sums over one event and the numbers of the events with either score.
        undefined: the sums over events for which the metric is not defined.
    """
    estimate = Estimate(SUBJECT, undefined=undefined)
    for one, zeros, ones in answered:
        estimate.count += zeros + ones
        estimate.weight += (zeros + ones) * one.weight
        estimate.weighted_sum += ones * one.weight
        if one.drawn:
            estimate.drawn += zeros + ones
            estimate.drawn_sum += ones * one.weight
            estimate.spread += (zeros + ones) * one.spread
            estimate.spread_sum += ones * one.spread
            estimate.spread_squares += ones * one.spread
    return estimate


def _decisions(kind: Kind, selected: int, judged: int) -> dict[str, int]:
    return {"selected": selected, "judged": judged, "not_selected": kind.events - selected}


def _binary(kind: Kind, windows: int, chance: np.random.Generator) -> Iterator[SimulatedWindow]:
    """Yield windows of scores 0 and 1, of which only numbers have to be drawn."""
    strata = kind.strata
    probabilities = np.array([stratum.probability for stratum in strata])
    ones = [Weights.of(stratum.probability) for stratum in strata]
    events = chance.multinomial(kind.events, [stratum.share for stratum in strata], size=windows)
    without = chance.binomial(events, kind.undefined)
    bad = chance.binomial(events - without, [stratum.bad for stratum in strata])
    good = events - without - bad
    # Numbers of events by stratum: selected, then judged, then answered.
    selected = [chance.binomial(number, probabilities) for number in (bad, good, without)]
    judged = [chance.binomial(number, 1 - kind.failed) for number in selected]
    answered = [
        chance.binomial(number, 1 - unusable)
        for number, unusable in zip(judged[:2], (kind.unusable_bad, kind.unusable_good), strict=True)
    ]
    truths = good.sum(axis=1) / np.maximum(1, (good + bad).sum(axis=1))
    rows = zip(
        _sum(selected), _sum(judged), judged[2].tolist(), *(each.tolist() for each in answered), truths, strict=True
    )
    least = float(probabilities.min())
    for all_selected, all_judged, undefined, zeros, full, truth in rows:
        numbers = list(zip(ones, zeros, full, strict=True))
        count = sum(zeros) + sum(full)
        yield SimulatedWindow(
            estimate_of(numbers, _total(ones, undefined)),
            _decisions(kind, sum(all_selected), sum(all_judged)),
            Chance(least, selected=_total(ones, all_selected)),
            float(truth),
            sum(full) / count if count else 0.0,
        )


def _sum(numbers: Sequence[Ints]) -> list[list[int]]:
    """Return the sums of numbers by window and stratum."""
    return np.sum(numbers, axis=0).tolist()  # type: ignore[no-any-return]


def _total(ones: Sequence[Weights], numbers: Sequence[int]) -> Weights:
    """Return the sums over so many events of each probability."""
    return Weights(
        sum(numbers),
        sum(one.drawn * number for one, number in zip(ones, numbers, strict=True)),
        sum(one.weight * number for one, number in zip(ones, numbers, strict=True)),
        sum(one.spread * number for one, number in zip(ones, numbers, strict=True)),
    )


def _scored(kind: Kind, windows: int, chance: np.random.Generator) -> Iterator[SimulatedWindow]:
    """Yield windows of any scores, whose products are rounded as `Estimate.add` rounds them."""
    shape = windows, kind.events
    strata = chance.choice(len(kind.strata), size=shape, p=[stratum.share for stratum in kind.strata])
    units = np.empty(shape, dtype=np.int64)
    for number, stratum in enumerate(kind.strata):
        held = strata == number
        if stratum.scores is None:
            scores = 1.0 - (chance.random(held.sum()) < stratum.bad)
        else:
            scores = stratum.scores(chance, int(held.sum()))
        units[held] = np.rint(scores * SCALE)
    ones = [Weights.of(stratum.probability) for stratum in kind.strata]
    drawn = np.array([one.drawn for one in ones])[strata]
    weight = np.array([one.weight for one in ones])[strata]
    spread = np.array([one.spread for one in ones])[strata]
    selected = chance.random(shape) < np.array([stratum.probability for stratum in kind.strata])[strata]
    judged = selected & (chance.random(shape) >= kind.failed)
    unusable = np.where(units < SCALE // 2, kind.unusable_bad, kind.unusable_good)
    answered = judged & (chance.random(shape) >= unusable)
    spread_units = _times(spread, units)
    columns = (
        *(answered, answered * drawn, answered * weight, answered * _times(weight, units)),
        *(answered * drawn * _times(weight, units), answered * spread, answered * spread_units),
        *(answered * _times(spread_units, units), answered * units),
        *(selected, selected * drawn, selected * weight, selected * spread, judged),
    )
    sums = np.stack([column.sum(axis=1, dtype=np.int64) for column in columns], axis=1).tolist()
    least = min(stratum.probability for stratum in kind.strata)
    for row, truth in zip(sums, units.mean(axis=1) / SCALE, strict=True):
        estimate = Estimate(SUBJECT, *row[:8])
        yield SimulatedWindow(
            estimate,
            _decisions(kind, row[9], row[13]),
            Chance(least, selected=Weights(*row[9:13])),
            float(truth),
            row[8] / SCALE / max(1, estimate.count),
        )


def _times(one: Ints, other: Ints) -> Ints:
    return (one * other + SCALE // 2) // SCALE
