"""The frame of a draw: sums over all events of its range, by their verdicts and the chances of being judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from ragweir.metrics.aggregation import selection
from ragweir.metrics.aggregation.estimate import Estimate, EstimatedMetric
from ragweir.metrics.aggregation.selection import NO_EVENTS, SCALE, Chance, Weights
from ragweir.metrics.criterion import BAD, GOOD, NOT_SELECTED, UNDEFINED
from ragweir.metrics.people.shares import Limits
from ragweir.schemas.label import Draw
from ragweir.schemas.window_record import ChanceRecord, SelectionRecord

NO_CHANCE = Chance()
"""The probabilities of no events."""
Tally = Mapping[tuple[int, float], int]
"""Numbers of events by verdict and probability of being judged."""


@dataclass(frozen=True, slots=True)
class Frame:
    """Sums over the events of a range."""

    events: int = 0
    selected: int = 0
    not_selected: int = 0
    chance: Chance = NO_CHANCE
    undefined: Weights = NO_EVENTS
    bad: Weights = NO_EVENTS
    good: Weights = NO_EVENTS

    @classmethod
    def of(cls, tally: Tally) -> Frame:
        """Return the sums of counted events.

        >>> frame = Frame.of({(BAD, 1.0): 2, (GOOD, 0.5): 30, (NOT_SELECTED, 0.5): 28})
        >>> [round(each, 3) for each in frame.flagged()]
        [0.033, 0.033, 0.118, 0]
        """
        verdicts = dict.fromkeys((BAD, GOOD, UNDEFINED), NO_EVENTS)
        chance, selected = NO_CHANCE, 0
        for (verdict, probability), number in tally.items():
            if not probability:
                chance = chance.merged(Chance(none=number))
                continue
            weights = Weights.of(probability, number)
            is_selected = verdict != NOT_SELECTED
            selected += number if is_selected else 0
            chance = chance.merged(Chance(probability, 0, weights if is_selected else NO_EVENTS))
            if verdict in verdicts:
                verdicts[verdict] = verdicts[verdict].plus(weights)
        events = sum(tally.values())
        return cls(events, selected, events - selected, chance, verdicts[UNDEFINED], verdicts[BAD], verdicts[GOOD])

    @classmethod
    def from_draw(cls, draw: Draw) -> Frame:
        """Return the sums that a draw recorded.

        Raises:
            ValueError: if they do not fit together.
        """
        return cls(
            draw.events,
            draw.selected,
            draw.not_selected,
            selection.from_record(msgspec.convert(draw.chance.model_dump(), ChanceRecord)),
            *(
                selection.from_sums(SelectionRecord(**sums.model_dump()))
                for sums in (draw.undefined, draw.bad.judged, draw.good.judged)
            ),
        )

    def plus(self, other: Frame) -> Frame:
        """Return the sums over the events of both."""
        return Frame(
            self.events + other.events,
            self.selected + other.selected,
            self.not_selected + other.not_selected,
            self.chance.merged(other.chance),
            self.undefined.plus(other.undefined),
            self.bad.plus(other.bad),
            self.good.plus(other.good),
        )

    def flagged(self) -> Limits | str:
        """Return the share of events that the metric calls bad, or the reason why it is not known."""
        bad, both = self.bad, self.bad.plus(self.good)
        if not both.count:
            return "no event has the metric"
        estimate = Estimate(
            EstimatedMetric(""),
            both.count,
            both.drawn,
            both.weight,
            bad.weight,
            bad.weight - bad.certain * SCALE,
            both.spread,
            bad.spread,
            bad.spread,
            self.undefined,
        )
        decisions = {"selected": self.selected, "judged": self.selected, "not_selected": self.not_selected}
        found = estimate.result(decisions, self.chance)
        if found.mean is None:
            if "unanswered" in found.flags:
                return f"{found.unanswered:.0%} of the selected events have no answer of the judge"
            return "no event was judged at random, so that the judged ones stand for themselves alone"
        low, high = (0.0, 1.0) if found.low is None or found.high is None else (found.low, found.high)
        return Limits(found.mean, min(low, found.mean), max(high, found.mean), 0)
