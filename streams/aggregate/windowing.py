"""Windows of all sizes from a file's evaluations or from base windows, merged and closed.

The result equals that of the aggregate agent and the readers of its topic, without late events and parts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from operator import itemgetter

from ragweir.metrics.aggregation.aggregator import Aggregator
from ragweir.metrics.aggregation.cardinality import Admission, Labels, admit_sets, merge_sets
from ragweir.metrics.aggregation.window_aggregate import WindowAggregate
from ragweir.schemas.evaluation import Evaluation
from ragweir.schemas.packed_scores import ScoreRow, row_of
from ragweir.schemas.window import Window, duration_s
from ragweir.streams.aggregate.dimensions import Dimensions, admission_limits
from ragweir.streams.aggregate.window_batch import Key
from ragweir.streams.aggregate.window_times import has_windows, start_of
from ragweir.streams.settings import WindowSettings

_BATCH = 1_000
"""Evaluations that are summed together, which is much faster than one by one."""

Base = tuple[datetime, Mapping[Labels, WindowAggregate]]
"""The start of a base window, and its contents by label set."""


class Windowing:
    """Sums evaluations in any order. Memory grows with the windows and label sets, not with evaluations."""

    def __init__(self, settings: WindowSettings, aggregator: Aggregator) -> None:
        self._settings = settings
        self._base = timedelta(seconds=duration_s(settings.sizes[0]))
        self._dimensions = Dimensions(settings.dimensions, settings.values)
        self._aggregator = aggregator
        self._rows: list[ScoreRow] = []
        self._keys: list[Key] = []
        self._contents: defaultdict[datetime, defaultdict[Labels, WindowAggregate]] = defaultdict(
            lambda: defaultdict(WindowAggregate)
        )

    def add(self, evaluation: Evaluation) -> None:
        """Add an evaluation; one at an end of the calendar, where there is no room for windows, is left out."""
        if not has_windows(evaluation.event_time):
            return
        key = start_of(evaluation.event_time, self._base), self._dimensions.of(evaluation)
        self._keys.append(key)
        self._rows.append(row_of(evaluation))
        if len(self._rows) >= _BATCH:
            self._sum()

    def _sum(self) -> None:
        for (start, labels), contents in self._aggregator.aggregate(self._rows, self._keys).items():
            self._contents[start][labels].merge(contents)
        self._rows, self._keys = [], []

    def windows(self) -> Iterator[Window]:
        """Yield all windows, in the order of `of_all_sizes`."""
        self._sum()
        yield from of_all_sizes(sorted(self._contents.items(), key=itemgetter(0)), self._settings)


@dataclass(slots=True)
class _Open:
    """A window that further base windows may fall into."""

    size: str
    start: datetime
    end: datetime
    sets: dict[Labels, WindowAggregate] = field(default_factory=dict)

    def windows(self, dimensions: Iterable[str]) -> Iterator[Window]:
        """Yield the window of each label set."""
        for labels, contents in sorted(self.sets.items()):
            for summary in contents.metrics.values():  # The bytes must not depend on the order of events.
                summary.bins = dict(sorted(summary.bins.items()))
            yield Window(
                window=self.size,
                start=self.start,
                end=self.end,
                dimensions=dict(zip(dimensions, labels, strict=True)),
                partition=None,
                part=None,
                closed=True,
                **contents.fields(whole=True),
            )


def of_all_sizes(bases: Iterable[Base], settings: WindowSettings) -> Iterator[Window]:
    """Merge base windows into those of every size, and yield these ascending by end, then size, then label set.

    A window is yielded as soon as a base window starts at or after its end, so one accumulator per size is held, of at
    most `max_series` label sets and the overflow. As in `export`, label sets that earlier base windows kept apart have
    priority, then the busiest. The base windows are not changed.

    Raises:
        ValueError: if starts do not ascend, or summaries cannot be merged.
    """
    lengths = {size: timedelta(seconds=duration_s(size)) for size in settings.sizes}
    admission = Admission(admission_limits(settings))
    opened: dict[str, _Open] = {}
    before: datetime | None = None
    for start, sets in bases:
        if before is not None and start <= before:
            raise ValueError(f"the window of {start} comes after that of {before}")
        before = start
        for ended in sorted((each for each in opened.values() if each.end <= start), key=_order):
            yield from opened.pop(ended.size).windows(settings.dimensions)
        kept, _ = admit_sets(sets, admission, int(start.timestamp()))
        for size, length in lengths.items():
            if size not in opened:
                begin = start_of(start, length)
                opened[size] = _Open(size, begin, begin + length)
            merge_sets(opened[size].sets, kept, settings.max_series)
    for ended in sorted(opened.values(), key=_order):
        yield from ended.windows(settings.dimensions)


def _order(window: _Open) -> tuple[datetime, timedelta]:
    """Return the sort key of a window: its end, then its length."""
    return window.end, window.end - window.start
