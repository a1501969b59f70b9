"""The selection of a window's events for a suite: their probabilities, and sums over the events that were selected.

The sums are integers. Each event's 1/p is rounded once to a millionth, in the same way wherever the event is summed, so
that the difference of two sums is exactly the sum over the events that only one of them has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from ragweir.metrics.aggregation.summary import decode_sum, encode_sum, growth
from ragweir.schemas.window_record import ChanceRecord, SelectionRecord

SCALE = 1_000_000
LEAST = 1 / SCALE
"""Minimum probability; smaller ones count as this one, so that the maximum weight is a million."""


def times(one: int, other: int) -> int:
    """Return the product of two numbers in millionths, rounded."""
    return (one * other + SCALE // 2) // SCALE


@dataclass(frozen=True, slots=True)
class Weights:
    """Sums over events that were selected with probabilities p; see `ragweir.schemas.window.SelectionSums`.

    >>> Weights.of(0.25)
    Weights(count=1, drawn=1, weight=4000000, spread=12000000)
    """

    count: int = 0
    drawn: int = 0
    weight: int = 0
    """In millionths, as `spread`."""
    spread: int = 0

    @classmethod
    def of(cls, probability: float, number: int = 1) -> Weights:
        """Return the sums over so many events with one probability."""
        weight = round(SCALE / max(probability, LEAST))
        drawn = number if weight > SCALE else 0
        return cls(number, drawn, number * weight, number * times(weight, weight - SCALE))

    @property
    def certain(self) -> int:
        """The number of events with probability 1."""
        return self.count - self.drawn

    def plus(self, other: Weights) -> Weights:
        """Return the sums over the events of both."""
        return Weights(
            self.count + other.count, self.drawn + other.drawn, self.weight + other.weight, self.spread + other.spread
        )

    def minus(self, other: Weights) -> Weights:
        """Return the sums over these events without the others; see `is_possible`."""
        return Weights(
            self.count - other.count, self.drawn - other.drawn, self.weight - other.weight, self.spread - other.spread
        )

    def since(self, earlier: Weights) -> Weights:
        """Return the sums over the events after an earlier state.

        Raises:
            ValueError: if it is not an earlier state of this one.
        """
        return Weights(
            growth(self.count, earlier.count),
            growth(self.drawn, earlier.drawn),
            growth(self.weight, earlier.weight),
            growth(self.spread, earlier.spread),
        )

    @property
    def is_possible(self) -> bool:
        """True if there can be events with these sums."""
        if not 0 <= self.drawn <= self.count:
            return False
        excess = self.weight - self.count * SCALE
        return excess > 0 and self.spread > 0 if self.drawn else excess == 0 == self.spread


NO_EVENTS = Weights()
"""The sums over no events, the identity of `Weights.plus`."""


class Chance(NamedTuple):
    """The selection probabilities of a window's events; see `ragweir.schemas.window.SuiteChance`."""

    least: float = 1.0
    none: int = 0
    selected: Weights = NO_EVENTS

    def merged(self, other: Chance) -> Chance:
        """Return the probabilities of the events of both."""
        return Chance(min(self.least, other.least), self.none + other.none, self.selected.plus(other.selected))

    def since(self, earlier: Chance) -> Chance:
        """Return the probabilities of the events after an earlier state; `least` is that of all.

        Raises:
            ValueError: if it is not an earlier state of this one.
        """
        return Chance(self.least, growth(self.none, earlier.none), self.selected.since(earlier.selected))


def to_sums(weights: Weights) -> dict[str, Any]:
    """Return the record of sums."""
    return {
        "count": weights.count,
        "drawn": weights.drawn,
        "weight": encode_sum(weights.weight, SCALE),
        "spread": encode_sum(weights.spread, SCALE),
    }


def from_sums(record: SelectionRecord) -> Weights:
    """Return the sums of a record.

    >>> from_sums(SelectionRecord(**to_sums(Weights.of(0.02, 7)))) == Weights.of(0.02, 7)
    True

    Raises:
        ValueError: if they are inconsistent.
    """
    weights = Weights(record.count, record.drawn, decode_sum(record.weight, SCALE), decode_sum(record.spread, SCALE))
    if not weights.is_possible:
        raise ValueError("sums over selected events that do not fit together")
    return weights


def to_record(chance: Chance) -> dict[str, Any]:
    """Return the record of a suite's probabilities; without sums if no event was selected."""
    selected = {"selected": to_sums(chance.selected)} if chance.selected.count else {}
    return {"least": chance.least, "none": chance.none, **selected}


def from_record(record: ChanceRecord) -> Chance:
    """Return the probabilities of a record. One of an earlier release has no sums over selected events.

    Raises:
        ValueError: if its sums are inconsistent.
    """
    return Chance(record.least, record.none, from_sums(record.selected))
