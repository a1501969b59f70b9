"""The part of a window's record in the sums of shifts: those of bounded metrics, in millionths.

A judged metric is known of selected events alone, most of which a rule has selected because they are suspicious. Each
of them counts by the chance that the random floor would have selected it too: the lowest probability above 0, divided
by its own. So their sums are those of a random sample, which other rules do not change. The sum of their squares is not
known; the largest that values between the bounds can have takes its place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ragweir.metrics.aggregation.summary import scheme
from ragweir.metrics.catalogue import Catalogue
from ragweir.metrics.shift.history import SCALE, Bounds, Ints, Places
from ragweir.schemas.window_record import EstimatedSums, WindowSumsRecord


class Contribution(NamedTuple):
    """Sums of some metrics; see `ragweir.metrics.shift.history.HourSums.add`."""

    places: Places
    sums: Ints


class ShiftMetrics:
    """The metrics whose shifts are tested: those with bounds, except categories.

    Args:
        catalogue: the catalogue.
    """

    def __init__(self, catalogue: Catalogue) -> None:
        self.bounds: dict[str, Bounds] = {}
        """The bounds of the metrics, by name."""
        for name, metric in catalogue.metrics.items():
            own = scheme(metric)
            if metric.unit != "category" and own.low is not None and own.high is not None:
                self.bounds[name] = own.low, own.high
        places = {name: place for place, name in enumerate(self.bounds)}
        self._free = {name: place for name, place in places.items() if catalogue.metrics[name].cost == "free"}
        self._judged = {name: place for name, place in places.items() if name not in self._free}

    def contribution(self, window: WindowSumsRecord) -> Contribution:
        """Return the sums of a window's record."""
        free, judged = self._free, self._judged
        own = [(free[name], found) for name, found in window.metrics.items() if name in free and found.count]
        places = [place for place, _ in own]
        rows: list[tuple[float, float | str, float | str]] = [
            (found.count, found.sum, found.sum_squares) for _, found in own
        ]
        for name, estimated in window.estimates.items():
            if name in judged and (chance := window.chances.get(estimated.suite)) is not None:
                places.append(judged[name])
                rows.append(_of_random_floor(estimated, chance.least, *self.bounds[name]))
        # Sums above 2**53 are digits, which are rounded: in the same way each time that they are read.
        return Contribution(places, np.rint(np.array(rows, dtype=np.float64).reshape(-1, 3) * SCALE).astype(np.int64))

    def of_event(self, scores: Mapping[str, float | None]) -> Contribution:
        """Return the sums of one event, of the metrics that are not judged."""
        free = self._free
        found = [(free[name], value) for name, value in scores.items() if value is not None and name in free]
        values = np.array([value for _, value in found], dtype=np.float64)
        sums = np.stack([np.ones(len(values)), values, values * values], axis=1)
        return Contribution([place for place, _ in found], np.rint(sums * SCALE).astype(np.int64))


def _of_random_floor(found: EstimatedSums, least: float, low: float, high: float) -> tuple[float, float, float]:
    """Return the sums, with the largest sum of squares that values between the bounds can have."""
    count, total = least * float(found.weight), least * float(found.weighted_sum)
    return count, total, (low + high) * total - low * high * count
