"""Windows of a file's evaluations: all sizes, merged and closed, the same whatever the order of the evaluations.

This is the plain counterpart of what the aggregate agent and the readers of its topic do step by step under disorder
and restarts: nothing is late, nothing is in parts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import MAXYEAR, MINYEAR, UTC, datetime, timedelta

from metrics.contents import Contents
from metrics.label_sets import Labels, capped
from metrics.totals import Scored, Totals
from schemas.evaluation import Evaluation
from schemas.window import Window, duration_s
from streams.dimensions import Dimensions
from streams.settings import WindowSettings

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_BATCH = 1_000
"""Summing up many evaluations at once costs far less than one by one."""

Key = tuple[datetime, Labels]


class Windowing:
    """Takes evaluations in any order. Memory grows with the distinct windows and label sets, not with evaluations."""

    def __init__(self, settings: WindowSettings, totals: Totals) -> None:
        self._sizes = {size: timedelta(seconds=duration_s(size)) for size in settings.sizes}
        self._base = self._sizes[settings.sizes[0]]
        self._dimensions = Dimensions(settings.dimensions, settings.values, settings.max_series)
        self._most = settings.max_series
        self._totals = totals
        self._waiting: list[Scored[Key]] = []
        self._contents: defaultdict[Key, Contents] = defaultdict(Contents)

    def add(self, evaluation: Evaluation) -> None:
        """Take one evaluation in. At either end of the calendar there is no room for windows, and it enters none."""
        if not MINYEAR < evaluation.event_time.year < MAXYEAR:
            return
        key = start_of(evaluation.event_time, self._base), self._dimensions.of(evaluation)
        self._waiting.append(self._totals.read(evaluation, key))
        if len(self._waiting) >= _BATCH:
            self._sum_up()

    def _sum_up(self) -> None:
        for key, contents in self._totals.of(self._waiting).items():
            self._contents[key].merge(contents)
        self._waiting = []

    def windows(self) -> Iterator[Window]:
        """All windows: the smallest size first, each by start and then label set."""
        self._sum_up()
        for size, length in self._sizes.items():
            starts: defaultdict[datetime, defaultdict[Labels, Contents]] = defaultdict(lambda: defaultdict(Contents))
            for (start, labels), contents in self._contents.items():
                starts[start_of(start, length)][labels].merge(contents)
            for start, sets in sorted(starts.items()):
                for labels, contents in sorted(capped(sets, self._most)[0].items()):
                    for summary in contents.metrics.values():  # Else the bytes would tell the order of the events.
                        summary.bins = dict(sorted(summary.bins.items()))
                    yield Window(
                        window=size,
                        start=start,
                        end=start + length,
                        dimensions=self._dimensions.named(labels),
                        partition=None,
                        part=None,
                        closed=True,
                        **contents.fields(whole=True),
                    )


def start_of(time: datetime, length: timedelta) -> datetime:
    """When the window of a length begins that a time falls into.

    >>> start_of(datetime(2026, 11, 22, 10, 7, tzinfo=UTC), timedelta(minutes=5)).isoformat()
    '2026-11-22T10:05:00+00:00'
    """
    return time - (time - _EPOCH) % length
